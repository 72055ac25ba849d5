#include "rendezvous/service/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::vector<KnownUser> One() { return OneSecret("secret"); }

v1::Hello GoodHello(absl::string_view secret, const std::string& master_nonce) {
  v1::Hello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_build(std::string(BuildName()));
  hello.set_nonce(std::string(kNonceBytes, 'n'));
  hello.set_job_id("job");
  hello.set_hostname("node1");
  hello.set_proof(AgentProof(secret, {master_nonce, hello.nonce(), "job"}));
  return hello;
}

TEST(Handshake, AGoodHelloIsAccepted) {
  Handshake handshake{"m", "", ""};
  KnownUser user;
  EXPECT_EQ(RefusalOf(GoodHello("secret", "m"), One(), "boss", &handshake, &user), "");
  EXPECT_EQ(handshake.job_id, "job");
  EXPECT_EQ(handshake.agent_nonce, std::string(kNonceBytes, 'n'));
}

TEST(Handshake, AnotherBuildIsRefusedByNameOfBoth) {
  for (const bool protocol : {false, true}) {
    v1::Hello hello = GoodHello("secret", "m");
    if (protocol) {
      hello.set_protocol(kProtocolVersion + 1);
    }
    hello.set_build("0.0.9-abc\n\x1b[2J");
    Handshake handshake{"m", "", ""};
    KnownUser user;
    EXPECT_EQ(RefusalOf(hello, One(), "boss", &handshake, &user),
              absl::StrCat("this master is muster ", BuildName(),
                           ", node1 runs 0.0.9-abc??[2J: install the same build"));
  }
}

// It is in the lines of a log that many read.
TEST(Handshake, AJobIdWithControlCharactersIsRefused) {
  v1::Hello hello = GoodHello("secret", "m");
  hello.set_job_id("a\nmuster: job b");
  Handshake handshake{"m", "", ""};
  KnownUser user;
  EXPECT_EQ(RefusalOf(hello, One(), "boss", &handshake, &user),
            "--rdzv-id: want no control characters, node1 gives 'a?muster: job b'");
}

TEST(Handshake, OnesOwnProofSentBackIsRefused) {
  v1::Hello hello = GoodHello("secret", "m");
  hello.set_proof(MasterProof("secret", {"m", hello.nonce(), "job"}));
  Handshake handshake{"m", "", ""};
  KnownUser user;
  EXPECT_THAT(RefusalOf(hello, One(), "boss", &handshake, &user), HasSubstr("boss:.config/muster"));
}

TEST(Handshake, AProofForAnotherChallengeIsRefused) {
  Handshake handshake{"another", "", ""};
  KnownUser user;
  EXPECT_NE(RefusalOf(GoodHello("secret", "m"), One(), "boss", &handshake, &user), "");
}

TEST(Handshake, AProofThatIsRelayedFromAnotherChannelIsRefused) {
  v1::Hello hello = GoodHello("secret", "m");
  hello.set_proof(AgentProof("secret", {"m", hello.nonce(), "job", "theirs"}));
  KnownUser user;
  for (const char* channel : {"ours", ""}) {
    Handshake handshake{"m", "", "", channel};
    EXPECT_NE(RefusalOf(hello, One(), "boss", &handshake, &user), "");
  }
  Handshake handshake{"m", "", "", "theirs"};
  EXPECT_EQ(RefusalOf(hello, One(), "boss", &handshake, &user), "");
}

TEST(Handshake, AnEmptyNonceIsRefused) {
  v1::Hello hello = GoodHello("secret", "m");
  hello.set_nonce("");
  hello.set_proof(AgentProof("secret", {"m", "", "job"}));
  Handshake handshake{"m", "", ""};
  KnownUser user;
  EXPECT_THAT(RefusalOf(hello, One(), "boss", &handshake, &user), HasSubstr("malformed"));
}

TEST(Handshake, AStreamBelongsToItsAgentOnly) {
  const Handshake handshake{"m", "a", "job"};
  v1::StreamHello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_job_id("job");
  hello.set_node(3);
  hello.set_incarnation(9);
  hello.set_proof(StreamProof("secret", handshake, 3, 9));
  EXPECT_EQ(RefusalOf(hello, "secret", handshake), "");
  hello.set_node(4);
  EXPECT_NE(RefusalOf(hello, "secret", handshake), "");
  hello.set_node(3);
  EXPECT_NE(RefusalOf(hello, "secret", {"m2", "a", "job"}), "");
}

}  // namespace
}  // namespace muster
