#include "rendezvous/log_line.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muster {

std::string LogLine(absl::string_view text) {
  constexpr unsigned char kSecondSet = 0xC2;  // in UTF-8: U+0080 to U+009F are 0xC2 0x80 to 0x9F
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (c == kSecondSet && next >= 0x80 && next <= 0x9F) {
      absl::StrAppend(&out, absl::CHexEscape(text.substr(i++, 2)));
    } else if (absl::ascii_iscntrl(c)) {
      absl::StrAppend(&out, absl::CHexEscape(text.substr(i, 1)));
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace muster
