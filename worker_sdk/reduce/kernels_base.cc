#define MUSTER_VECTOR_BYTES 16
#define MUSTER_KERNELS base_kernels
#define MUSTER_KERNELS_NAME "base"
#include "worker_sdk/reduce/kernels_impl.h"
