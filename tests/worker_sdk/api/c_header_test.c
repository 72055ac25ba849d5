/* muster.h as a C program sees it: it compiles as C99, and every function is there. */
#include <stdio.h>
#include <string.h>

#include "muster/muster.h"

static int failures = 0;

static void Expect(int good, const char* what) {
  if (good) return;
  printf("failed: %s\n", what);
  ++failures;
}

static void Collectives(muster_comm* comm) {
  float x[3] = {1, 2, 3};
  float y[9] = {0};
  Expect(muster_barrier(comm) == MUSTER_OK, "barrier");
  Expect(muster_all_reduce(comm, x, x, 3, MUSTER_FLOAT32, MUSTER_SUM) == MUSTER_OK, "all_reduce");
  Expect(muster_reduce(comm, x, NULL, 3, MUSTER_FLOAT32, MUSTER_MAX, 0) == MUSTER_OK, "reduce");
  Expect(muster_broadcast(comm, x, 3, MUSTER_FLOAT32, 2) == MUSTER_OK, "broadcast");
  Expect(muster_all_gather(comm, x, y, 3, MUSTER_FLOAT32) == MUSTER_OK, "all_gather");
  Expect(muster_gather(comm, x, y, 3, MUSTER_FLOAT32, 1) == MUSTER_OK, "gather");
  Expect(muster_scatter(comm, y, x, 3, MUSTER_FLOAT32, 1) == MUSTER_OK, "scatter");
  Expect(muster_reduce_scatter(comm, y, x, 3, MUSTER_FLOAT32, MUSTER_AVG) == MUSTER_OK,
         "reduce_scatter");
  Expect(muster_all_to_all(comm, y, y, 3, MUSTER_FLOAT32) == MUSTER_OK, "all_to_all");
}

static void Parts(muster_comm* comm) {
  const int64_t counts[3] = {2, 0, 1};
  float x[3] = {1, 2, 3};
  float y[3] = {0};
  Expect(muster_all_gather_v(comm, NULL, y, counts, MUSTER_FLOAT32) == MUSTER_OK, "all_gather_v");
  Expect(muster_gather_v(comm, NULL, y, counts, MUSTER_FLOAT32, 1) == MUSTER_OK, "gather_v");
  Expect(muster_scatter_v(comm, x, NULL, counts, MUSTER_FLOAT32, 1) == MUSTER_OK, "scatter_v");
  Expect(muster_reduce_scatter_v(comm, x, NULL, counts, MUSTER_FLOAT32, MUSTER_AVG) == MUSTER_OK,
         "reduce_scatter_v");
  Expect(muster_all_to_all_v(comm, x, counts, y, counts, MUSTER_FLOAT32) == MUSTER_OK,
         "all_to_all_v");
}

static void Messages(muster_comm* comm) {
  float x[3] = {1, 2, 3};
  Expect(muster_send(comm, x, 3, MUSTER_FLOAT32, 2, 0) == MUSTER_OK, "send");
  Expect(muster_recv(comm, x, 3, MUSTER_FLOAT32, 0, 1) == MUSTER_OK, "recv");
}

static void Started(muster_comm* comm) {
  float x[3] = {1, 2, 3};
  muster_work* work = NULL;
  Expect(muster_all_reduce_async(comm, x, x, 3, MUSTER_FLOAT32, MUSTER_SUM, &work) == MUSTER_OK,
         "all_reduce_async");
  Expect(muster_test(work) == 0, "test");
  Expect(muster_wait(work) == MUSTER_OK, "wait");
  Expect(muster_work_source(work) == MUSTER_ANY_RANK, "work_source");
  muster_work_free(work);
}

static void Rounds(muster_comm* comm) {
  int64_t step = 1;
  void* data[1] = {&step};
  const int64_t counts[1] = {1};
  const int dtypes[1] = {MUSTER_INT64};
  struct muster_agreed agreed = {0, 0, 0, 0, 0};
  muster_comm* next = NULL;
  Expect(muster_reform(comm, &next) == MUSTER_OK && next != NULL, "reform");
  Expect(muster_get_agreed(next, &agreed) == MUSTER_OK && agreed.holder == 2, "agreed");
  Expect(muster_is_replacement(next) == 1 && muster_last_call(next) == 9, "replacement");
  Expect(muster_commit(next, step) == MUSTER_OK, "commit");
  Expect(muster_broadcast_state(next, data, counts, dtypes, 1) == MUSTER_OK, "broadcast_state");
  muster_free(next);
}

int main(void) {
  muster_comm* comm = NULL;
  muster_comm* group = NULL;
  struct muster_counters counters = {0, 0, 0, 0};
  Expect(muster_init(&comm) == MUSTER_OK && comm != NULL, "init");
  Expect(muster_rank(comm) == 1 && muster_size(comm) == 3, "rank and size");
  Expect(muster_local_rank(comm) == 1 && muster_local_size(comm) == 3, "local rank and size");
  Expect(muster_node_rank(comm) == 0 && muster_nodes(comm) == 1, "nodes");
  Expect(muster_round(comm) == 7, "round");
  Expect(strchr(muster_version(), '.') != NULL, "version");
  Collectives(comm);
  Parts(comm);
  Messages(comm);
  Started(comm);
  Rounds(comm);
  Expect(muster_split(comm, 0, 1, &group) == MUSTER_OK && group != NULL, "split");
  muster_free(group);
  muster_set_timeout(comm, 1.5);
  Expect(muster_get_counters(comm, &counters) == MUSTER_OK && counters.calls == 5, "counters");
  Expect(muster_waited_for(comm, 2) == 9, "waited_for");
  Expect(muster_set_wire(comm, MUSTER_WIRE_BF16) == MUSTER_OK, "set_wire");
  Expect(muster_get_wire(comm) == MUSTER_WIRE_BF16, "get_wire");
  Expect(muster_broadcast(comm, NULL, 1, 12, 0) == MUSTER_INVALID_ARGUMENT, "no type");
  Expect(strcmp(muster_last_error(), "broadcast: dtype: want 0..11 (muster_dtype), got 12") == 0,
         "last error");
  muster_free(comm);
  muster_free(NULL);
  return failures == 0 ? 0 : 1;
}
