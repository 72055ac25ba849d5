// How communicators begin, and go on in the next round.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "muster/communicator.h"
#include "worker_sdk/api/communicator_impl.h"
#include "worker_sdk/api/store_meeting.h"
#include "worker_sdk/base/no_memory.h"
#include "worker_sdk/base/timeout_text.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

// With waits for the next round: an end, if there is a timeout, and a line a minute.
class Patience {
 public:
  Patience(uint32_t rank, std::chrono::nanoseconds timeout) : rank_(rank), timeout_(timeout) {}

  // `why` we wait, if there is more to say.
  Status Ask(const Status& why) {
    const auto waited = Clock::now() - begin_;
    if (timeout_.count() != 0 && waited >= timeout_) {
      return {StatusCode::kDeadlineExceeded, "reform on rank " + std::to_string(rank_) +
                                                 ": no round has followed " + Within(timeout_) +
                                                 kWhoseTimeout};
    }
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(waited);
    if (minutes > told_) {
      told_ = minutes;
      std::fprintf(stderr, "muster: rank %u has waited for the next round for %ld min%s\n", rank_,
                   static_cast<long>(minutes.count()),
                   why.ok() ? "" : (": " + why.message()).c_str());
    }
    return {};
  }

 private:
  const uint32_t rank_;
  const std::chrono::nanoseconds timeout_;
  const Clock::time_point begin_ = Clock::now();
  std::chrono::minutes told_{0};
};

std::chrono::nanoseconds SecondsOf(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

// The last round that this process has come into; its environment knows the first one only.
std::atomic<uint64_t> latest_round{0};

Status OfAllOnly(const char* call) {
  return {StatusCode::kFailedPrecondition,
          std::string(call) + ": this is a group: call it on the communicator of all ranks"};
}

}  // namespace

StatusOr<std::unique_ptr<Communicator::Impl>> Communicator::Impl::Come(
    WorkerIdentity& job, const Settled& settled, const std::optional<Standing>& survivor) {
  Patience patience(job.rank, settled.timeout);
  std::unique_ptr<Impl> out;
  Status why;  // we follow once more
  const auto ask = [&] { return patience.Ask(why); };
  for (;;) {
    const bool follows = survivor.has_value() || !why.ok();
    StatusOr<Meeting> meeting = follows ? MeetInNextRound(job, ask) : MeetAtAgent(job);
    if (!meeting.ok()) {
      const bool none_follows = meeting.status().code() == StatusCode::kUnavailable;
      return none_follows && !why.ok() ? why : meeting.status();
    }
    job.round = meeting->round;
    latest_round = job.round;
    const Standing mine = survivor.value_or(Standing{.has_state = !meeting->replaces});
    // One that has failed is left now: its round is over, and that it ends is no news to others.
    out = std::make_unique<Impl>(job, job, *std::move(meeting), settled);
    why = out->Meet(mine);
    if (why.ok()) {
      return out;
    }
    if (why.code() != StatusCode::kUnavailable) {
      return why;
    }
  }
}

Standing Communicator::Impl::Leave(const char* how, int peer) {
  const auto leave = [this](const Status& why) {
    executor_.Interrupt(why);  // what was started may wait for those who wait for us
    return queue_.Run([&] {
      executor_.End(why);
      messages_->Drop(why);
      return standing_;
    });
  };
  return WithMemory(
      [&] {
        return leave(
            {StatusCode::kUnavailable, executor_.layout().NameOf(me_.rank) + " " + how, peer});
      },
      [&] {  // short: needs no memory
        return leave({StatusCode::kUnavailable, "has left", peer});
      });
}

StatusOr<Communicator> Communicator::FromEnvironment() {
  return OrNoMemory([]() -> StatusOr<Communicator> {
    StatusOr<WorkerIdentity> me =
        ReadIdentity([](const char* name) -> const char* { return std::getenv(name); });
    if (!me.ok()) {
      return me.status();
    }
    if (!me->notice.empty()) {
      std::fprintf(stderr, "%s\n", me->notice.c_str());
    }
    const Settled settled = {SecondsOf(me->timeout_s), me->wire};
    if (me->launched) {
      StatusOr<std::unique_ptr<Impl>> come = Impl::Come(*me, settled, std::nullopt);
      return come.ok() ? StatusOr<Communicator>(Communicator(*std::move(come))) : come.status();
    }
    StatusOr<Meeting> alone = MeetAlone(Layout::OneNode(1));
    if (!alone.ok()) {
      return alone.status();
    }
    Communicator out(std::make_unique<Impl>(*me, *me, *std::move(alone), settled));
    if (Status met = out.impl_->Meet({}); !met.ok()) {
      return met;
    }
    return out;
  });
}

StatusOr<Communicator> Communicator::FromStore(Store& store, int rank, int size,
                                               std::optional<std::chrono::nanoseconds> timeout) {
  return OrNoMemory([&]() -> StatusOr<Communicator> {
    if (size < 1 || rank < 0 || rank >= size) {
      return Status(StatusCode::kInvalidArgument,
                    "from_store: want a size from 1 on and a rank in 0..size-1, got rank " +
                        std::to_string(rank) + " of " + std::to_string(size));
    }
    StatusOr<WorkerIdentity> job =
        ReadIdentity([](const char* name) -> const char* { return std::getenv(name); });
    if (!job.ok()) {
      return job.status();
    }
    job->round = std::max(job->round, latest_round.load());
    StatusOr<Meeting> met =
        MeetAtStore(store, static_cast<uint32_t>(rank), static_cast<uint32_t>(size), *job);
    if (!met.ok()) {
      return met.status();
    }
    job->launched = job->launched && met->has_agent;
    const WorkerIdentity me = IdentityIn(met->layout, met->rank, *job);
    const Settled settled = {timeout.value_or(SecondsOf(job->timeout_s)), job->wire,
                             /*is_group=*/true};
    Communicator out(std::make_unique<Impl>(*job, me, *std::move(met), settled));
    if (Status status = out.impl_->Meet({}); !status.ok()) {
      return status;
    }
    return out;
  });
}

StatusOr<std::optional<Communicator>> Communicator::Split(int64_t color, int64_t key) {
  return impl_->OrDie([&]() -> StatusOr<std::optional<Communicator>> {
    StatusOr<std::optional<Meeting>> met = impl_->Split({color, key});
    if (!met.ok()) {
      return met.status();
    }
    if (!met->has_value()) {
      return std::optional<Communicator>();
    }
    Meeting& meeting = **met;
    const WorkerIdentity me = IdentityIn(meeting.layout, meeting.rank, impl_->job());
    const Settled settled = {impl_->timeout(), impl_->wire(), /*is_group=*/true};
    std::optional<Communicator> out(
        Communicator(std::make_unique<Impl>(impl_->job(), me, std::move(meeting), settled)));
    if (Status status = out->impl_->Meet({}); !status.ok()) {
      return status;
    }
    return out;
  });
}

StatusOr<Communicator> Communicator::Reform() {
  return OrNoMemory([this]() -> StatusOr<Communicator> {
    if (impl_->is_group()) {
      return OfAllOnly("reform");
    }
    if (!impl_->job().launched) {
      return Status(StatusCode::kFailedPrecondition,
                    "reform: this process was not started by launch: nobody takes its place");
    }
    if (Status why = impl_->WhyNot({}); !why.ok()) {
      return why;
    }
    const Standing mine = impl_->Leave("has left for the next round");
    StatusOr<std::unique_ptr<Impl>> next =
        Impl::Come(impl_->job(), {impl_->timeout(), impl_->wire()}, mine);
    return next.ok() ? StatusOr<Communicator>(Communicator(*std::move(next))) : next.status();
  });
}

const Agreed& Communicator::agreed() const { return impl_->agreed(); }
bool Communicator::is_replacement() const { return impl_->is_replacement(); }
uint64_t Communicator::last_call() const { return impl_->last_call(); }

Status Communicator::Commit(int64_t step) {
  if (impl_->is_group()) {
    return OfAllOnly("commit");
  }
  if (step < 0) {
    return {StatusCode::kInvalidArgument,
            "commit: step: want 0 or more, got " + std::to_string(step)};
  }
  if (Status why = impl_->WhyNot({}); !why.ok()) {
    return why;
  }
  impl_->Commit(step);
  return {};
}

Status Communicator::BroadcastState(const std::vector<StateBuffer>& state) {
  return impl_->OrDie([&]() -> Status {
    if (impl_->is_group()) {
      return OfAllOnly("broadcast_state");
    }
    if (state.empty()) {
      return {StatusCode::kInvalidArgument, "broadcast_state: state: want at least one buffer"};
    }
    const int holder = agreed().holder;
    std::vector<Collective> parts;
    parts.reserve(state.size());
    for (const StateBuffer& part : state) {
      parts.push_back(impl_->calls().Broadcast(part.data, part.count, part.dtype,
                                               holder == Agreed::kNone ? 0 : holder));
    }
    Status status = impl_->RunAll(parts);
    if (status.ok()) {
      impl_->HasState();
    }
    return status;
  });
}

}  // namespace muster
