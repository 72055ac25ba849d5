#include "agent/core/pmix_wire.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

class Writer {
 public:
  void Field(uint32_t value) {
    char bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    out.append(bytes, sizeof(value));
  }
  void Field(int32_t value) { Field(static_cast<uint32_t>(value)); }
  void Field(bool value) { Field(uint32_t{value}); }
  void Field(LocalRank value) { Field(value.value); }
  void Field(const std::string& text) {
    Field(static_cast<uint32_t>(text.size()));
    out.append(text);
  }
  template <typename T>
  void Field(const std::vector<T>& list) {
    Field(static_cast<uint32_t>(list.size()));
    for (const T& one : list) {
      Field(one);
    }
  }

  std::string out;
};

// After a field that is not there, all that follow are empty.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}

  void Field(uint32_t& value) {
    value = 0;
    if (rest_.size() < sizeof(value)) {
      return Break();
    }
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
  }
  void Field(int32_t& value) {
    uint32_t bits = 0;
    Field(bits);
    value = static_cast<int32_t>(bits);
  }
  void Field(bool& value) {
    uint32_t bits = 0;
    Field(bits);
    value = bits == 1;
    if (bits > 1) {
      Break();
    }
  }
  void Field(LocalRank& value) { Field(value.value); }
  void Field(std::string& text) {
    uint32_t size = 0;
    Field(size);
    if (size > rest_.size()) {
      return Break();
    }
    text = std::string(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  template <typename T>
  void Field(std::vector<T>& list) {
    uint32_t count = 0;
    Field(count);
    // Each has a length or a number at least: a count that lies takes no memory (M2).
    if (count > rest_.size() / sizeof(uint32_t)) {
      return Break();
    }
    list.resize(count);
    for (uint32_t i = 0; i < count && !broken_; ++i) {
      Field(list[i]);
    }
  }

  // All was there, and nothing else.
  bool whole() const { return !broken_ && rest_.empty(); }

 private:
  void Break() {
    broken_ = true;
    rest_ = "";
  }

  absl::string_view rest_;
  bool broken_ = false;
};

// One list of fields for both directions.
template <typename Coder, typename Message>
void Fields(Coder& coder, Message& m) {
  using Kind = std::remove_const_t<Message>;
  if constexpr (std::is_same_v<Kind, PmixServe>) {
    coder.Field(m.world.name);
    coder.Field(m.world.folder);
    coder.Field(m.world.node);
    coder.Field(m.world.hosts);
    coder.Field(m.world.ranks);
    coder.Field(m.world.apps);
  } else if constexpr (std::is_same_v<Kind, PmixFenced>) {
    coder.Field(m.ok);
    coder.Field(m.bytes);
  } else if constexpr (std::is_same_v<Kind, PmixReady>) {
    coder.Field(m.variables);
  } else if constexpr (std::is_same_v<Kind, PmixFailed>) {
    coder.Field(m.why);
  } else if constexpr (std::is_same_v<Kind, PmixInit> || std::is_same_v<Kind, PmixFinalized> ||
                       std::is_same_v<Kind, PmixShow>) {
    coder.Field(m.client);
  } else if constexpr (std::is_same_v<Kind, PmixAborted>) {
    coder.Field(m.client);
    coder.Field(m.code);
    coder.Field(m.message);
  } else if constexpr (std::is_same_v<Kind, PmixFence>) {
    coder.Field(m.bytes);
  } else if constexpr (std::is_same_v<Kind, PmixNotServed>) {
    coder.Field(m.what);
  } else if constexpr (std::is_same_v<Kind, PmixWant>) {
    coder.Field(m.rank);
  } else if constexpr (std::is_same_v<Kind, PmixFound>) {
    coder.Field(m.rank);
    coder.Field(m.ok);
    coder.Field(m.bytes);
  } else {
    coder.Field(m.client);
    coder.Field(m.ok);
    coder.Field(m.bytes);
  }
}

// A world in which every rank has one place (X1).
bool IsWorld(const PmixWorld& world) {
  if (world.hosts.size() != world.ranks.size() || world.node >= world.hosts.size()) {
    return false;
  }
  std::vector<bool> seen(world.apps.size());
  size_t count = 0;
  for (const std::vector<uint32_t>& ranks : world.ranks) {
    for (const uint32_t rank : ranks) {
      if (rank >= seen.size() || seen[rank]) {
        return false;
      }
      seen[rank] = true;
      ++count;
    }
  }
  return count == seen.size();
}

template <size_t kKind = 0>
absl::StatusOr<PmixMessage> Decode(uint32_t kind, absl::string_view fields) {
  if constexpr (kKind == std::variant_size_v<PmixMessage>) {
    return absl::InvalidArgumentError(absl::StrCat("a message of kind ", kind, ", of ", kKind));
  } else if (kind != kKind) {
    return Decode<kKind + 1>(kind, fields);
  } else {
    std::variant_alternative_t<kKind, PmixMessage> message;
    Reader reader(fields);
    Fields(reader, message);
    if (!reader.whole()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message of kind ", kind, " with ", fields.size(), " bytes of fields"));
    }
    if constexpr (std::is_same_v<decltype(message), PmixServe>) {
      if (!IsWorld(message.world)) {
        return absl::InvalidArgumentError("a world whose ranks have not one place each");
      }
    }
    return PmixMessage(std::move(message));
  }
}

}  // namespace

absl::StatusOr<std::string> EncodePmix(const PmixMessage& message) {
  Writer writer;
  writer.Field(uint32_t{0});  // the length
  writer.Field(static_cast<uint32_t>(message.index()));
  std::visit([&writer](const auto& one) { Fields(writer, one); }, message);
  const size_t size = writer.out.size() - sizeof(uint32_t);
  if (size > kPmixMessageBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("PMIx: a message of ", size, " bytes; the limit is ", kPmixMessageBytesMax));
  }
  const auto length = static_cast<uint32_t>(size);
  std::memcpy(writer.out.data(), &length, sizeof(length));
  return std::move(writer.out);
}

absl::StatusOr<std::optional<PmixMessage>> PmixReader::Next() {
  uint32_t length = 0;
  uint32_t kind = 0;
  if (bytes_.size() < sizeof(length)) {
    return std::nullopt;
  }
  std::memcpy(&length, bytes_.data(), sizeof(length));
  if (length < sizeof(kind) || length > kPmixMessageBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", length, " bytes; want ",
                                                   sizeof(kind), "..", kPmixMessageBytesMax));
  }
  if (bytes_.size() < sizeof(length) + length) {
    return std::nullopt;
  }
  std::memcpy(&kind, bytes_.data() + sizeof(length), sizeof(kind));
  const absl::string_view fields =
      absl::string_view(bytes_).substr(sizeof(length) + sizeof(kind), length - sizeof(kind));
  ASSIGN_OR_RETURN(PmixMessage message, Decode(kind, fields));
  bytes_.erase(0, sizeof(length) + length);
  return std::optional<PmixMessage>(std::move(message));
}

}  // namespace muster
