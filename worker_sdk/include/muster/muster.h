/* The C ABI of libmuster; muster/communicator.h says what each call does. Every function that can
 * fail returns 0 or a status code, and muster_last_error() says why, for the calling thread. */
#ifndef MUSTER_MUSTER_H_
#define MUSTER_MUSTER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): C's names */
typedef struct muster_comm muster_comm;
typedef struct muster_work muster_work; /* a call that was started */

enum muster_dtype {
  MUSTER_INT8 = 0,
  MUSTER_INT16 = 1,
  MUSTER_INT32 = 2,
  MUSTER_INT64 = 3,
  MUSTER_UINT8 = 4,
  MUSTER_UINT16 = 5,
  MUSTER_UINT32 = 6,
  MUSTER_UINT64 = 7,
  MUSTER_FLOAT16 = 8,
  MUSTER_BFLOAT16 = 9,
  MUSTER_FLOAT32 = 10,
  MUSTER_FLOAT64 = 11
};

enum muster_op {
  MUSTER_SUM = 0,
  MUSTER_AVG = 1,
  MUSTER_PROD = 2,
  MUSTER_MIN = 3,
  MUSTER_MAX = 4,
  MUSTER_BAND = 5,
  MUSTER_BOR = 6,
  MUSTER_BXOR = 7
};

/* In the place of the rank that a message is received from: whoever sends first. */
enum { MUSTER_ANY_RANK = -1 };

enum muster_wire { MUSTER_WIRE_FULL = 0, MUSTER_WIRE_BF16 = 1 };

enum muster_code {
  MUSTER_OK = 0,
  MUSTER_INVALID_ARGUMENT = 3,
  MUSTER_DEADLINE_EXCEEDED = 4,
  MUSTER_RESOURCE_EXHAUSTED = 8,
  MUSTER_FAILED_PRECONDITION = 9,
  MUSTER_UNIMPLEMENTED = 12,
  MUSTER_INTERNAL = 13,
  MUSTER_UNAVAILABLE = 14
};

/* What muster::Counters says. */
struct muster_counters {
  uint64_t calls;
  uint64_t bytes;
  uint64_t waited_on_node_ns;
  uint64_t waited_between_nodes_ns;
};

/* What muster::Agreed says; -1: none. */
struct muster_agreed {
  uint64_t completed;
  uint64_t started;
  int64_t committed;
  int64_t committed_last;
  int holder;
};

/* muster::Store. A function that fails returns anything but 0. */
struct muster_store {
  void* context; /* the first argument of both */
  int (*set)(void* context, const char* key, const void* value, int64_t bytes);
  /* Waits for the value, of at most `bytes_max`, and says how long it is; a longer one fails. */
  int (*get)(void* context, const char* key, void* value, int64_t bytes_max, int64_t* bytes);
};

#pragma GCC visibility push(default) /* the rest of libmuster is hidden */

/* "0.1.0" */
const char* muster_version(void);
/* Why the last call of this thread that failed did; valid until the next that fails. */
const char* muster_last_error(void);

int muster_init(muster_comm** out);
/* muster::Communicator::FromStore. `store` is not used after the call. `seconds` is the timeout;
 * 0: none; negative: MUSTER_TIMEOUT. */
int muster_init_at_store(const struct muster_store* store, int rank, int size, double seconds,
                         muster_comm** out);
void muster_free(muster_comm* comm); /* may block: see ~Communicator; NULL is allowed */
/* As a rank that has failed: muster::Communicator::Abandon. To be freed still; NULL is allowed. */
void muster_abandon(muster_comm* comm);
/* muster_free(), when the process calls exit() or returns from main(), in which case it frees by
 * on_exit(3): as a rank that has failed where the status is not 0. Buffers of calls that were
 * started must stay until then. NULL is allowed. */
void muster_free_at_exit(muster_comm* comm);
/* The ranks of one color, ordered by key; a negative color takes part and gets NULL, with
 * MUSTER_OK. muster_free() ends the group, before or after `comm`. */
int muster_split(muster_comm* comm, int64_t color, int64_t key, muster_comm** out);

/* The communicator of the next round, in a job with --restart=one. `comm` is dead, and still to be
 * freed. */
int muster_reform(muster_comm* comm, muster_comm** out);
int muster_get_agreed(const muster_comm* comm, struct muster_agreed* out);
int muster_commit(muster_comm* comm, int64_t step);
/* One call for `buffers` of them: counts[i] elements of type dtypes[i] at data[i]. */
int muster_broadcast_state(muster_comm* comm, void* const* data, const int64_t* counts,
                           const int* dtypes, int buffers);
/* Of a null communicator: 0. */
int muster_is_replacement(const muster_comm* comm);
/* Any thread; waits for no call. */
uint64_t muster_last_call(const muster_comm* comm);

/* Of a null communicator: -1, and round 0. */
int muster_rank(const muster_comm* comm);
int muster_size(const muster_comm* comm);
int muster_local_rank(const muster_comm* comm);
int muster_local_size(const muster_comm* comm);
int muster_node_rank(const muster_comm* comm);
int muster_nodes(const muster_comm* comm);
uint64_t muster_round(const muster_comm* comm);
void muster_set_timeout(muster_comm* comm, double seconds); /* 0: none */
/* For every later call. Of a null communicator: -1. */
int muster_set_wire(muster_comm* comm, int wire);
int muster_get_wire(const muster_comm* comm);

/* Both: any thread; they wait for no call, and may be asked while one waits. */
int muster_get_counters(const muster_comm* comm, struct muster_counters* out);
/* Nanoseconds; of a null communicator, or no such rank: 0. */
uint64_t muster_waited_for(const muster_comm* comm, int rank);

int muster_barrier(muster_comm* comm);
int muster_all_reduce(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                      int op);
int muster_reduce(muster_comm* comm, const void* in, void* out, int64_t count, int dtype, int op,
                  int root);
int muster_broadcast(muster_comm* comm, void* data, int64_t count, int dtype, int root);
int muster_all_gather(muster_comm* comm, const void* in, void* out, int64_t count, int dtype);
int muster_gather(muster_comm* comm, const void* in, void* out, int64_t count, int dtype, int root);
int muster_scatter(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                   int root);
int muster_reduce_scatter(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                          int op);
int muster_all_to_all(muster_comm* comm, const void* in, void* out, int64_t count, int dtype);

/* The same with parts of any size: `counts` has the elements of each rank, muster_size() of them;
 * it is copied. */
int muster_all_gather_v(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                        int dtype);
int muster_gather_v(muster_comm* comm, const void* in, void* out, const int64_t* counts, int dtype,
                    int root);
int muster_scatter_v(muster_comm* comm, const void* in, void* out, const int64_t* counts, int dtype,
                     int root);
int muster_reduce_scatter_v(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                            int dtype, int op);
int muster_all_to_all_v(muster_comm* comm, const void* in, const int64_t* send_counts, void* out,
                        const int64_t* recv_counts, int dtype);

/* Of `count` elements, to one other rank and from one, or from MUSTER_ANY_RANK. */
int muster_send(muster_comm* comm, const void* data, int64_t count, int dtype, int to, int tag);
int muster_recv(muster_comm* comm, void* data, int64_t count, int dtype, int from, int tag);

/* The same, started only. *work is to be freed; it is NULL where the function fails. */
int muster_barrier_async(muster_comm* comm, muster_work** work);
int muster_all_reduce_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                            int op, muster_work** work);
int muster_reduce_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                        int op, int root, muster_work** work);
int muster_broadcast_async(muster_comm* comm, void* data, int64_t count, int dtype, int root,
                           muster_work** work);
int muster_all_gather_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                            muster_work** work);
int muster_gather_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                        int root, muster_work** work);
int muster_scatter_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                         int root, muster_work** work);
int muster_reduce_scatter_async(muster_comm* comm, const void* in, void* out, int64_t count,
                                int dtype, int op, muster_work** work);
int muster_all_to_all_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                            muster_work** work);
int muster_all_gather_v_async(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                              int dtype, muster_work** work);
int muster_gather_v_async(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                          int dtype, int root, muster_work** work);
int muster_scatter_v_async(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                           int dtype, int root, muster_work** work);
int muster_reduce_scatter_v_async(muster_comm* comm, const void* in, void* out,
                                  const int64_t* counts, int dtype, int op, muster_work** work);
int muster_all_to_all_v_async(muster_comm* comm, const void* in, const int64_t* send_counts,
                              void* out, const int64_t* recv_counts, int dtype, muster_work** work);
int muster_send_async(muster_comm* comm, const void* data, int64_t count, int dtype, int to,
                      int tag, muster_work** work);
int muster_recv_async(muster_comm* comm, void* data, int64_t count, int dtype, int from, int tag,
                      muster_work** work);

/* Blocks until the call has ended; its code. As often as you like. */
int muster_wait(muster_work* work);
/* 1: it has ended, 0: not yet. */
int muster_test(muster_work* work);
/* Of a receive that has ended: the rank whose message it has got. MUSTER_ANY_RANK: none. */
int muster_work_source(const muster_work* work);
void muster_work_free(muster_work* work); /* the call goes on; NULL is allowed */

#pragma GCC visibility pop
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
