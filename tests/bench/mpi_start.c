// The shortest MPI program that all ranks have to start for: rank 0 speaks behind the first
// barrier.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    puts("all are here");
    fflush(stdout);
  }
  alarm(5);  // between hosts MPICH 4.0.2 hangs in it now and then, whoever has started it
  MPI_Finalize();
  return 0;
}
