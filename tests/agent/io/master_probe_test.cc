#include "agent/io/master_probe.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/torch_store_port.h"
#include "proto/base/log.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr MasterProbe::Times kSoon = {absl::Milliseconds(1), absl::Milliseconds(200),
                                      absl::Milliseconds(20)};

// A port of this machine at which nobody listens, until the test does.
class MasterProbeTest : public TickingLoopTest {
 protected:
  MasterProbeTest() : port_(ReservePort("127.0.0.1", 0)) {
    round_.node_rank = NodeRank{1};
    round_.master_addr = "127.0.0.1";
    round_.master_port = port_.ok() ? port_->port : 0;
    SetLogSink([this](LogLevel, absl::string_view text) { said_.emplace_back(text); });
  }
  ~MasterProbeTest() override { SetLogSink(nullptr); }

  // What is said of the round within a time in which both tries are over.
  std::vector<std::string> SaidOf(const Assignment& round, bool listens) {
    MasterProbe probe(&loop_, "node1", kSoon);
    probe.BeginRound(round, listens);
    bool over = false;
    UvTimer timer(&loop_, [&over] { over = true; });
    timer.StartAfter(absl::Milliseconds(300));
    EXPECT_TRUE(RunUntil([&over] { return over; }));
    return said_;
  }

  absl::StatusOr<BoundPort> port_;
  Assignment round_;
  std::vector<std::string> said_;
};

TEST_F(MasterProbeTest, WhoAnswersIsNoNews) {
  ASSERT_EQ(listen(port_->fd.get(), 4), 0);
  EXPECT_THAT(SaidOf(round_, /*listens=*/true), IsEmpty());
  EXPECT_GE(accept(port_->fd.get(), nullptr, nullptr), 0) << "it was asked";
}

TEST_F(MasterProbeTest, AClosedPortOfAnAgentIsNamedOnce) {
  EXPECT_THAT(SaidOf(round_, /*listens=*/true),
              ElementsAre(HasSubstr(absl::StrCat("node1: MASTER_ADDR:MASTER_PORT (127.0.0.1:",
                                                 round_.master_port, ") cannot be reached"))));
}

TEST_F(MasterProbeTest, AWorkerMayListenLater) {
  EXPECT_THAT(SaidOf(round_, /*listens=*/false), IsEmpty());
}

TEST_F(MasterProbeTest, NobodyIsAskedOnOneMachineOrByItsOwnNode) {
  round_.one_host = true;
  EXPECT_THAT(SaidOf(round_, /*listens=*/true), IsEmpty());
  round_.one_host = false;
  round_.node_rank = NodeRank{0};
  EXPECT_THAT(SaidOf(round_, /*listens=*/true), IsEmpty());
}

TEST_F(MasterProbeTest, ARoundThatIsOverIsNotAskedFor) {
  MasterProbe probe(&loop_, "node1", kSoon);
  probe.BeginRound(round_, /*listens=*/true);
  probe.EndRound();
  EXPECT_THAT(SaidOf({}, /*listens=*/true), IsEmpty());
}

}  // namespace
}  // namespace muster
