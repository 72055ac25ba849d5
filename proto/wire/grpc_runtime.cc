#include "proto/wire/grpc_runtime.h"

#include <grpc/grpc.h>

namespace muster {

void KeepGrpcRunning() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

}  // namespace muster
