#include "agent/core/http_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using Outcome = HttpRequestParser::Outcome;
using testing::HasSubstr;

constexpr size_t kBodyMax = 100;

// What Horovod's client sends (third_party/HTTPRequest).
constexpr absl::string_view kPut =
    "PUT /global/3 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 6\r\n\r\nab\r\ncd";

TEST(HttpRequest, HasAMethodAPathAndABody) {
  HttpRequestParser parser(kBodyMax);
  absl::string_view bytes = kPut;
  ASSERT_EQ(parser.Feed(bytes), Outcome::kRequest) << parser.error();
  EXPECT_EQ(parser.request().method, HttpMethod::kPut);
  EXPECT_EQ(parser.request().path, "/global/3");
  EXPECT_EQ(parser.request().body, "ab\r\ncd");
  EXPECT_TRUE(bytes.empty());
}

TEST(HttpRequest, MayHaveNoBody) {
  for (const auto& [word, method] :
       {std::pair("GET", HttpMethod::kGet), std::pair("DELETE", HttpMethod::kDelete)}) {
    for (const char* length : {"", "content-length:0\r\n", "CONTENT-LENGTH:  0 \r\n"}) {
      HttpRequestParser parser(kBodyMax);
      const std::string text = absl::StrCat(word, " /local_n-0/1 HTTP/1.0\r\n", length, "\r\n");
      absl::string_view bytes = text;
      ASSERT_EQ(parser.Feed(bytes), Outcome::kRequest) << text << parser.error();
      EXPECT_EQ(parser.request().method, method);
      EXPECT_EQ(parser.request().path, "/local_n-0/1");
    }
  }
}

TEST(HttpRequest, H1HowItIsCutChangesNothing) {
  for (size_t cut = 1; cut < kPut.size(); ++cut) {
    HttpRequestParser parser(kBodyMax);
    absl::string_view first = kPut.substr(0, cut);
    absl::string_view rest = kPut.substr(cut);
    ASSERT_EQ(parser.Feed(first), Outcome::kMore) << cut;
    EXPECT_TRUE(first.empty());
    EXPECT_LE(parser.held_bytes(), cut) << "H2";
    ASSERT_EQ(parser.Feed(rest), Outcome::kRequest) << cut;
    EXPECT_EQ(parser.request().body, "ab\r\ncd");
  }
}

TEST(HttpRequest, H3NothingFollowsIt) {
  HttpRequestParser parser(kBodyMax);
  const std::string text = absl::StrCat(kPut, "GET");
  absl::string_view bytes = text;
  ASSERT_EQ(parser.Feed(bytes), Outcome::kRequest);
  EXPECT_EQ(bytes, "GET");
  EXPECT_EQ(parser.Feed(bytes), Outcome::kError);
  EXPECT_THAT(parser.error(), HasSubstr("more bytes"));
}

TEST(HttpRequest, BadOnesSayWhatTheyAre) {
  struct Bad {
    std::string text;
    const char* says;
  };
  const Bad bad[] = {
      {"GET / HTTP/1.1\r\n\r\n", "an HTTP GET of '/', which is not /SCOPE/KEY"},
      {"GET /a HTTP/1.1\r\n\r\n", "'/a'"},
      {"GET //a HTTP/1.1\r\n\r\n", "'//a'"},
      {"GET /a/b/c HTTP/1.1\r\n\r\n", "'/a/b/c'"},
      {"GET /a/b\r\n\r\n", "is no GET, PUT or DELETE of HTTP/1.1"},
      {"GET  /a/b HTTP/1.1\r\n\r\n", "is no GET, PUT or DELETE"},
      {"GET /a/b HTTP/2\r\n\r\n", "is no GET, PUT or DELETE"},
      {"POST /a/b HTTP/1.1\r\n\r\n", "'POST /a/b HTTP/1.1' is no"},
      {"PUT /a/b HTTP/1.1\r\n\r\n", "without Content-Length"},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: 101\r\n\r\n", "of 101 bytes, the limit is 100"},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "Content-Length of '-1'"},
      {"PUT /a/b HTTP/1.1\r\nContent-Length:\r\n\r\n", "Content-Length of ''"},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "Content-Length of '9"},
      {"PUT /a/b HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
       "Content-Length of '2'"},
      {"PUT /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "an HTTP body in 'chunked'"},
      {"GET /a/b HTTP/1.1\r\nx: " + std::string(kHttpHeadBytesMax, 'y'), "more than 8192 bytes"},
  };
  for (const Bad& one : bad) {
    HttpRequestParser parser(kBodyMax);
    absl::string_view bytes = one.text;
    EXPECT_EQ(parser.Feed(bytes), Outcome::kError) << one.text;
    EXPECT_THAT(parser.error(), HasSubstr(one.says));
    bytes = kPut;
    EXPECT_EQ(parser.Feed(bytes), Outcome::kError) << "for good";
    EXPECT_EQ(parser.held_bytes(), 0u);
  }
}

}  // namespace
}  // namespace muster
