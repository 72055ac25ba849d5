// The agent's connection against masters that lie, sleep or are none. A true master:
// tests/rendezvous/service.
#include "agent/io/master_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/limits.h"
#include "proto/base/mutex.h"
#include "proto/tls/tls_door.h"
#include "proto/wire/muster.grpc.pb.h"
#include "proto/wire/secret.h"
#include "tests/rendezvous/service/test_agent.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// A port that listens, and does with connections what the kernel does.
UniqueFd SilentPort(uint16_t* port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(fd.get(), 64), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

// `channel`: of the connection that the hello came on.
using Answer = std::function<void(const v1::Hello&, const std::string& channel, v1::MasterFrame*)>;

// Answers a hello with what the test says.
class FalseMaster final : public v1::Rendezvous::Service {
 public:
  explicit FalseMaster(uv_loop_t* loop, Answer answer, std::string build = std::string(BuildName()),
                       const TlsIdentity& identity = TlsIdentity::OfSecret("the secret"))
      : answer_(std::move(answer)),
        build_(std::move(build)),
        socket_(SilentPort(&port_)),
        door_(loop, identity, /*hear=*/true,
              [this](TlsDoor::Caller&& caller) {
                if (caller.arrival.ok()) {
                  MutexLock lock(mutex_);
                  channel_ = caller.arrival->channel;
                  AddInsecureChannelFromFd(server_.get(), caller.arrival->inner.Release());
                }
              }),
        poll_(loop, socket_.get(), [this](int) {
          door_.Take(UniqueFd(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK)), "",
                     absl::Minutes(1));
        }) {
    poll_.Start(UV_READABLE);
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FalseMaster() override { server_->Shutdown(std::chrono::system_clock::now()); }
  int port() const { return port_; }
  // Set before the first hello.
  std::optional<v1::Admitted> admits;    // whoever joins
  std::optional<v1::Directive> directs;  // then

  grpc::Status Attend(grpc::ServerContext*,
                      grpc::ServerReaderWriter<v1::MasterFrame, v1::AgentFrame>* stream) override {
    v1::MasterFrame frame;
    frame.mutable_challenge()->set_protocol(kProtocolVersion);
    frame.mutable_challenge()->set_build(build_);
    frame.mutable_challenge()->set_nonce(std::string(kNonceBytes, 'm'));
    stream->Write(frame);
    v1::AgentFrame hello;
    if (stream->Read(&hello)) {
      v1::MasterFrame answer;
      std::string channel;
      {
        MutexLock lock(mutex_);
        channel = channel_;
      }
      answer_(hello.hello(), channel, &answer);
      stream->Write(answer);
      while (stream->Read(&hello)) {
        if (hello.has_join() && admits.has_value()) {
          answer.Clear();
          *answer.mutable_admitted() = *admits;
          stream->Write(answer);
          if (directs.has_value()) {
            answer.Clear();
            *answer.mutable_directive() = *directs;
            stream->Write(answer);
          }
        }
      }
    }
    return grpc::Status::OK;
  }

 private:
  const Answer answer_;
  const std::string build_;
  Mutex mutex_;
  std::string channel_ MUSTER_GUARDED_BY(mutex_);  // of the last connection
  uint16_t port_ = 0;
  const UniqueFd socket_;
  std::unique_ptr<grpc::Server> server_;
  TlsDoor door_;
  UvPoll poll_;
};

class MasterClientTest : public testing::Test {
 protected:
  ~MasterClientTest() override {
    if (agent_ != nullptr) {
      StopAgent();
    }
  }
  void StopAgent() {
    agent_->Stop();
    loop_.Until([this] { return agent_->stopped; }, "the stop");
    agent_.reset();
  }
  static TlsIdentity Site(char key) { return TlsIdentity::OfSite(std::string(kTlsSeedBytes, key)); }
  // Answers as one that knows the secret.
  static Answer Welcome() {
    return [](const v1::Hello& hello, const std::string& channel, v1::MasterFrame* answer) {
      answer->mutable_welcome()->set_proof(MasterProof(
          "the secret", {std::string(kNonceBytes, 'm'), hello.nonce(), "job", channel}));
    };
  }
  SiteKeys Expecting(std::optional<std::string> fingerprint) {
    return {[fingerprint = std::move(fingerprint)](const std::string&) { return fingerprint; },
            [this](const std::string& target, const std::string& seen) {
              first_proof_ = absl::StrCat(target, " ", seen);
            },
            [](const std::string& target, const std::string& seen) {
              return absl::StrCat("not ", target, " ", seen);
            }};
  }
  static MasterClientOptions Options(const std::string& target) {
    MasterClientOptions options;
    options.targets = {target};
    options.secret = "the secret";
    options.job_id = "job";
    options.hostname = "node1";
    options.life = 77;
    options.retry_max = absl::Milliseconds(5);
    return options;
  }
  void Start(MasterClientOptions options) {
    Join join;
    join.workers = 1;
    agent_ = std::make_unique<TestAgent>(loop_.get(), std::move(options), std::move(join));
    agent_->Start();
  }
  void StartAt(int port, SiteKeys sites = {}) {
    MasterClientOptions options = Options(absl::StrCat("127.0.0.1:", port));
    options.sites = std::move(sites);
    Start(std::move(options));
  }
  std::string Refusal() {
    loop_.Until([this] { return !agent_->refusals.empty(); }, "the refusal");
    EXPECT_EQ(agent_->ups, 0);
    return agent_->refusals.empty() ? "" : agent_->refusals[0];
  }

  TestLoop loop_;
  std::unique_ptr<TestAgent> agent_;
  std::string first_proof_;  // "TARGET FINGERPRINT" that were told last
};

TEST_F(MasterClientTest, OurOwnProofSentBackIsRefused) {
  const FalseMaster master(loop_.get(),
                           [](const v1::Hello& hello, const std::string&, v1::MasterFrame* answer) {
                             answer->mutable_welcome()->set_proof(hello.proof());
                           });
  StartAt(master.port());
  EXPECT_THAT(Refusal(), HasSubstr("does not know this job's secret"));
}

TEST_F(MasterClientTest, OfSeveralMastersASilentOneIsLeftForTheNext) {
  const FalseMaster first(loop_.get(), Welcome());
  const FalseMaster second(loop_.get(), Welcome());
  MasterClientOptions options = Options(absl::StrCat("127.0.0.1:", first.port()));
  options.targets.push_back(absl::StrCat("127.0.0.1:", second.port()));
  options.silence_max = absl::Milliseconds(20);
  Start(std::move(options));
  loop_.Until([this] { return agent_->downs.size() >= 2; }, "the silence of both");
  EXPECT_EQ(agent_->downs[0], absl::StrCat("127.0.0.1:", first.port(), ": silent for 20 ms"));
  EXPECT_EQ(agent_->downs[1], absl::StrCat("127.0.0.1:", second.port(), ": silent for 20 ms"));
}

v1::Admitted ByJournal() {
  v1::Admitted admitted;
  admitted.set_life(77);
  admitted.set_node(1);
  admitted.set_incarnation(1);
  admitted.set_beat_interval(absl::ToInt64Nanoseconds(absl::Milliseconds(10)));
  admitted.set_lease(absl::ToInt64Nanoseconds(absl::Milliseconds(60)));
  admitted.set_journal(true);
  return admitted;
}

// Its machine may have gone without a word, and another has its name.
TEST_F(MasterClientTest, ASilentOneThatMayComeBackIsSoughtAnew) {
  FalseMaster master(loop_.get(), Welcome());
  master.admits = ByJournal();
  MasterClientOptions options = Options(absl::StrCat("127.0.0.1:", master.port()));
  options.silence_max = absl::Milliseconds(20);
  Start(std::move(options));
  loop_.Until([this] { return agent_->ups >= 2; }, "the next connection");
  EXPECT_EQ(agent_->admissions.size(), 1u);
  EXPECT_EQ(agent_->downs[0], absl::StrCat("127.0.0.1:", master.port(), ": silent for 30 ms"));
}

TEST_F(MasterClientTest, OneThatPausesItsJobMayBeSilent) {
  FalseMaster master(loop_.get(), Welcome());
  master.admits = ByJournal();
  master.directs.emplace().set_wanted(v1::WANTED_WAIT);
  master.directs->set_paused(true);
  MasterClientOptions options = Options(absl::StrCat("127.0.0.1:", master.port()));
  options.silence_max = absl::Milliseconds(300);
  Start(std::move(options));
  loop_.Until([this] { return !agent_->directives.empty(); }, "the directive");
  EXPECT_TRUE(agent_->directives[0].paused);
  bool over = false;
  UvTimer later(loop_.get(), [&] { over = true; });
  later.StartAfter(absl::Milliseconds(500));
  loop_.Until([&] { return over; }, "a longer time");
  EXPECT_TRUE(agent_->downs.empty());
}

TEST_F(MasterClientTest, WhereNoneOfSeveralAnswersEachIsNamed) {
  MasterClientOptions options = Options("127.0.0.1:1");
  options.targets.emplace_back("[::1]:1");
  Start(std::move(options));
  loop_.Until([this] { return !agent_->tries_failed.empty(); }, "both refuse");
  EXPECT_THAT(agent_->tries_failed[0], HasSubstr("127.0.0.1:1: "));
  EXPECT_THAT(agent_->tries_failed[0], HasSubstr("; [::1]:1: "));
}

TEST_F(MasterClientTest, AProofForAnotherChannelIsRefused) {
  const FalseMaster between(
      loop_.get(), [](const v1::Hello& hello, const std::string&, v1::MasterFrame* answer) {
        answer->mutable_welcome()->set_proof(MasterProof(
            "the secret", {std::string(kNonceBytes, 'm'), hello.nonce(), "job", "another"}));
      });
  StartAt(between.port());
  EXPECT_THAT(Refusal(), HasSubstr("does not know this job's secret"));
}

TEST_F(MasterClientTest, ASiteHasToProveTheSecret) {
  const FalseMaster site(
      loop_.get(),
      [](const v1::Hello&, const std::string&, v1::MasterFrame* answer) {
        answer->mutable_welcome()->set_proof("a proof");
      },
      std::string(BuildName()), Site('s'));
  StartAt(site.port(), Expecting(""));
  EXPECT_THAT(Refusal(), HasSubstr("does not know this job's secret"));
  EXPECT_EQ(first_proof_, "");
}

TEST_F(MasterClientTest, OfASiteThatIsNotKnownTheFingerprintIsToldOnceItHasProvedTheSecret) {
  const FalseMaster site(loop_.get(), Welcome(), std::string(BuildName()), Site('s'));
  StartAt(site.port(), Expecting(""));
  loop_.Until([this] { return agent_->ups > 0; }, "the connection");
  EXPECT_EQ(first_proof_, absl::StrCat("127.0.0.1:", site.port(), " ", Site('s').fingerprint()));
}

TEST_F(MasterClientTest, OfASiteThatIsKnownNothingIsTold) {
  const FalseMaster site(loop_.get(), Welcome(), std::string(BuildName()), Site('s'));
  StartAt(site.port(), Expecting(Site('s').fingerprint()));
  loop_.Until([this] { return agent_->ups > 0; }, "the connection");
  EXPECT_EQ(first_proof_, "");
}

TEST_F(MasterClientTest, C5ASiteOfAnotherFingerprintHearsNothing) {
  const auto fails = [](const v1::Hello&, const std::string&, v1::MasterFrame*) {
    ADD_FAILURE() << "a hello";
  };
  const FalseMaster site(loop_.get(), fails, std::string(BuildName()), Site('s'));
  const std::string where = absl::StrCat("127.0.0.1:", site.port());
  StartAt(site.port(), Expecting(Site('t').fingerprint()));
  EXPECT_EQ(Refusal(), absl::StrCat("not ", where, " ", Site('s').fingerprint()));
}

// C3
TEST_F(MasterClientTest, OfSeveralMastersOneThatIsNotBelievedIsPassedOver) {
  const auto fails = [](const v1::Hello&, const std::string&, v1::MasterFrame*) {
    ADD_FAILURE() << "a hello";
  };
  const FalseMaster changed(loop_.get(), fails, std::string(BuildName()), Site('s'));
  const FalseMaster other(loop_.get(), fails, std::string(BuildName()), Site('u'));
  const FalseMaster leads(loop_.get(), Welcome(), std::string(BuildName()), Site('t'));
  const auto at = [](const FalseMaster& one) { return absl::StrCat("127.0.0.1:", one.port()); };
  MasterClientOptions options = Options(at(changed));
  options.targets.push_back(at(leads));
  options.sites = Expecting(Site('t').fingerprint());
  Start(std::move(options));
  loop_.Until([this] { return agent_->ups > 0; }, "the connection");
  EXPECT_TRUE(agent_->refusals.empty());
  StopAgent();
  options = Options(at(changed));
  options.targets.push_back(at(other));
  options.sites = Expecting(Site('t').fingerprint());
  Start(std::move(options));
  EXPECT_EQ(Refusal(),
            absl::StrCat(at(changed), ": not ", at(changed), " ", Site('s').fingerprint(), "; ",
                         at(other), ": not ", at(other), " ", Site('u').fingerprint()));
}

TEST_F(MasterClientTest, C5WhereNoSiteIsExpectedNoneIsBelieved) {
  const FalseMaster site(loop_.get(), Welcome(), std::string(BuildName()), Site('s'));
  const std::string where = absl::StrCat("127.0.0.1:", site.port());
  StartAt(site.port());
  EXPECT_EQ(Refusal(), where + ": it is a site's daemon, and not the one that is expected here");
  StopAgent();
  StartAt(site.port(), Expecting(std::nullopt));
  EXPECT_EQ(Refusal(), absl::StrCat("not ", where, " ", Site('s').fingerprint()));
}

TEST_F(MasterClientTest, TheSecretsOwnKeyNeedsNoFingerprint) {
  const FalseMaster master(loop_.get(), Welcome());
  StartAt(master.port(), Expecting(Site('t').fingerprint()));
  loop_.Until([this] { return agent_->ups > 0; }, "the connection");
  EXPECT_EQ(first_proof_, "");
}

TEST_F(MasterClientTest, AMasterWithTheKeyOfAnotherSecretHearsNothing) {
  const FalseMaster master(
      loop_.get(),
      [](const v1::Hello&, const std::string&, v1::MasterFrame*) { ADD_FAILURE() << "a hello"; },
      std::string(BuildName()), TlsIdentity::OfSecret("another secret"));
  StartAt(master.port());
  EXPECT_EQ(Refusal(),
            absl::StrCat("127.0.0.1:", master.port(),
                         ": the master's identity is not that of this job's secret: copy the "
                         "master's with  scp -p 127.0.0.1:.config/muster/secret "
                         "~/.config/muster/secret  (or give both the same --secret-file)"));
}

TEST_F(MasterClientTest, AnEmptyProofIsRefused) {
  const FalseMaster master(loop_.get(), [](const v1::Hello&, const std::string&,
                                           v1::MasterFrame* answer) { answer->mutable_welcome(); });
  StartAt(master.port());
  EXPECT_THAT(Refusal(), HasSubstr("does not know this job's secret"));
}

TEST_F(MasterClientTest, AMasterOfAnotherBuildIsRefusedByNameOfBoth) {
  const FalseMaster master(loop_.get(), Welcome(), "0.0.1-old");
  StartAt(master.port());
  EXPECT_EQ(Refusal(), absl::StrCat("this master is muster 0.0.1-old, node1 runs ", BuildName(),
                                    ": install the same build"));
}

TEST_F(MasterClientTest, TheRefusalsReasonComesWithOurLife) {
  const FalseMaster master(loop_.get(),
                           [](const v1::Hello&, const std::string&, v1::MasterFrame* answer) {
                             answer->mutable_refusal()->set_reason("go away");
                           });
  StartAt(master.port());
  EXPECT_EQ(Refusal(), "go away");
}

TEST_F(MasterClientTest, AMasterThatSkipsTheHandshakeIsNotBelieved) {
  const FalseMaster master(loop_.get(),
                           [](const v1::Hello&, const std::string&, v1::MasterFrame* answer) {
                             answer->mutable_admitted()->set_life(77);
                           });
  StartAt(master.port());
  loop_.Until([this] { return agent_->tries_failed.size() >= 2; }, "failed tries");
  EXPECT_EQ(agent_->ups, 0);
  EXPECT_TRUE(agent_->admissions.empty());
}

TEST_F(MasterClientTest, APortThatNeverAnswersIsTriedAgainAfterADeadline) {
  uint16_t port = 0;
  const UniqueFd silent = SilentPort(&port);
  MasterClientOptions options = Options(absl::StrCat("127.0.0.1:", port));
  options.connect_timeout = absl::Milliseconds(20);
  Start(std::move(options));
  loop_.Until([this] { return agent_->tries_failed.size() >= 3; }, "failed tries");
  EXPECT_THAT(agent_->tries_failed[0], HasSubstr("does not answer like a muster master"));
}

TEST_F(MasterClientTest, NamesThatDoNotExistAndTargetsThatAreNone) {
  for (const auto& [target, words] :
       {std::pair("no-such-host.invalid:1", "name is not known"), std::pair("host", "HOST:PORT"),
        std::pair("::1:29400", "HOST:PORT"), std::pair("h:0", "HOST:PORT")}) {
    Start(Options(target));
    loop_.Until([this] { return !agent_->tries_failed.empty(); }, "a failed try");
    EXPECT_THAT(agent_->tries_failed[0], HasSubstr(words));
    StopAgent();
  }
}

TEST_F(MasterClientTest, AClosedSocketIsTheEnd) {
  auto [ours, theirs] = SocketPair();
  MasterClientOptions options = Options("");
  options.socket = std::move(ours);
  Start(std::move(options));
  EXPECT_TRUE(agent_->client().link().IsFinal());
  theirs.Reset();
  loop_.Until([this] { return !agent_->downs.empty(); }, "the news");
  EXPECT_EQ(agent_->downs.size(), 1u);
  EXPECT_TRUE(agent_->tries_failed.empty());
}

TEST_F(MasterClientTest, ANonceThatIsNoneIsNotAnswered) {
  const auto [ours, theirs] = SocketPair();
  MasterClientOptions options = Options("");
  options.socket = UniqueFd(dup(ours.get()));
  options.nonce = "short";
  Start(std::move(options));
  loop_.Until([this] { return !agent_->downs.empty(); }, "the news");
  EXPECT_EQ(agent_->ups, 0);
}

TEST_F(MasterClientTest, StopAtAnyMoment) {
  uint16_t port = 0;
  const UniqueFd silent = SilentPort(&port);
  for (int turns = 0; turns < 30; ++turns) {
    Start(Options(absl::StrCat("localhost:", port)));
    for (int i = 0; i < turns; ++i) {
      uv_run(loop_.get(), UV_RUN_NOWAIT);
    }
    StopAgent();
  }
}

TEST_F(MasterClientTest, StopWithoutStart) {
  bool stopped = false;
  {
    MasterClient client(loop_.get(), Options("127.0.0.1:1"));
    client.link().Stop([&stopped] { stopped = true; });
    loop_.Until([&] { return stopped; }, "the stop");
  }
}

}  // namespace
}  // namespace muster
