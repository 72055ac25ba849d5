#include "proto/wire/dial.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr absl::string_view kTicketHead = "muster-ticket 1";
constexpr absl::string_view kTicketEnd = "end";
constexpr absl::string_view kLaunch = "muster-launch ";
constexpr absl::string_view kAgent = "muster-agent ";
constexpr absl::string_view kProof = "muster-proof ";
constexpr absl::string_view kUnreachable = "muster-unreachable ";
constexpr absl::string_view kNone = "-";

absl::Status NoTicket(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the ticket on stdin: ", why));
}

bool IsHex(absl::string_view text, size_t bytes) {
  return text.size() == 2 * bytes && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

std::string Hex(absl::string_view proof) {
  return proof.empty() ? std::string(kNone) : absl::BytesToHexString(proof);
}

// Of a proof as it is on the wire; what is none holds for nothing.
std::string Bytes(absl::string_view word) {
  return IsHex(word, 32) ? absl::HexStringToBytes(word) : std::string(word == kNone ? "" : "?");
}

Handshake Of(const DialTicket& ticket, absl::string_view launch_nonce,
             absl::string_view agent_nonce, absl::string_view node, absl::string_view channel) {
  return {std::string(launch_nonce), std::string(agent_nonce),
          absl::StrCat(ticket.job_id, "/", node), std::string(channel)};
}

bool IsWord(absl::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isspace(c) || absl::ascii_iscntrl(c);
  });
}

}  // namespace

std::string TicketText(const DialTicket& ticket) {
  std::string out = absl::StrCat(kTicketHead, "\njob ", ticket.job_id, "\nsecret ",
                                 ticket.secret.empty() ? kNone : ticket.secret, "\n");
  for (const std::string& target : ticket.targets) {
    absl::StrAppend(&out, "target ", target, "\n");
  }
  return absl::StrCat(out, kTicketEnd, "\n");
}

absl::StatusOr<DialTicket> ParseTicket(absl::string_view text) {
  if (!absl::ConsumeSuffix(&text, absl::StrCat(kTicketEnd, "\n"))) {
    return NoTicket("it does not end with \"end\"");
  }
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.front() != kTicketHead) {
    return NoTicket(absl::StrCat("want \"", kTicketHead, "\": use one build of Muster"));
  }
  DialTicket out;
  bool has_secret = false;
  for (size_t i = 1; i < lines.size(); ++i) {
    absl::string_view line = lines[i];
    if (line.empty() && i + 1 == lines.size()) {
      continue;  // behind the last newline
    }
    const bool job = absl::ConsumePrefix(&line, "job ");
    const bool secret = !job && absl::ConsumePrefix(&line, "secret ");
    if ((!job && !secret && !absl::ConsumePrefix(&line, "target ")) || !IsWord(line)) {
      return NoTicket("a line is not of it");  // which may hold the secret
    }
    if (job) {
      out.job_id = std::string(line);
    } else if (secret) {
      has_secret = true;
      out.secret = line == kNone ? "" : std::string(line);
    } else {
      out.targets.emplace_back(line);
    }
  }
  if (out.job_id.empty() || !has_secret || out.targets.empty()) {
    return NoTicket("it lacks the job, the secret or an address");
  }
  return out;
}

std::vector<std::string> TicketWords(const DialTicket& ticket, const std::string& key) {
  std::vector<std::string> words = {ticket.job_id, key};
  words.insert(words.end(), ticket.targets.begin(), ticket.targets.end());
  return words;
}

absl::StatusOr<OpenTicket> ParseTicketWords(const std::vector<std::string>& words) {
  const bool whole =
      words.size() >= 3 &&
      std::none_of(words.begin(), words.end(), [](const auto& word) { return word.empty(); });
  if (!whole) {
    return absl::InvalidArgumentError("want JOB KEY ADDRESS:PORT... behind the node's name");
  }
  const std::string& key = words[1];
  if (key != kNoKey && !absl::StartsWith(key, kCookieKey) && !absl::StartsWith(key, kFileKey)) {
    return absl::InvalidArgumentError(
        absl::StrCat("KEY: want cookie:NONCE, file:PATH or -, got '", key, "'"));
  }
  return OpenTicket{{words[0], "", {words.begin() + 2, words.end()}}, key};
}

std::string CookieSecret(absl::string_view cookie, absl::string_view key) {
  return absl::BytesToHexString(HmacSha256(cookie, absl::StrCat("muster job secret ", key)));
}

std::string DialGreeting(absl::string_view nonce) {
  return absl::StrCat(kLaunch, absl::BytesToHexString(nonce), "\n");
}

absl::StatusOr<DialCaller> TakeCall(const DialTicket& ticket, absl::string_view nonce,
                                    absl::string_view line, absl::string_view channel) {
  std::vector<absl::string_view> words;
  if (absl::ConsumePrefix(&line, kAgent)) {
    words = absl::StrSplit(line, ' ');
  }
  if (words.size() != 3 || !IsWord(words[0]) || !IsHex(words[1], kNonceBytes)) {
    return absl::InvalidArgumentError("it does not speak this protocol");
  }
  const Handshake handshake =
      Of(ticket, nonce, absl::HexStringToBytes(words[1]), words[0], channel);
  if (!ProofHolds(AgentProof(ticket.secret, handshake), Bytes(words[2]))) {
    return absl::PermissionDeniedError("it does not know this job's secret, or is of another job");
  }
  return DialCaller{std::string(words[0]),
                    absl::StrCat(kProof, Hex(MasterProof(ticket.secret, handshake)), "\n")};
}

absl::StatusOr<DialCall> CallLaunch(const DialTicket& ticket, absl::string_view node,
                                    absl::string_view nonce, absl::string_view greeting,
                                    absl::string_view channel) {
  if (!absl::ConsumePrefix(&greeting, kLaunch) || !IsHex(greeting, kNonceBytes)) {
    return absl::InvalidArgumentError("what answers there is no launch");
  }
  const Handshake handshake = Of(ticket, absl::HexStringToBytes(greeting), nonce, node, channel);
  return DialCall{absl::StrCat(kAgent, node, " ", absl::BytesToHexString(nonce), " ",
                               Hex(AgentProof(ticket.secret, handshake)), "\n"),
                  MasterProof(ticket.secret, handshake)};
}

absl::Status CheckAnswer(const DialCall& call, absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kProof) || !ProofHolds(call.proof, Bytes(line))) {
    return absl::PermissionDeniedError("what answers there does not know this job's secret");
  }
  return absl::OkStatus();
}

std::string UnreachableLine(const Unreachable& said) {
  const std::string line = absl::StrCat(kUnreachable, said.node, " ", said.why);
  return absl::StrCat(line.substr(0, kDialLineBytesMax - 1), "\n");
}

std::optional<Unreachable> ParseUnreachable(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kUnreachable)) {
    return std::nullopt;
  }
  const std::pair<std::string, std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  return IsWord(words.first) ? std::optional<Unreachable>({words.first, words.second})
                             : std::nullopt;
}

}  // namespace muster
