// What is to be done however a scope is left, an exception included.
#pragma once

#include <utility>

namespace muster {

template <typename Act>
class AtEnd {
 public:
  explicit AtEnd(Act act) : act_(std::move(act)) {}
  ~AtEnd() { act_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  const Act act_;
};

}  // namespace muster
