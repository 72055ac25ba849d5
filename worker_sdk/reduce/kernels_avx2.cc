#define MUSTER_VECTOR_BYTES 32
#define MUSTER_KERNELS avx2_kernels
#define MUSTER_KERNELS_NAME "avx2"
#include "worker_sdk/reduce/kernels_impl.h"
