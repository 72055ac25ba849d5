// Master and agents over real gRPC, in one process and on one loop.
#include "rendezvous/service/master_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"
#include "proto/wire/secret.h"
#include "rendezvous/service/journal.h"
#include "tests/rendezvous/service/fake_store.h"
#include "tests/rendezvous/service/master_fixture.h"
#include "tests/rendezvous/service/test_agent.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Join JoinOf(int index, uint32_t workers = 1) {
  Join join;
  join.key = absl::StrCat("list/", index);
  join.key_is_exact = true;
  join.life = 1000 + static_cast<uint64_t>(index);
  join.node_rank = index;
  join.hostname = absl::StrCat("host", index);
  join.workers = workers;
  join.store_port = static_cast<uint16_t>(4000 + index);
  return join;
}

class MasterServerTest : public MasterFixture {
 protected:
  static MasterOptions OneJob(uint32_t nodes, const std::string& secret = "the secret") {
    MasterOptions options;
    options.users = OneSecret(secret);
    options.job.job_id = "job";
    options.job.nodes_min = nodes;
    options.job.nodes_max = nodes;
    return options;
  }
  // An agent whose starter gave it a socket and a nonce.
  TestAgent& AddStarted(const std::string& secret, const std::string& nonce, int index = 0) {
    auto [ours, theirs] = SocketPair();
    master_->AdoptConnection(std::move(ours), absl::StrCat("10.0.0.", index));
    MasterClientOptions options = Client(secret);
    options.targets.clear();
    options.socket = std::move(theirs);
    options.nonce = nonce;
    return AddAgent(std::move(options), JoinOf(index));
  }
  MasterClientOptions Client(const std::string& secret = "the secret",
                             const std::string& job_id = "job") const {
    MasterClientOptions options;
    options.targets = {absl::StrCat("127.0.0.1:", port_)};
    options.secret = secret;
    options.job_id = job_id;
    options.hostname = "node1";
    options.life = 77;
    return options;
  }
  // Of one that believes any daemon that proves the secret.
  MasterClientOptions UserOfSite(const std::string& secret,
                                 const std::string& job_id = "job") const {
    MasterClientOptions options = Client(secret, job_id);
    options.sites.expected = [](const std::string&) { return std::string(); };
    return options;
  }
};

TEST_F(MasterServerTest, ListensAtAPortOfTheRange) {
  StartMaster(OneJob(1));
  Listen();
  const PortRange taken = {port_, port_};
  const absl::Status full = master_->Listen("[::]:0", taken).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(master_->Listen(absl::StrCat("127.0.0.1:", port_), taken).status().code(),
            absl::StatusCode::kAlreadyExists);
  const uint16_t low = port_ < 60000 ? port_ : uint16_t{59000};
  const PortRange wide = {low, static_cast<uint16_t>(low + 50)};
  const absl::StatusOr<uint16_t> port = master_->Listen("127.0.0.1:0", wide);
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_GE(*port, wide.low);
  EXPECT_LE(*port, wide.high);
}

TEST_F(MasterServerTest, TwoAgentsFormARound) {
  StartMaster(OneJob(2));
  Listen();
  TestAgent& second = AddAgent(Client(), JoinOf(1, 3));
  TestAgent& first = AddAgent(Client(), JoinOf(0, 2));
  loop_.Until([&] { return first.running && second.running; }, "the round");
  EXPECT_THAT(rounds_, testing::ElementsAre("job 5 on 2"));
  EXPECT_EQ(first.assignment.rank_first.value, 0u);
  EXPECT_EQ(second.assignment.rank_first.value, 2u);
  EXPECT_EQ(second.assignment.world_size, 5u);
  EXPECT_EQ(second.assignment.master_port, 4000);
  // The address is what the master saw, for the agents named none.
  EXPECT_EQ(second.assignment.master_addr, "127.0.0.1");
}

TEST_F(MasterServerTest, ConnectedSocketsNeedNoPort) {
  StartMaster(OneJob(2));
  std::vector<TestAgent*> agents;
  for (int i = 0; i < 2; ++i) {
    auto [ours, theirs] = SocketPair();
    master_->AdoptConnection(std::move(ours), absl::StrCat("10.0.0.", i));
    MasterClientOptions options = Client();
    options.targets.clear();
    options.socket = std::move(theirs);
    agents.push_back(&AddAgent(std::move(options), JoinOf(i)));
  }
  EXPECT_TRUE(agents[0]->client().link().IsFinal());
  loop_.Until([&] { return agents[0]->running && agents[1]->running; }, "the round");
  EXPECT_EQ(agents[1]->assignment.master_addr, "10.0.0.0");
}

TEST_F(MasterServerTest, AnIssuedNonceStandsForTheChallengeOnce) {
  StartMaster(OneJob(2));
  const std::string nonce = master_->IssueNonce();
  TestAgent& first = AddStarted("the secret", nonce);
  EXPECT_EQ(first.ups, 1) << "it waits for nothing";
  loop_.Until([&] { return !first.admissions.empty(); }, "the admission");
  TestAgent& again = AddStarted("the secret", nonce, 1);
  loop_.Until([&] { return !again.refusals.empty(); }, "the refusal of a nonce used before");
  EXPECT_THAT(again.refusals[0], HasSubstr("answers no challenge of this master"));
  TestAgent& second = AddStarted("the secret", master_->IssueNonce(), 1);
  loop_.Until([&] { return first.running && second.running; }, "the round");
}

TEST_F(MasterServerTest, AnIssuedNonceIsNoSecret) {
  StartMaster(OneJob(1));
  for (const auto& [secret, nonce, why] :
       {std::tuple<std::string, std::string, std::string>{"another", master_->IssueNonce(),
                                                          "has another secret"},
        {"", master_->IssueNonce(), "wants a secret"},
        {"the secret", std::string(kNonceBytes, 'x'), "answers no challenge of this master"}}) {
    TestAgent& agent = AddStarted(secret, nonce);
    loop_.Until([&agent] { return !agent.refusals.empty(); }, "the refusal");
    EXPECT_THAT(agent.refusals[0], HasSubstr(why));
    EXPECT_THAT(agent.admissions, IsEmpty());
  }
  EXPECT_THAT(rounds_, IsEmpty());
}

TEST_F(MasterServerTest, AnotherSecretIsRefusedWithTheLineThatCopiesIt) {
  StartMaster(OneJob(1));
  Listen();
  TestAgent& agent = AddAgent(Client("another"), JoinOf(0));
  loop_.Until([&] { return !agent.refusals.empty(); }, "the refusal");
  EXPECT_THAT(agent.refusals[0], HasSubstr("scp -p"));
  EXPECT_EQ(agent.ups, 0);
  EXPECT_THAT(rounds_, IsEmpty());
}

TEST_F(MasterServerTest, InsecureOnOneSideOnlyIsRefused) {
  StartMaster(OneJob(1, ""));
  Listen();
  TestAgent& agent = AddAgent(Client("the secret"), JoinOf(0));
  loop_.Until([&] { return !agent.refusals.empty(); }, "the refusal");
  EXPECT_THAT(agent.refusals[0], HasSubstr("--insecure"));
}

TEST_F(MasterServerTest, AnAgentWithoutSecretIsRefused) {
  StartMaster(OneJob(1));
  Listen();
  TestAgent& agent = AddAgent(Client(""), JoinOf(0));
  loop_.Until([&] { return !agent.refusals.empty(); }, "the refusal");
  EXPECT_THAT(agent.refusals[0], HasSubstr("wants a secret"));
}

TEST_F(MasterServerTest, InsecureOnBothSidesWorks) {
  StartMaster(OneJob(1, ""));
  Listen();
  TestAgent& agent = AddAgent(Client(""), JoinOf(0));
  loop_.Until([&] { return agent.running; }, "the round");
}

TEST_F(MasterServerTest, AnotherJobIsRefused) {
  StartMaster(OneJob(1));
  Listen();
  TestAgent& agent = AddAgent(Client("the secret", "other"), JoinOf(0));
  loop_.Until([&] { return !agent.refusals.empty(); }, "the refusal");
  EXPECT_THAT(agent.refusals[0], HasSubstr("'other'"));
}

TEST_F(MasterServerTest, AMalformedJoinIsRefused) {
  StartMaster(OneJob(1));
  Listen();
  TestAgent& agent = AddAgent(Client(), JoinOf(0, kWorkersPerNodeMax + 1));
  loop_.Until([&] { return !agent.refusals.empty(); }, "the refusal");
  EXPECT_THAT(agent.refusals[0], HasSubstr("join.workers"));
  EXPECT_EQ(agent.admissions.size(), 0u);
}

TEST_F(MasterServerTest, ADaemonKeepsJobsApart) {
  MasterOptions options;
  options.users = OneSecret("the secret");
  options.many_jobs = true;
  options.epoch = 7;
  StartMaster(std::move(options));
  Listen();
  std::vector<TestAgent*> agents;
  for (const char* job : {"a", "b"}) {
    for (int i = 0; i < 2; ++i) {
      MasterClientOptions client = Client("the secret", job);
      client.terms.nodes_min = 2;
      client.terms.nodes_max = 2;
      agents.push_back(&AddAgent(std::move(client), JoinOf(i)));
    }
  }
  for (TestAgent* agent : agents) {
    loop_.Until([&] { return agent->running; }, "its round");
    EXPECT_EQ(agent->assignment.world_size, 2u);
    EXPECT_EQ(agent->assignment.round.epoch, 7u);
  }
  EXPECT_THAT(rounds_, testing::UnorderedElementsAre("a 2 on 2", "b 2 on 2"));
  master_->Post("a", StopAsked{SIGINT, true});
  loop_.Until([&] { return agents[0]->end && agents[1]->end; }, "the end of a");
  EXPECT_FALSE(agents[2]->end);
  loop_.Until([&] { return !ended_.empty(); }, "the report of a");
  EXPECT_THAT(ended_, testing::ElementsAre("a 130"));
}

TEST_F(MasterServerTest, OneThatStandsBySaysWhoLeadsUntilItDoesItself) {
  MasterOptions options;
  options.users = OneSecret("the secret");
  options.many_jobs = true;
  StartMaster(std::move(options));
  master_->StandBy("b:2 does not lead: a:1 leads");
  Listen();
  TestAgent& agent = AddAgent(Client(), JoinOf(0));
  loop_.Until([&] { return !agent.tries_failed.empty(); }, "the answer");
  EXPECT_THAT(agent.tries_failed[0], HasSubstr("b:2 does not lead: a:1 leads"));
  EXPECT_EQ(agent.ups, 0);
  journal_ = *Journal::On(loop_.get(), std::make_shared<FakeStore>());
  EXPECT_EQ(*master_->Lead(journal_.get(), [] { return true; }), 0u);
  loop_.Until([&] { return agent.running; }, "its round");
  EXPECT_EQ(agent.assignment.round.epoch, 7u);  // the store's
}

TEST_F(MasterServerTest, OneThatDoesNotLeadAnyMoreSaysNothing) {
  MasterOptions options;
  options.users = OneSecret("the secret");
  options.many_jobs = true;
  StartMaster(std::move(options));
  Listen();
  struct Lead {
    bool leads = true;
    int asked = 0;
  };
  const auto lead = std::make_shared<Lead>();  // the master asks as long as it lives
  journal_ = *Journal::On(loop_.get(), std::make_shared<FakeStore>());
  ASSERT_TRUE(
      master_->Lead(journal_.get(), [lead] { return ++lead->asked > 0 && lead->leads; }).ok());
  TestAgent& agent = AddAgent(Client(), JoinOf(0));
  loop_.Until([&] { return agent.running; }, "its round");
  lead->leads = false;
  lead->asked = 0;
  agent.SendBeat();  // its third, after those of its admission and its start
  TestAgent& late = AddAgent(Client(), JoinOf(1));
  loop_.Until([&] { return lead->asked > 2 && late.tries_failed.empty(); }, "both are heard");
  EXPECT_LT(agent.directives.back().beat_seq, 3u);
  EXPECT_TRUE(late.admissions.empty());
  EXPECT_TRUE(late.refusals.empty());
}

TEST_F(MasterServerTest, ADaemonKeepsUsersApart) {
  MasterOptions options;
  options.many_jobs = true;
  options.users = {{"alice", "hers"}, {"bob", "his"}};
  StartMaster(std::move(options));
  Listen();
  TestAgent& hers = AddAgent(UserOfSite("hers"), JoinOf(0));
  TestAgent& his = AddAgent(UserOfSite("his"), JoinOf(0));  // the same job id, the same place
  TestAgent& stranger = AddAgent(UserOfSite("another"), JoinOf(1));
  loop_.Until([&] { return hers.running && his.running; }, "a round for each");
  EXPECT_EQ(hers.assignment.world_size, 1u);
  EXPECT_THAT(rounds_, testing::UnorderedElementsAre("alice/job 1 on 1", "bob/job 1 on 1"));
  loop_.Until([&] { return !stranger.refusals.empty(); }, "the refusal");
  EXPECT_THAT(stranger.refusals.front(), HasSubstr("knows no user with the secret"));
  master_->Post("alice/job", StopAsked{SIGINT, true});
  loop_.Until([&] { return hers.end; }, "the end of hers");
  EXPECT_FALSE(his.end);
}

TEST_F(MasterServerTest, UsersComeAndGo) {
  MasterOptions options;
  options.many_jobs = true;
  StartMaster(std::move(options));  // nobody yet
  Listen();
  TestAgent& early = AddAgent(UserOfSite("hers"), JoinOf(0));
  loop_.Until([&] { return !early.refusals.empty(); }, "the refusal");
  TestAgent& open = AddAgent(UserOfSite(""), JoinOf(0));
  loop_.Until([&] { return !open.refusals.empty(); }, "nobody is not everybody");
  master_->SetUsers({{"alice", "hers"}});
  TestAgent& later = AddAgent(UserOfSite("hers"), JoinOf(0));
  loop_.Until([&] { return later.running; }, "her round");
  master_->SetUsers({{"bob", "his"}});
  later.SendBeat();
  TestAgent& gone = AddAgent(UserOfSite("hers", "another"), JoinOf(0));
  loop_.Until([&] { return !gone.refusals.empty(); }, "the refusal");
  EXPECT_TRUE(later.downs.empty());  // what stands goes on
}

TEST_F(MasterServerTest, TheSameJobAgainIsANewOneAndOldBeatsAreNotItsOwn) {
  MasterOptions options;
  options.users = OneSecret("the secret");
  options.many_jobs = true;
  StartMaster(std::move(options));
  Listen();
  TestAgent& first = AddAgent(Client(), JoinOf(0));
  loop_.Until([&] { return first.running; }, "the first round");
  master_->Post("job", StopAsked{SIGINT, true});
  loop_.Until([&] { return !ended_.empty(); }, "the end");
  Join join = JoinOf(0);
  join.life = 4711;
  TestAgent& second = AddAgent(Client(), std::move(join));
  loop_.Until([&] { return second.running; }, "the second round");
  EXPECT_EQ(rounds_.size(), 2u);
  EXPECT_NE(first.admissions[0].incarnation, second.admissions[0].incarnation);
}

TEST_F(MasterServerTest, AClosedConnectionIsNews) {
  StartMaster(OneJob(2));
  Listen();
  TestAgent& first = AddAgent(Client(), JoinOf(0));
  TestAgent& second = AddAgent(Client(), JoinOf(1));
  loop_.Until([&] { return first.running && second.running; }, "the round");
  const NodeId node = second.admissions[0].node;
  ASSERT_EQ(master_->FindJob("job")->nodes.at(node).status, NodeStatus::kAlive);
  second.Stop();
  loop_.Until([&] { return master_->FindJob("job")->nodes.at(node).status != NodeStatus::kAlive; },
              "suspicion");
  loop_.Until([&] { return second.stopped; }, "its stop");
  agents_.pop_back();
}

TEST_F(MasterServerTest, AFenceIsLeftByAllOrToldWhyNot) {
  MasterOptions options = OneJob(2);
  options.job.on_failure = OnFailure::kContinue;
  StartMaster(std::move(options));
  Listen();
  TestAgent& first = AddAgent(Client(), JoinOf(0));
  TestAgent& second = AddAgent(Client(), JoinOf(1));
  loop_.Until([&] { return first.running && second.running; }, "the round");
  first.EnterFence(1, "a");
  second.EnterFence(1, "b");
  loop_.Until([&] { return !first.fences.empty() && !second.fences.empty(); }, "the fence");
  EXPECT_EQ(first.fences[0].bytes, "ab");
  first.EnterFence(2, "a");
  second.Stop();
  loop_.Until([&] { return first.fences.size() == 2; }, "the refusal");
  EXPECT_EQ(first.fences[1].number, 2u);
  EXPECT_THAT(first.fences[1].refused, HasSubstr("node host1 was lost: its connection closed"));
  loop_.Until([&] { return second.stopped; }, "its stop");
  agents_.pop_back();
}

TEST_F(MasterServerTest, APortInUseNamesItsOwner) {
  StartMaster(OneJob(1));
  Listen();
  const absl::StatusOr<uint16_t> again = master_->Listen(absl::StrCat("127.0.0.1:", port_));
  ASSERT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr(absl::StrCat("pid ", getpid())));
}

TEST_F(MasterServerTest, AddressesThatCannotBeListenedOn) {
  StartMaster(OneJob(1));
  for (const char* text : {"", "29400", "::1:29400", "[::]:", "h:70000", "h:-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(master_->Listen(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsNotFound(master_->Listen("192.0.2.1:0").status()));
  EXPECT_TRUE(master_->Listen("[::]:0").ok());
}

TEST_F(MasterServerTest, AnAddressWithoutIPv4) {
  StartMaster(OneJob(1));
  const absl::StatusOr<uint16_t> port = master_->Listen("[::1]:0");
  if (!port.ok()) {  // a kernel without IPv6
    EXPECT_TRUE(absl::IsNotFound(port.status()) || absl::IsUnavailable(port.status()));
    return;
  }
  MasterClientOptions client = Client();
  client.targets = {absl::StrCat("[::1]:", *port)};
  TestAgent& agent = AddAgent(std::move(client), JoinOf(0));
  loop_.Until([&] { return agent.running; }, "the round");
  EXPECT_EQ(agent.assignment.master_addr, "::1");
}

TEST_F(MasterServerTest, ForeignConnectionsAreHandedOnUnread) {
  UniqueFd got;
  std::string peer;
  MasterOptions options = OneJob(1);
  options.on_foreign = [&](UniqueFd socket, std::string from) {
    got = std::move(socket);
    peer = std::move(from);
  };
  StartMaster(std::move(options));
  Listen();
  const UniqueFd client(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(write(client.get(), "\0abc", 4), 4);
  loop_.Until([&] { return got.valid(); }, "the connection");
  char bytes[8];
  EXPECT_EQ(read(got.get(), bytes, sizeof(bytes)), 4);
  EXPECT_EQ(peer, "127.0.0.1");
}

TEST_F(MasterServerTest, AnAgentWaitsForAMasterThatComesLater) {
  StartMaster(OneJob(1));
  Listen();
  const uint16_t port = port_;
  bool down = false;
  master_->Shutdown([&down] { down = true; });
  loop_.Until([&] { return down; }, "the shutdown");
  MasterClientOptions client = Client();
  client.retry_max = absl::Milliseconds(20);
  TestAgent& agent = AddAgent(std::move(client), JoinOf(0));
  loop_.Until([&] { return agent.tries_failed.size() >= 3; }, "failed tries");
  EXPECT_THAT(agent.tries_failed[0], HasSubstr("127.0.0.1: Connection refused"));
  EXPECT_THAT(agent.downs, IsEmpty());
  StartMaster(OneJob(1));
  ASSERT_TRUE(master_->Listen(absl::StrCat("127.0.0.1:", port)).ok());
  loop_.Until([&] { return agent.running; }, "the round");
}

}  // namespace
}  // namespace muster
