#define MUSTER_VECTOR_BYTES 64
#define MUSTER_KERNELS avx512_kernels
#define MUSTER_KERNELS_NAME "avx512"
#include "worker_sdk/reduce/kernels_impl.h"
