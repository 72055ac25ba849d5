#include "agent/core/output_format.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace muster {

std::string ExpandPrefix(absl::string_view prefix_template, const OutputSource& source,
                         absl::string_view time) {
  return absl::StrReplaceAll(prefix_template, {{"{rank}", absl::StrCat(source.rank)},
                                               {"{local_rank}", absl::StrCat(source.local_rank)},
                                               {"{node_rank}", absl::StrCat(source.node_rank)},
                                               {"{host}", source.host},
                                               {"{role}", source.role},
                                               {"{stream}", source.stream == 2 ? "err" : "out"},
                                               {"{time}", time}});
}

std::string OutputFormatter::Prefix(const OutputSource& source, absl::string_view time) {
  std::string stamp = options_.timestamps ? absl::StrCat(time, " ") : "";
  if (!options_.prefix) {
    return stamp;
  }
  if (absl::StrContains(options_.prefix_template, "{time}")) {
    return absl::StrCat(stamp, ExpandPrefix(options_.prefix_template, source, time));
  }
  CachedPrefix& cached = prefixes_[{source.rank, source.stream}];
  if (cached.text.empty() || cached.source != source) {
    cached = {source, ExpandPrefix(options_.prefix_template, source, "")};
  }
  return absl::StrCat(stamp, cached.text);
}

// `fresh`: the first byte begins a line. On a terminal a carriage return takes the cursor to the
// prefix's place.
void OutputFormatter::FormatLines(const std::string& prefix, absl::string_view bytes, bool fresh,
                                  std::string& out) const {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at < end) {
    if (fresh) {
      out.append(prefix);
    }
    const char* newline =
        static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    const char* line_end = newline == nullptr ? end : newline + 1;
    if (options_.terminal) {
      const char* carriage =
          static_cast<const char*>(std::memchr(at, '\r', static_cast<size_t>(line_end - at)));
      if (carriage != nullptr && carriage + 1 < end && carriage[1] != '\n') {
        out.append(at, static_cast<size_t>(carriage + 1 - at));
        at = carriage + 1;
        fresh = true;
        continue;
      }
    }
    out.append(at, static_cast<size_t>(line_end - at));
    at = line_end;
    fresh = newline != nullptr;
  }
}

void OutputFormatter::Format(const OutputSource& source, absl::string_view bytes, bool ends_line,
                             bool split, absl::string_view time, std::string& out) {
  if (bytes.empty()) {
    return;
  }
  const Owner owner = {source.rank, source.stream};
  const bool continues = line_open_ && line_owner_ == owner;
  if (line_open_ && !continues) {
    out.push_back('\n');  // F1, F2
  }
  const bool fresh = !continues || (returned_ && bytes[0] != '\n');
  line_open_ = returned_ = false;
  if (decorated()) {
    FormatLines(Prefix(source, time), bytes, fresh, out);
  } else {
    out.append(bytes.data(), bytes.size());
  }
  if (ends_line) {
    return;
  }
  if (options_.terminal || (!decorated() && options_.many_workers)) {
    line_open_ = true;
    returned_ = bytes.back() == '\r';
    line_owner_ = options_.terminal || split ? owner : kNobody;
  } else if (decorated()) {
    out.append(split ? " [muster: the line goes on]\n" : "\n");
  }
}

}  // namespace muster
