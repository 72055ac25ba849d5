#include "agent/io/mpi_watch.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(MpiOfMapsTest, IsThatOfTheFirstMappedFile) {
  const LoadedMpi found = MpiOfMaps(
      "5572cc5a4000-5572cc5c8000 r--p 00000000 fe:01 262343         /usr/bin/python3.11\n"
      "7f16f4800000-7f16f4821000 rw-p 00000000 00:00 0 \n"
      "7f16fbd24000-7f16fbd3a000 r--p 00000000 fe:01 278   /opt/my mpi/lib/libmpi.so.40.30.4\n"
      "7f16fbe24000-7f16fbe3a000 r--p 00000000 fe:01 279   /usr/lib/libmpich.so.12.2.0\n");
  EXPECT_EQ(found.mpi, "Open MPI");
  EXPECT_EQ(found.library, "/opt/my mpi/lib/libmpi.so.40.30.4");
}

TEST(MpiOfMapsTest, IsNothingWhereThereIsNone) {
  EXPECT_EQ(MpiOfMaps("").mpi, "");
  EXPECT_EQ(MpiOfMaps("7f16f4800000-7f16f4821000 rw-p 00000000 00:00 0 [heap]\n"
                      "7f16fbd24000-7f16fbd3a000 r--p 00000000 fe:01 278 /usr/lib/libmpi4py.so\n"
                      "7f16fbd24000-7f16fbd3a000 r--p 00000000 fe:01 278 /srv/libmpi.so.40/x\n")
                .mpi,
            "");
}

}  // namespace
}  // namespace muster
