// The store over HTTP, as Horovod's gloo controller asks for it: GET, PUT and DELETE of /SCOPE/KEY,
// a connection for each. Its ranks put their address, ask every 10 ms for those of the others, and
// delete their own once they have connections to all (horovod/common/gloo/http_store.cc); others
// may ask for it still. So what was deleted stays until all of its scope was, and then goes with
// the scope: a next hvd.init() finds nothing of the last one.
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/core/torch_store.h"
#include "proto/base/check.h"

namespace muster {
namespace {

std::string Head(absl::string_view status, size_t body_bytes) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nContent-Length: ", body_bytes,
                      "\r\nConnection: close\r\n\r\n");
}

// That `key`, which is there, was deleted.
std::string MarkOf(absl::string_view key) { return absl::StrCat("deleted ", key); }

}  // namespace

// Of all keys that begin with `scope`, if all of them were deleted.
void TorchStore::DropScope(Space& space, const std::string& scope) {
  std::vector<std::string> keys;
  for (auto it = space.values.lower_bound(scope);
       it != space.values.end() && absl::StartsWith(it->first, scope); ++it) {
    if (!space.values.contains(MarkOf(it->first))) {
      return;
    }
    keys.push_back(it->first);
  }
  for (const std::string& key : keys) {
    Delete(space, key);
    Delete(space, MarkOf(key));
  }
}

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
      Delete(call.space, MarkOf(key));
      reply.head = Head("200 OK", 0);
      break;
    default:
      CHECK(call.request.op == StoreOp::kDeleteKey);
      if (call.space.values.contains(key)) {
        bool created = false;
        if (std::string full = Put(call.space, MarkOf(key), "", created); !full.empty()) {
          return full;
        }
        DropScope(call.space, key.substr(0, key.rfind('/') + 1));
      }
      reply.head = Head("200 OK", 0);
  }
  call.out.emplace_back(std::move(reply));
  return "";
}

}  // namespace muster
