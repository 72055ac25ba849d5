// What a proof is made over, and how two of them are held against each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// 8 bytes, big-endian.
inline void AppendNumber(uint64_t number, std::string* text) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    text->push_back(static_cast<char>((number >> shift) & 0xff));
  }
}

// Each field carries its length, so that no two sets of fields make one text.
inline void AppendField(absl::string_view field, std::string* text) {
  AppendNumber(field.size(), text);
  text->append(field.data(), field.size());
}

// In a time that depends on the lengths only.
inline bool ConstantTimeEqual(absl::string_view a, absl::string_view b) {
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
    asm volatile("" : "+r"(difference));  // what it is by now is nothing to stop for
  }
  return a.size() == b.size() && difference == 0;
}

}  // namespace muster
