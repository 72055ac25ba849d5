// A request of HTTP/1.x (RFC 9112), as much of it as a store of keys and values needs: a request
// line, header lines, a body of Content-Length bytes. Pure; a parser belongs to one connection.
//
// Invariants (cited by tests):
//  H1 how the bytes are cut into pieces changes nothing;
//  H2 memory held is at most what has arrived;
//  H3 a connection carries one request: with its answer it is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kHttpHeadBytesMax = 8u << 10;

enum class HttpMethod : uint8_t { kGet, kPut, kDelete };

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  std::string path;  // "/SCOPE/KEY", both not empty, as it was sent
  std::string body;
};

// A request may begin with this byte.
bool BeginsHttp(char byte);

class HttpRequestParser {
 public:
  explicit HttpRequestParser(size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}

  enum class Outcome : uint8_t {
    kMore,     // all bytes are taken, the request is not complete
    kRequest,  // request() is complete
    kError,    // error() says why; the connection must be closed
  };
  // Takes bytes from the front of `bytes`, up to the end of the request.
  Outcome Feed(absl::string_view& bytes);

  HttpRequest& request() { return request_; }
  const std::string& error() const { return error_; }
  size_t held_bytes() const { return head_.size() + request_.path.size() + request_.body.size(); }

 private:
  enum class Step : uint8_t { kHead, kBody, kOver, kFailed };

  bool OnHead();
  bool OnRequestLine(absl::string_view line);
  bool OnHeader(absl::string_view line);
  bool Fail(std::string error);

  const size_t body_bytes_max_;
  Step step_ = Step::kHead;
  std::string head_;  // kHead: what has come of it
  size_t body_left_ = 0;
  bool has_length_ = false;
  HttpRequest request_;
  std::string error_;
};

}  // namespace muster
