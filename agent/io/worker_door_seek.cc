// What workers say on their links, and what they get.
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "agent/io/link_words.h"
#include "agent/io/worker_door.h"
#include "proto/base/arena_memory.h"
#include "proto/base/fd_message.h"
#include "proto/base/why_no_memory.h"

namespace muster {
namespace {

constexpr absl::Duration kSendPause = absl::Milliseconds(50);

}  // namespace

void WorkerDoor::OnLink(LinkId id) {
  for (int i = 0; i < kWordsAtOnce && SendResults(id) && TakeWord(id); ++i) {
  }
}

bool WorkerDoor::TakeWord(LinkId id) {
  Link& link = links_.at(id);
  if (!link.results.empty()) {
    return false;  // who does not listen is not listened to
  }
  LinkWord word;
  const Came came = Receive(link.fd.get(), &word);
  if (came == Came::kNothing) {
    return false;
  }
  const bool whole = came == Came::kWord;
  if (whole && word.verb == LinkVerb::kSeek) {
    Seek(id, word);
    return true;
  }
  if (whole && word.verb == LinkVerb::kBlame && Blame(id.first, Rank{word.rank})) {
    return true;
  }
  Gone(id, whole && word.verb == LinkVerb::kBye ? LineEnd::kClosed : LineEnd::kDied);
  return false;
}

// What a worker said before it ended, and nobody has read yet: only its blame counts now.
void WorkerDoor::TakeLastWords(LinkId id) {
  const Link& link = links_.at(id);
  LinkWord word;
  for (int i = 0; i < kLastWordsMax && Receive(link.fd.get(), &word) == Came::kWord; ++i) {
    if (word.verb == LinkVerb::kBlame) {
      Blame(id.first, Rank{word.rank});
    }
  }
}

// The first one counts: what failed later may have failed because of that.
bool WorkerDoor::Blame(uint32_t worker, Rank rank) {
  if (rank.value == ranks_[worker]) {
    failing_[worker] = true;
    return true;
  }
  if (!map_.NodeOf(rank).has_value()) {
    return false;
  }
  std::optional<Rank>& blamed = blamed_[worker];
  blamed = blamed.has_value() ? blamed : rank;
  return true;
}

void WorkerDoor::Seek(LinkId id, const LinkWord& word) {
  const uint32_t mine = ranks_[id.first];
  const std::optional<NodeRank> node = map_.NodeOf(Rank{word.rank});
  const Sought sought = {word.rank, word.channel};
  const auto refuse = [&](absl::string_view why) {
    Answer(id, sought, absl::InvalidArgumentError(absl::StrCat("rank ", word.rank, " ", why)));
  };
  if (!IsChannel(word.channel)) {
    refuse(absl::StrCat("is sought for channel ", static_cast<uint32_t>(word.channel),
                        ", which the agent does not know"));
  } else if (!node.has_value()) {
    refuse(absl::StrCat("is none of this round's ", geometry_.world_size));
  } else if (*node == node_ && word.channel == LinkChannel::kCollectives) {
    refuse("runs on this node: it is reached through memory");
  } else if (word.rank == mine) {
    refuse("is this worker itself");
  } else if (*node == node_ && !meetings_.at(id.second)->PlaceOf(word.rank).has_value()) {
    refuse("is none of this communicator's");
  } else if (!links_.at(id).sought.insert(sought).second) {
    refuse("has been sought on this communicator already");
  } else if (*node == node_) {
    SeekPipe(id, sought);
  } else {
    peers_.Seek({id.second, mine, word.rank, word.channel},
                [this, id, sought](absl::StatusOr<UniqueFd> result) {
                  Answer(id, sought, std::move(result));
                });
  }
}

void WorkerDoor::SeekPipe(LinkId id, const Sought& sought) {
  const uint32_t mine = ranks_[id.first];
  const uint32_t theirs = sought.first;
  WorkerMeeting& meeting = *meetings_.at(id.second);
  const uint32_t other = *meeting.PlaceOf(theirs);
  if (const LineEnd end = meeting.EndOf(other); end != LineEnd::kNone) {
    return Answer(id, sought, GoneError(theirs, end));
  }
  if (!meeting.MeetsInPipe(*meeting.PlaceOf(mine), other)) {
    return;
  }
  UniqueFd memory = MakePipeMemory();
  UniqueFd second(memory.valid() ? fcntl(memory.get(), F_DUPFD_CLOEXEC, 0) : -1);
  const auto end = [error = errno](UniqueFd fd) -> absl::StatusOr<UniqueFd> {
    if (!fd.valid()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no shared memory for messages: ", WhyNoMemory(error, sizeof(Pipe))));
    }
    return fd;
  };
  if (!second.valid()) {
    memory.Reset();
  }
  Answer({WorkerOf(theirs), id.second}, {mine, sought.second}, end(std::move(second)));
  Answer(id, sought, end(std::move(memory)));
}

void WorkerDoor::Answer(LinkId id, const Sought& sought, absl::StatusOr<UniqueFd> result) {
  Result out;
  out.words.rank = sought.first;
  out.words.channel = sought.second;
  if (result.ok()) {
    out.socket = *std::move(result);
  } else {
    out.words.answer = LinkAnswer::kRefused;
    WriteText(result.status().message(), out.words.why);
  }
  links_.at(id).results.push_back(std::move(out));
  SendResults(id);
}

bool WorkerDoor::SendResults(LinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return false;
  }
  Link& link = found->second;
  while (!link.results.empty()) {
    Result& result = link.results.front();
    iovec part = {&result.words, sizeof(result.words)};
    if (SendWithFd(link.fd.get(), &part, 1, result.socket.get(), MSG_DONTWAIT) >= 0) {
      link.results.pop_front();
    } else if (errno == EAGAIN) {
      link.poll->Start(UV_WRITABLE);
      return true;
    } else if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) {
      link.poll->Stop();
      again_.StartAfter(kSendPause);
      return true;
    } else {
      (void)shutdown(link.fd.get(), SHUT_RDWR);  // it is gone: the loop hears of it
      link.results.clear();
    }
  }
  link.poll->Start(UV_READABLE);
  return true;
}

}  // namespace muster
