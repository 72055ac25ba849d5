// The store over HTTP, as Horovod's gloo controller asks for it: GET, PUT and DELETE of /SCOPE/KEY,
// a connection for each. Its ranks put their address, ask every 10 ms for those of the others, and
// delete their own once all are connected (horovod/common/gloo/http_store.cc), so that a next
// hvd.init() finds nothing of the last one.
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/torch_store.h"
#include "proto/base/check.h"

namespace muster {
namespace {

std::string Head(absl::string_view status, size_t body_bytes) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Length: ", body_bytes,
                      "\r\nConnection: close\r\n\r\n");
}

}  // namespace

std::string TorchStore::RunHttp(Call call) {
  only_http_ = hellos_ == 0;
  const std::string& key = call.request.keys[0];
  StoreSend reply{call.id, "", nullptr, /*last=*/true};
  switch (call.request.op) {
    case StoreOp::kGet:
      reply.body = Find(call.space, key);
      reply.head =
          reply.body == nullptr ? Head("404 Not Found", 0) : Head("200 OK", reply.body->size());
      break;
    case StoreOp::kSet:
      if (std::string full = Set(call.space, key, std::move(call.request.values[0]), call.out);
          !full.empty()) {
        return full;
      }
      reply.head = Head("200 OK", 0);
      break;
    default:
      CHECK(call.request.op == StoreOp::kDeleteKey);
      Delete(call.space, key);
      reply.head = Head("200 OK", 0);
  }
  call.out.emplace_back(std::move(reply));
  return "";
}

}  // namespace muster
