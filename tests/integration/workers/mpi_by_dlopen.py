"""MPI as mpi4py has it: Python, which links no MPI, opens the library (MPICH's, whose handles are numbers of mpi.h)."""

import ctypes

WORLD, INT, SUM = (ctypes.c_int(handle) for handle in (0x44000000, 0x4C000405, 0x58000003))
mpi = ctypes.CDLL("libmpich.so.12", mode=ctypes.RTLD_GLOBAL)
rank, size, mine, total = (ctypes.c_int() for _ in range(4))
assert mpi.MPI_Init(None, None) == 0
assert mpi.MPI_Comm_rank(WORLD, ctypes.byref(rank)) == 0 and mpi.MPI_Comm_size(WORLD, ctypes.byref(size)) == 0
mine.value = rank.value + 1
assert mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, INT, SUM, WORLD) == 0
print("rank", rank.value, "of", size.value, "sum", total.value, flush=True)
assert mpi.MPI_Finalize() == 0
