// A client of PMIx without an MPI; its first word says what it does between PMIx_Init and
// PMIx_Finalize.
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static void check(pmix_status_t status, const char* call) {
  if (status != PMIX_SUCCESS) {
    fprintf(stderr, "rank %u: %s: %s\n", me.rank, call, PMIx_Error_string(status));
    exit(1);
  }
}

static void say(const char* text) {
  printf("rank %u %s\n", me.rank, text);
  fflush(stdout);
}

static char* noise(size_t size) {
  char* const bytes = malloc(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = (char)rand();  // nothing to compress
  }
  return bytes;
}

static void put(char* bytes, size_t size) {
  pmix_value_t value;
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = bytes;
  value.data.bo.size = size;
  check(PMIx_Put(PMIX_GLOBAL, "card", &value), "PMIx_Put");
  check(PMIx_Commit(), "PMIx_Commit");
}

// With what all have put, or without.
static void fence(bool collect) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  pmix_proc_t all = me;
  all.rank = PMIX_RANK_WILDCARD;
  check(PMIx_Fence(&all, 1, &info, 1), "PMIx_Fence");
}

// As many bytes as a megabyte, as often as the word says.
static void fences(int times) {
  const size_t size = 1u << 20;
  char* const bytes = noise(size);
  put(bytes, size);
  for (int i = 0; i < times; ++i) {
    fence(true);
  }
  free(bytes);
  say("has left all fences");
  pause();
}

// Rank 0 finds what the last rank puts, before or after it is asked for, with no fence between.
static void modex(bool late, bool large) {
  pmix_proc_t all = me;
  all.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* size = NULL;
  check(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size), "PMIx_Get of the size");
  const pmix_rank_t last = size->data.uint32 - 1;
  PMIX_VALUE_RELEASE(size);
  if (me.rank == last) {
    sleep(late ? 2 : 0);
    put(large ? noise(100000) : "hello", large ? 100000 : 5);
  }
  if (me.rank == 0) {
    pmix_proc_t other = me;
    other.rank = last;
    pmix_value_t* value = NULL;
    check(PMIx_Get(&other, "card", NULL, 0, &value), "PMIx_Get");
    printf("rank 0 found %.*s\n", (int)value->data.bo.size, value->data.bo.bytes);
    fflush(stdout);
    PMIX_VALUE_RELEASE(value);
  }
  fence(false);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  check(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  if (strcmp(what, "fences") == 0) {
    fences(atoi(argv[2]));
  } else if (strncmp(what, "modex", 5) == 0) {
    modex(strcmp(what, "modex late") == 0, strcmp(what, "modex large") == 0);
  }
  check(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
