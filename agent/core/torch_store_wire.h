// The bytes of torch's TCPStore: two dialects, one incremental parser, which also takes Horovod's
// HTTP. Pure; a parser belongs to one connection.
//
// Numbers are little-endian. A key or value is u64 length + bytes. There is no framing: a request
// is a one-byte code and the fields of that code, replies come strictly in order.
//  old (torch 1.x): SET 0, COMPARE_SET 1, GET 2, ADD 3, CHECK 4, WAIT 5, GETNUMKEYS 6, DELETE_KEY
//  8; new (torch 2.2 and later): VALIDATE 0 with a magic number comes first, then SET 1 ...
//  BARRIER 18.
// The first bytes of a connection tell which (W2).
//
// Invariants (cited by tests):
//  W1 how the bytes are cut into pieces changes nothing;
//  W2 first byte 0 and the next four the magic: new; one that begins an HTTP method: HTTP;
//     everything else: old;
//  W3 memory held is at most what has arrived: a length is never allocated before its bytes come;
//  W4 after an error the parser takes nothing more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/core/http_request.h"
#include "proto/base/limits.h"

namespace muster {

inline constexpr uint32_t kStoreMagic = 0x3C85F7CE;  // VALIDATE's argument; wire

enum class StoreOp : uint8_t {
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kGetNumKeys,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
};

enum class StoreDialect : uint8_t { kUnknown, kOld, kNew, kHttp };

struct StoreRequest {
  StoreOp op = StoreOp::kSet;
  std::vector<std::string> keys;    // in the order of the request
  std::vector<std::string> values;  // COMPARE_SET: expected, desired
  int64_t number = 0;               // ADD: delta; PING: nonce; BARRIER: world size
};

struct StoreLimits {
  size_t key_bytes_max = kStoreKeyBytesMax;
  size_t value_bytes_max = kStoreValueBytesMax;
  size_t keys_per_request_max = kStoreKeysPerRequestMax;
  size_t keys_max = kStoreKeysMax;
  size_t bytes_max = kStoreBytesMax;
  size_t clients_max = kStoreClientsMax;
};

class StoreParser {
 public:
  explicit StoreParser(const StoreLimits& limits)
      : limits_(limits), http_(limits.value_bytes_max) {}

  enum class Outcome : uint8_t {
    kMore,     // all bytes are taken, no request is complete
    kRequest,  // request() is complete; call Feed again with the rest
    kError,    // error() says why; the connection must be closed
  };
  // Takes bytes from the front of `bytes`, up to the end of one request.
  Outcome Feed(absl::string_view& bytes);

  StoreRequest& request() { return request_; }
  const std::string& error() const { return error_; }
  StoreDialect dialect() const { return dialect_; }
  // Bytes kept for a request that is not complete.
  size_t held_bytes() const { return held_bytes_; }

 private:
  enum class Step : uint8_t { kFirst, kCode, kWord, kText, kFailed };
  enum class Word : uint8_t { kKeyLength, kValueLength, kCount, kNumber };

  bool Sniff(absl::string_view& bytes);
  Outcome FeedHttp(absl::string_view& bytes);
  Outcome Take(absl::string_view& bytes);
  bool Begin(uint8_t code);
  bool NextField();  // false: the request is complete
  bool OnWord(uint64_t value);
  void OnText();
  void Expect(Word word, size_t width);
  bool Fail(std::string error);

  const StoreLimits limits_;
  StoreDialect dialect_ = StoreDialect::kUnknown;
  Step step_ = Step::kFirst;
  std::string first_;       // kFirst: at most 5 bytes, until the dialect is known
  const char* field_ = "";  // rest of the code's signature, a string literal
  bool counted_ = false;    // of a list field: its count has been read
  uint64_t items_left_ = 0;
  Word word_ = Word::kNumber;
  size_t word_width_ = 0;
  size_t word_have_ = 0;
  uint64_t word_value_ = 0;
  bool text_is_key_ = false;
  uint64_t text_left_ = 0;
  size_t held_bytes_ = 0;
  HttpRequestParser http_;  // StoreDialect::kHttp
  StoreRequest request_;
  std::string error_;
};

// Appends a little-endian number.
void AppendU64(std::string& out, uint64_t value);
void AppendU32(std::string& out, uint32_t value);

const char* StoreOpName(StoreOp op);

}  // namespace muster
