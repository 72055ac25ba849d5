// A round that keeps the workers of the one before it.
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/link_words.h"
#include "agent/io/worker_door.h"
#include "proto/base/check.h"
#include "proto/base/fd_message.h"

namespace muster {
namespace {

// Whether the worker still waits for its answer.
bool IsAwaited(const UniqueFd& link) {
  char byte = 0;
  return recv(link.get(), &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

}  // namespace

void WorkerDoor::KeepRound(const Assignment& assignment, UniqueFd listening) {
  TellOver();
  for (auto& [id, link] : links_) {
    link.poll.reset();
    const auto at = old_links_.insert(old_links_.end(), {id.first, std::move(link.fd), {}});
    at->poll.emplace(loop_, at->fd.get(), [this, at](int) { OnOldLink(at); });
    at->poll->Start(UV_READABLE);
    at->poll->Unref();
  }
  EndMeetings();
  const std::vector<uint32_t> before = rank_of_;
  SetRound(assignment);
  CHECK(rank_of_ == before);
  for (uint32_t worker = 0; worker < ranks_.size(); ++worker) {
    if (ended_[worker]) {
      ended_[worker] = false;
      started_in_[worker] = round_;
      replaces_[worker] = true;
      blamed_[worker].reset();
      failing_[worker] = false;
    }
  }
  peers_.BeginRound(assignment, &map_,
                    listening.valid() ? std::move(listening) : peers_.TakeListening());
  LetFollowersIn();
}

void WorkerDoor::TellOver() {
  std::optional<uint32_t> rank;
  for (uint32_t worker = 0; worker < ranks_.size() && !rank.has_value(); ++worker) {
    rank = ended_[worker] ? std::optional(ranks_[worker]) : std::nullopt;
  }
  const std::string who =
      rank.has_value() ? absl::StrCat("rank ", *rank) : "a worker of another node";
  over_ = absl::StrCat(who, " has ended, and this round with it");
  for (const auto& [number, meeting] : meetings_) {
    meeting->TellOver(over_, rank);
  }
}

void WorkerDoor::LetFollow(bool may) {
  may_follow_ = may;
  if (!may) {
    for (const auto& [worker, fd] : followers_) {
      Refuse(fd.get(), "the job stops: no round follows", LinkAnswer::kOver);
    }
    followers_.clear();
  }
}

void WorkerDoor::RefuseToMeet(const UniqueFd& fd, uint32_t worker) {
  Blame(worker, *ended_well_);
  Refuse(fd.get(),
         absl::StrCat("rank ", ended_well_->value,
                      " has ended well, and is not started again: the ranks of this job cannot all "
                      "meet any more"));
}

void WorkerDoor::Follow(UniqueFd fd, uint32_t worker) {
  if (!may_follow_) {
    return Refuse(fd.get(),
                  "no round follows that keeps this worker: `launch --restart=one` makes such "
                  "rounds, until the job stops",
                  LinkAnswer::kOver);
  }
  if (ended_well_.has_value()) {
    return RefuseToMeet(fd, worker);
  }
  followers_.insert_or_assign(worker, std::move(fd));
}

void WorkerDoor::MeetNoMore(Rank ended_well) {
  ended_well_ = ended_well;
  for (const auto& [worker, fd] : std::exchange(followers_, {})) {
    RefuseToMeet(fd, worker);
  }
}

void WorkerDoor::LetFollowersIn() {
  for (auto& [worker, fd] : std::exchange(followers_, {})) {
    if (IsAwaited(fd)) {
      LinkHello hello;
      hello.rank = ranks_[worker];
      Enter(std::move(fd), worker, hello, {});
    }
  }
}

void WorkerDoor::OnOldLink(std::list<OldLink>::iterator at) {
  Came came = Came::kWord;
  for (int i = 0; i < kWordsAtOnce && came == Came::kWord; ++i) {
    came = TakeOldWord(*at);
  }
  if (came == Came::kEnd) {
    old_links_.erase(at);
  }
}

Came WorkerDoor::TakeOldWord(const OldLink& link) {
  LinkWord word;
  const Came came = Receive(link.fd.get(), &word);
  if (came != Came::kWord || word.verb == LinkVerb::kBye) {
    return came == Came::kNothing ? came : Came::kEnd;
  }
  if (word.verb == LinkVerb::kBlame && opened_[link.worker] == 0) {  // it has not followed yet
    Blame(link.worker, Rank{word.rank});
  }
  if (word.verb == LinkVerb::kSeek) {
    LinkPeer answer = {kLinkMagic, LinkAnswer::kOver, word.rank, word.channel, {}};
    WriteText(over_, answer.why);
    iovec part = {&answer, sizeof(answer)};
    // Whom it does not reach looks into the arena now and then.
    (void)SendWithFd(link.fd.get(), &part, 1, -1, MSG_DONTWAIT);
  }
  return came;
}

void WorkerDoor::LeaveOldLinks(uint32_t worker) {
  old_links_.remove_if([&](const OldLink& link) {
    const bool leaves = link.worker == worker;
    for (int i = 0; leaves && i < kLastWordsMax && TakeOldWord(link) == Came::kWord; ++i) {
    }
    return leaves;
  });
}

}  // namespace muster
