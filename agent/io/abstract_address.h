// The name of an abstract unix socket, which lives as long as its socket and is no file (unix(7)).
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/string_view.h"
#include "proto/base/check.h"

namespace muster {

class AbstractAddress {
 public:
  static constexpr size_t kNameBytesMax = sizeof(sockaddr_un::sun_path) - 1;  // a NUL is before it

  explicit AbstractAddress(absl::string_view name) {
    CHECK(name.size() <= kNameBytesMax);
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path + 1, name.data(), name.size());
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }

  // For bind and connect.
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

}  // namespace muster
