// SHA-256 (FIPS 180-4) of what comes piece by piece. One thread at a time.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(absl::string_view bytes);
  // 32 bytes; nothing can be added after it.
  std::string Digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
