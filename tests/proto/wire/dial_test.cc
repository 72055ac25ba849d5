#include "proto/wire/dial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string LaunchNonce() { return std::string(kNonceBytes, 'L'); }
constexpr char kChannel[] = "of one connection";
std::string AgentNonce() { return std::string(kNonceBytes, 'A'); }

DialTicket Ticket() { return {"job7", std::string(64, 'a'), {"10.0.0.1:4000", "[fd00::1]:4000"}}; }

std::string Line(absl::string_view text) { return std::string(absl::StripSuffix(text, "\n")); }

TEST(DialTicket, GoesThroughAPipe) {
  const auto back = ParseTicket(TicketText(Ticket()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->job_id, "job7");
  EXPECT_EQ(back->secret, Ticket().secret);
  EXPECT_EQ(back->targets, Ticket().targets);
  DialTicket open = Ticket();
  open.secret.clear();
  EXPECT_EQ(ParseTicket(TicketText(open))->secret, "");
}

TEST(DialTicket, WhatIsNoneIsRefusedWithoutShowingIt) {
  const std::string good = TicketText(Ticket());
  for (const std::string& bad :
       {std::string(), std::string("end\n"), good.substr(0, good.size() - 1),
        absl::StrReplaceAll(good, {{"ticket 1", "ticket 2"}}),
        absl::StrReplaceAll(good, {{"job ", "jub "}}),
        absl::StrReplaceAll(good, {{"secret ", "secret"}}),
        absl::StrReplaceAll(good, {{"job job7\n", ""}}),
        absl::StrReplaceAll(good, {{"target ", "target \t"}}),
        absl::StrReplaceAll(good, {{"target 10.0.0.1:4000\ntarget [fd00::1]:4000\n", ""}}),
        absl::StrReplaceAll(good, {{"job job7\n", "job \n"}})}) {
    const auto ticket = ParseTicket(bad);
    EXPECT_EQ(ticket.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(ticket.status().message()), Not(HasSubstr("aaaa")));
  }
}

TEST(DialTicket, AsWordsItHasNoSecret) {
  const std::vector<std::string> words = TicketWords(Ticket(), "cookie:00ff");
  EXPECT_THAT(words, ElementsAre("job7", "cookie:00ff", "10.0.0.1:4000", "[fd00::1]:4000"));
  const auto back = ParseTicketWords(words);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ticket.job_id, "job7");
  EXPECT_EQ(back->ticket.secret, "");
  EXPECT_EQ(back->ticket.targets, Ticket().targets);
  EXPECT_EQ(back->key, "cookie:00ff");
}

TEST(DialTicket, WordsThatAreNoneAreRefused) {
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{},
                                             {"job7"},
                                             {"job7", "-"},
                                             {"job7", "-", ""},
                                             {"", "-", "a:1"},
                                             {"job7", "/x", "a:1"},
                                             {"job7", "cookie", "a:1"}}) {
    EXPECT_EQ(ParseTicketWords(bad).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(CookieSecret, IsAnotherForEachCookieAndKey) {
  const std::string one = CookieSecret("3D4EF134", "cookie:00");
  EXPECT_EQ(one.size(), 2 * kSecretBytes);
  EXPECT_EQ(one, CookieSecret("3D4EF134", "cookie:00"));
  EXPECT_NE(one, CookieSecret("3D4EF134", "cookie:01"));
  EXPECT_NE(one, CookieSecret("3D4EF135", "cookie:00"));
}

class DialTalk : public testing::TestWithParam<const char*> {
 protected:
  static DialTicket OfParam() {
    DialTicket ticket = Ticket();
    ticket.secret = GetParam();
    return ticket;
  }
};

TEST_P(DialTalk, BothSidesProveTheSecret) {
  const DialTicket ticket = OfParam();
  const auto call =
      CallLaunch(ticket, "node3", AgentNonce(), Line(DialGreeting(LaunchNonce())), kChannel);
  ASSERT_TRUE(call.ok()) << call.status();
  const auto caller = TakeCall(ticket, LaunchNonce(), Line(call->line), kChannel);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->node, "node3");
  EXPECT_TRUE(CheckAnswer(*call, Line(caller->answer)).ok());
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutSecret, DialTalk, testing::Values("", "0123"));

TEST(Dial, AProofHoldsForOneJobOneNodeAndOneConnectionOnly) {
  const std::string line =
      Line(CallLaunch(Ticket(), "node3", AgentNonce(), Line(DialGreeting(LaunchNonce())), kChannel)
               ->line);
  DialTicket other_job = Ticket();
  other_job.job_id = "job8";
  DialTicket other_secret = Ticket();
  other_secret.secret.back() = 'b';
  DialTicket no_secret = Ticket();
  no_secret.secret.clear();
  const auto denied = absl::StatusCode::kPermissionDenied;
  for (const DialTicket& ticket : {other_job, other_secret, no_secret}) {
    EXPECT_EQ(TakeCall(ticket, LaunchNonce(), line, kChannel).status().code(), denied);
  }
  EXPECT_EQ(TakeCall(Ticket(), std::string(kNonceBytes, 'M'), line, kChannel).status().code(),
            denied);
  EXPECT_EQ(
      TakeCall(Ticket(), LaunchNonce(), absl::StrReplaceAll(line, {{"node3", "node4"}}), kChannel)
          .status()
          .code(),
      denied);
  EXPECT_EQ(TakeCall(Ticket(), LaunchNonce(), line, "of another").status().code(), denied);
  const size_t proof = line.rfind(' ') + 1;
  for (const char* instead : {"-", "", "00", "zz"}) {
    EXPECT_FALSE(TakeCall(Ticket(), LaunchNonce(), line.substr(0, proof) + instead, kChannel).ok())
        << instead;
  }
}

TEST(Dial, AStrangerGetsNothing) {
  for (const char* line : {"", "GET / HTTP/1.1", "muster-agent", "muster-agent node3",
                           "muster-agent node3 00 00", "muster-agent  00 00"}) {
    EXPECT_EQ(TakeCall(Ticket(), LaunchNonce(), line, kChannel).status().code(),
              absl::StatusCode::kInvalidArgument)
        << line;
  }
  for (const char* greeting : {"", "SSH-2.0-OpenSSH_9.2", "muster-launch ", "muster-launch 00"}) {
    EXPECT_EQ(CallLaunch(Ticket(), "node3", AgentNonce(), greeting, kChannel).status().code(),
              absl::StatusCode::kInvalidArgument)
        << greeting;
  }
  const auto call =
      CallLaunch(Ticket(), "node3", AgentNonce(), Line(DialGreeting(LaunchNonce())), kChannel);
  for (const std::string& answer :
       {std::string(), std::string("muster-proof -"), std::string("muster-proof "),
        // The agent's own proof sent back.
        absl::StrCat("muster-proof ", Line(call->line).substr(call->line.rfind(' ') + 1))}) {
    EXPECT_EQ(CheckAnswer(*call, answer).code(), absl::StatusCode::kPermissionDenied) << answer;
  }
}

TEST(DialUnreachable, IsALineOfTheAgentsStdout) {
  const auto said = ParseUnreachable(Line(UnreachableLine({"node1", "10.0.0.1:4: No route"})));
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->node, "node1");
  EXPECT_EQ(said->why, "10.0.0.1:4: No route");
  EXPECT_EQ(UnreachableLine({"node1", std::string(5000, 'x')}).size(), kDialLineBytesMax);
  for (const char* other : {"", "muster-unreachable ", "muster-unreachable  why", "node1 why"}) {
    EXPECT_FALSE(ParseUnreachable(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace muster
