// Horovod's face of the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "agent/core/torch_store.h"
#include "tests/agent/core/torch_store_testing.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing_store::Bench;
using testing_store::Speak;

constexpr Speak kTorch;

std::string Put(const std::string& path, const std::string& body) {
  return absl::StrCat("PUT ", path, " HTTP/1.1\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}
std::string Get(const std::string& path) { return absl::StrCat("GET ", path, " HTTP/1.1\r\n\r\n"); }
std::string Delete(const std::string& path) {
  return absl::StrCat("DELETE ", path, " HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
}
std::string Found(const std::string& body) {
  return absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", body.size(),
                      "\r\nConnection: close\r\n\r\n", body);
}
constexpr char kNotFound[] =
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

// A request on a connection of its own.
class Horovod {
 public:
  explicit Horovod(const TorchStoreConfig& config = {}) : bench(config) {}
  std::string Ask(const std::string& request) {
    bench.Open(++last_);
    std::string answer = bench.Ask(last_, request);
    if (!bench.closed.contains(last_)) {
      bench.Close(last_);
    }
    return answer;
  }
  Bench bench;

 private:
  uint64_t last_ = 100;
};

TEST(StoreOverHttp, KeepsWhatWasPutUntilItIsDeleted) {
  Horovod job;
  EXPECT_EQ(job.Ask(Get("/global/0")), kNotFound);
  EXPECT_EQ(job.Ask(Put("/global/0", "addr")), Found(""));
  EXPECT_EQ(job.Ask(Get("/global/0")), Found("addr"));
  EXPECT_EQ(job.Ask(Get("/cross_0/0")), kNotFound);
  EXPECT_EQ(job.Ask(Put("/global/0", "later")), Found(""));
  EXPECT_EQ(job.Ask(Get("/global/0")), Found("later"));
  EXPECT_EQ(job.Ask(Delete("/global/0")), Found(""));
  EXPECT_EQ(job.Ask(Get("/global/0")), kNotFound);
  EXPECT_EQ(job.Ask(Delete("/global/0")), Found("")) << "again does no harm";
  EXPECT_EQ(job.bench.store.bytes(), 0u);
}

TEST(StoreOverHttp, AKeyStaysUntilAllOfItsScopeAreDeleted) {
  Horovod job;
  for (const char* path : {"/global/0", "/global/1", "/global_2/0"}) {
    EXPECT_EQ(job.Ask(Put(path, "addr")), Found(""));
  }
  EXPECT_EQ(job.Ask(Delete("/global/0")), Found(""));
  EXPECT_EQ(job.Ask(Get("/global/0")), Found("addr")) << "rank 1 may be late";
  EXPECT_EQ(job.Ask(Delete("/global/1")), Found(""));
  EXPECT_EQ(job.Ask(Get("/global/0")), kNotFound);
  EXPECT_EQ(job.Ask(Get("/global/1")), kNotFound);
  EXPECT_EQ(job.Ask(Get("/global_2/0")), Found("addr"));
  EXPECT_EQ(job.Ask(Put("/global/0", "next")), Found("")) << "hvd.init() once more";
  EXPECT_EQ(job.Ask(Delete("/global/0")), Found(""));
  EXPECT_EQ(job.Ask(Delete("/global_2/0")), Found(""));
  EXPECT_EQ(job.bench.store.bytes(), 0u);
  EXPECT_EQ(job.Ask(Put("/global/0", "a")), Found(""));
  EXPECT_EQ(job.Ask(Put("/global/1", "b")), Found(""));
  EXPECT_EQ(job.Ask(Delete("/global/0")), Found(""));
  EXPECT_EQ(job.Ask(Put("/global/0", "again")), Found("")) << "it is not deleted any more";
  EXPECT_EQ(job.Ask(Delete("/global/1")), Found(""));
  EXPECT_EQ(job.Ask(Get("/global/1")), Found("b"));
}

TEST(StoreOverHttp, AnAnswerIsTheLast) {
  TorchStore store{TorchStoreConfig()};
  const StoreClientId client{1};
  (void)store.Step(StoreClientOpened{client});
  const std::string get = Get("/global/0");
  const auto effects = store.Step(StoreClientBytes{client, get});
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_TRUE(std::get<StoreSend>(effects[0]).last);
}

TEST(StoreOverHttp, TorchsKeysAreOthers) {
  Horovod job;
  job.bench.Open(1);
  EXPECT_EQ(job.bench.Ask(1, kTorch.Hello() + kTorch.Set("/global/0", "torch's")), "");
  EXPECT_EQ(job.Ask(Get("/global/0")), kNotFound);
  EXPECT_EQ(job.Ask(Put("/global/0", "Horovod's")), Found(""));
  EXPECT_EQ(job.bench.Ask(1, kTorch.Get("/global/0")), testing_store::Str("torch's"));
}

TEST(StoreOverHttp, S1ABadRequestClosesItsConnectionOnly) {
  Horovod job({.world_size = 2, .limits = {.value_bytes_max = 8, .bytes_max = 250}});
  EXPECT_EQ(job.Ask(Put("/global/0", "a")), Found(""));
  EXPECT_EQ(job.Ask(Put("/global/1", "too long it is")), "");
  EXPECT_EQ(job.Ask(Put("/global/1", "b")), "") << "no room";
  EXPECT_EQ(job.Ask("GET / HTTP/1.1\r\n\r\n"), "");
  EXPECT_THAT(job.bench.closed, ElementsAre(Pair(102, HasSubstr("of 14 bytes, the limit is 8")),
                                            Pair(103, HasSubstr("SET: the store is full")),
                                            Pair(104, HasSubstr("not /SCOPE/KEY"))));
  EXPECT_EQ(job.Ask(Get("/global/0")), Found("a"));
}

TEST(StoreOverHttp, NobodyWaitsForTheHellosOfHorovodsRanks) {
  Horovod job({.world_size = 2, .limits = {}});
  EXPECT_TRUE(job.bench.store.awaits_hellos());
  job.Ask(Get("/global/0"));
  EXPECT_FALSE(job.bench.store.awaits_hellos());
  job.bench.Open(1);
  job.bench.Ask(1, kTorch.Hello() + kTorch.Add("init/", 1));
  job.Ask(Get("/global/0"));
  EXPECT_TRUE(job.bench.store.awaits_hellos());
}

}  // namespace
}  // namespace muster
