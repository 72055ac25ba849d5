// The same for MPI; collectives.py builds it once for each MPI.
#include <mpi.h>

#include "tests/bench/perf.h"

namespace {

class Comm {
 public:
  Comm() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  void Barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  void Sum(float* data, size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void Max(double* data, size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  void Broadcast(float* data, size_t count) {
    MPI_Bcast(data, static_cast<int>(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  void AllGather(const float* in, float* out, size_t count) {
    MPI_Allgather(in, static_cast<int>(count), MPI_FLOAT, out, static_cast<int>(count), MPI_FLOAT,
                  MPI_COMM_WORLD);
  }
  void AllToAll(const float* in, float* out, size_t count) {
    MPI_Alltoall(in, static_cast<int>(count), MPI_FLOAT, out, static_cast<int>(count), MPI_FLOAT,
                 MPI_COMM_WORLD);
  }
  void Send(const float* data, size_t count, int to) {
    MPI_Send(data, static_cast<int>(count), MPI_FLOAT, to, 0, MPI_COMM_WORLD);
  }
  void Recv(float* data, size_t count, int from) {
    MPI_Recv(data, static_cast<int>(count), MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Settings settings = bench::Read(argc, argv);
  const double begin = bench::Now();
  MPI_Init(&argc, &argv);
  Comm comm;
  comm.Barrier();
  bench::Run(comm, settings, bench::Now() - begin);
  MPI_Finalize();
  return 0;
}
