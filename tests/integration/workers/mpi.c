// An MPI program of any kind: its first word says what the last rank does between MPI_Init and
// MPI_Finalize.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A token goes round all ranks, each adds its own.
static int ring(int rank, int size) {
  int token = rank;
  if (size == 1) {
    return token;
  }
  if (rank != 0) {
    MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token += rank;
  }
  MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return token;
}

static void tell(int rank, int size) {
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int here = 0;
  MPI_Comm_size(node, &here);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int* app = NULL;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &known);
  printf("rank %d of %d here %d ring %d sum %d app %d\n", rank, size, here, ring(rank, size), sum,
         known ? *app : -1);
  fflush(stdout);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "tell";
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int last = rank == size - 1;
  if (last && strcmp(what, "leave") == 0) {
    _Exit(0);
  }
  if (last && strncmp(what, "die", 3) == 0 &&
      strcmp(getenv("TORCHELASTIC_RESTART_COUNT"), "0") == 0) {
    raise(SIGKILL);
  }
  if (strcmp(what, "wait") == 0) {
    printf("rank %d waits\n", rank);
    fflush(stdout);
    for (;;) {
      pause();
    }
  }
  if (last && strcmp(what, "publish") == 0) {
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Open_port(MPI_INFO_NULL, port);
    printf("published: %d\n", MPI_Publish_name("muster", MPI_INFO_NULL, port) == MPI_SUCCESS);
  }
  tell(rank, size);
  if (strstr(what, "abort") != NULL) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (last) {
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }
  MPI_Finalize();
  return 0;
}
