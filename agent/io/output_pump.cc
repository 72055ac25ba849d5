#include "agent/io/output_pump.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kReadBytes = 256u
                              << 10;  // one read; a pipe that fills it is worth enlarging to this
constexpr size_t kTurnBytes = 4 * kReadBytes;  // then the other workers' turn
constexpr size_t kTailKept =
    kStderrTailBytes + 1;  // one more tells whether the first line is whole

// All that a dead writer has left is in the pipe, at most its capacity; a living one may write on.
size_t PipeBytes(int fd) {
  const int bytes = fcntl(fd, F_GETPIPE_SZ);
  return bytes > 0 ? static_cast<size_t>(bytes) : kReadBytes;
}

// At most kStderrTailLines whole lines and kStderrTailBytes; of one long line its end.
std::string LastLines(absl::string_view text) {
  if (text.size() > kStderrTailBytes) {
    const size_t cut = text.size() - kStderrTailBytes;
    const size_t line_end = text.find('\n', cut - 1);  // the byte before the cut may end a line
    text.remove_prefix(line_end + 1 < text.size() ? std::max(cut, line_end + 1) : cut);
  }
  size_t lines = 0;
  for (size_t at = text.size(); at > 1; --at) {
    if (text[at - 2] == '\n' && ++lines == kStderrTailLines) {
      text.remove_prefix(at - 1);
      break;
    }
  }
  return std::string(text);
}

// torchrun's are made by mkdtemp: a job that runs again under its id keeps the files of the first.
std::string RunName(LogLayout layout, const std::string& job_id) {
  uint32_t salt = static_cast<uint32_t>(getpid());  // where the kernel has nothing better
  (void)!getrandom(&salt, sizeof salt, GRND_NONBLOCK);
  return layout == LogLayout::kTorchrun
             ? absl::StrCat(FolderOfJob(job_id), "_", absl::Hex(salt, absl::kZeroPad8))
             : FolderOfJob(job_id);
}

std::shared_ptr<DiskThread> OrNew(std::shared_ptr<DiskThread> disk, uv_loop_t* loop) {
  return disk != nullptr ? std::move(disk) : std::make_shared<DiskThread>(loop);
}

}  // namespace

OutputPump::OutputPump(uv_loop_t* loop, const OutputOptions& options, const std::string& job_id,
                       std::string host, OutputLink* link, Disks disks, BarDelays bars)
    : loop_(loop),
      options_(options),
      place_({options.log_dir, options.log_layout, RunName(options.log_layout, job_id)}),
      host_(std::move(host)),
      link_(link),
      bars_(bars),
      show_(options.show.begin(), options.show.end()),
      show_local_(options.show_local.begin(), options.show_local.end()),
      log_disk_(OrNew(std::move(disks.logs), loop)),
      spool_(OrNew(std::move(disks.spool), loop), kOutputMemoryMax, options.spool_bytes_max),
      pause_timer_(loop, [this] { ResumePaused(/*all=*/false); }),
      held_timer_(loop, [this] { ShowHeld(); }),
      scratch_(std::make_unique_for_overwrite<char[]>(kReadBytes)) {
  spool_.on_ready = [this] { Pump(); };
  spool_.on_lost = [this](const std::string& why) { link_->Lost(why); };
}

OutputPump::~OutputPump() {
  for (const Logs* logs : {&logs_, &old_logs_}) {
    for (const auto& log : *logs) {
      log->on_idle = log->on_written = nullptr;
      log->on_lost = nullptr;
    }
  }
}

void OutputPump::BeginRound(const Assignment& assignment) {
  CHECK(open_streams_ == 0);
  assignment_ = assignment;
  streams_.clear();
  const auto idle = [](const auto& log) { return log->idle(); };
  logs_.erase(std::remove_if(logs_.begin(), logs_.end(), idle), logs_.end());
  if (!std::all_of(old_logs_.begin(), old_logs_.end(), idle)) {
    Lose(absl::StrCat("log files of an earlier round in ", options_.log_dir,
                      " are given up: the disk there takes nothing for too long"));
  }
  old_logs_ = std::exchange(logs_, {});
  filtered_[0] = filtered_[1] = nullptr;
}

void OutputPump::KeepRound(const Assignment& assignment, const std::vector<LocalRank>& starts) {
  std::erase_if(streams_, [&](const std::unique_ptr<Stream>& stream) {
    const bool closes =
        std::find(starts.begin(), starts.end(), LocalRank{stream->local_rank}) != starts.end();
    if (closes) {
      CloseStream(*stream);
    }
    return closes;
  });
  Pump();
  assignment_ = assignment;
  std::erase_if(logs_, [](const auto& log) { return log->idle() && log.use_count() == 1; });
}

absl::StatusOr<OutputPump::WorkerEnds> OutputPump::Open(uint32_t local_rank) {
  WorkerEnds ends;
  for (const uint8_t number : {uint8_t{1}, uint8_t{2}}) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no pipe for its output: ", std::strerror(errno),
                       "; raise ulimit -n, or start fewer workers per node"));
    }
    (number == 1 ? ends.out : ends.err).Reset(fds[1]);
    RETURN_IF_ERROR(OpenStream(local_rank, number, /*raw=*/false, UniqueFd(fds[0])));
  }
  return ends;
}

absl::Status OutputPump::OpenTerminal(uint32_t local_rank, UniqueFd terminal, UniqueFd workers) {
  RETURN_IF_ERROR(OpenStream(local_rank, 1, /*raw=*/true, std::move(terminal)));
  streams_.back()->workers_side = std::move(workers);
  return absl::OkStatus();
}

absl::Status OutputPump::OpenStream(uint32_t local_rank, uint8_t number, bool raw, UniqueFd fd) {
  const uint32_t rank = assignment_.RankOf(LocalRank{local_rank}).value;
  auto stream = std::make_unique<Stream>();
  stream->local_rank = local_rank;
  stream->number = number;
  stream->raw = raw;
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  stream->fd = std::move(fd);
  const std::string& named_file = number == 1 ? options_.out_file : options_.err_file;
  const bool to_file_only =
      !named_file.empty() || (options_.redirects.Of(local_rank) & number) != 0;
  const bool teed = (options_.tee.Of(local_rank) & number) != 0;
  stream->shown = raw || (!(to_file_only && !teed) && (show_.empty() || show_.count(rank) > 0) &&
                          (show_local_.empty() || show_local_.count(local_rank) > 0));
  RETURN_IF_ERROR(OpenLogs(*stream, to_file_only, teed));
  stream->poll = std::make_unique<UvPoll>(
      loop_, stream->fd.get(), [this, ready = stream.get()](int) { OnReadable(*ready); });
  stream->poll->Start(UV_READABLE);
  streams_.push_back(std::move(stream));
  ++open_streams_;
  return absl::OkStatus();
}

void OutputPump::OnReadable(Stream& stream) {
  if (ReadSome(stream, kTurnBytes) == Read::kEnd) {
    FinishStream(stream);
  }
  Pump();
  if (round_closed() && on_round_closed) {
    std::exchange(on_round_closed, nullptr)();
  }
}

OutputPump::Read OutputPump::ReadSome(Stream& stream, size_t bytes_max) {
  for (size_t taken = 0; taken < bytes_max;) {
    // Near the longest line smaller steps, so that the cut is not far beyond it.
    const size_t room = stream.lines.held().size() > kLineBytesMax / 2 ? 64u << 10 : kReadBytes;
    const ssize_t n = read(stream.fd.get(), scratch_.get(), room);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return errno == EAGAIN || errno == EWOULDBLOCK ? Read::kNothing : Read::kEnd;
    }
    if (n == 0) {
      return Read::kEnd;
    }
    const auto size = static_cast<size_t>(n);
    taken += size;
    Take(stream, absl::string_view(scratch_.get(), size));
    if (!stream.grown && size >= (64u << 10)) {
      stream.grown = true;
      fcntl(stream.fd.get(), F_SETPIPE_SZ,
            static_cast<int>(kReadBytes));  // may be refused: only slower
    }
  }
  return Read::kMore;
}

void OutputPump::Take(Stream& stream, absl::string_view bytes) {
  bytes_read_ += bytes.size();
  if (stream.number == 2 || stream.raw) {
    const absl::string_view last = bytes.substr(bytes.size() - std::min(bytes.size(), kTailKept));
    stream.tail.append(last.data(), last.size());
    if (stream.tail.size() > 2 * kTailKept) {
      stream.tail.erase(0, stream.tail.size() - kTailKept);
    }
  }
  if (stream.log != nullptr) {
    stream.log->Append(bytes);
  }
  if (stream.filter.has_value()) {
    AppendChosen(stream, stream.filter->Put(bytes));
  }
  if (LogsAreBehind(stream)) {
    Throttle(stream);
  }
  if (!stream.shown || discard_) {
    return;
  }
  if (stream.raw) {
    LineAssembler::Piece piece;
    piece.bytes = std::string(bytes);
    return Emit(stream, std::move(piece));
  }
  LineAssembler::Piece piece = stream.lines.Put(bytes);
  if (!piece.bytes.empty()) {
    stream.show_held_at = absl::InfiniteFuture();  // what is held now has just begun
  }
  Emit(stream, std::move(piece));
  if (!stream.lines.held().empty()) {
    ShowHeldLater(stream);
  }
}

// A terminal shows lines that still grow. A progress bar, which returns to where it began, is shown
// everywhere: at once where nobody else writes beside it, else now and then, as the bars of many
// workers follow each other, each on a line of its own.
void OutputPump::ShowHeldLater(Stream& stream) {
  const bool partial = stream.number == 1 ? options_.partial_out : options_.partial_err;
  const bool is_bar = stream.lines.held().find('\r') != absl::string_view::npos;
  if (!partial && !is_bar) {
    return;
  }
  if (partial && is_bar && !options_.prefix) {
    stream.show_held_at = absl::InfiniteFuture();
    return Emit(stream, stream.lines.TakeHeld());
  }
  const absl::Duration delay = !is_bar ? kPartialLineDelay : partial ? bars_.terminal : bars_.pipe;
  stream.show_held_at = std::min(stream.show_held_at, BootNow() + delay);
  if (!held_timer_.active() || stream.show_held_at < show_held_at_) {
    show_held_at_ = stream.show_held_at;
    held_timer_.StartAfter(show_held_at_ - BootNow());
  }
}

void OutputPump::ShowHeld() {
  absl::Time next = absl::InfiniteFuture();
  const absl::Time now = BootNow();
  for (const auto& stream : streams_) {
    if (now >= stream->show_held_at - absl::Milliseconds(2)) {
      stream->show_held_at = absl::InfiniteFuture();
      Emit(*stream, stream->lines.TakeHeld());
    }
    next = std::min(next, stream->show_held_at);
  }
  show_held_at_ = next;
  if (next != absl::InfiniteFuture()) {
    held_timer_.StartAfter(next - now);
  }
  Pump();
}

void OutputPump::Emit(Stream& stream, LineAssembler::Piece piece) {
  if (piece.bytes.empty() || discard_) {
    return;
  }
  OutputChunk chunk;
  chunk.rank = assignment_.RankOf(LocalRank{stream.local_rank}).value;
  chunk.local_rank = stream.local_rank;
  chunk.node_rank = assignment_.node_rank.value;
  chunk.stream = stream.number;
  chunk.ends_line = piece.ends_line;
  chunk.split = piece.split;
  chunk.bytes = std::move(piece.bytes);
  if (spool_.Empty() && link_->Send(chunk)) {
    return;
  }
  if (spool_.Full(chunk.bytes.size()) && options_.overflow == OverflowMode::kDrop) {
    dropped_lines_ +=
        static_cast<uint64_t>(std::count(chunk.bytes.begin(), chunk.bytes.end(), '\n'));
    return;
  }
  // With kBlock a chunk that was read is kept even when full; Throttle then holds the worker up. So
  // it does while the disk is behind.
  stream.since_pause += chunk.bytes.size();
  spool_.Push(std::move(chunk));
  // A pause for so many bytes, not for what is in the pipe just now: else a worker with a small
  // pipe (the kernel may refuse larger ones) would crawl at a pipe a pause.
  const bool its_turn_is_over = stream.since_pause >= kTurnBytes;
  if (spool_.memory_bytes() + spool_.file_bytes() > kOutputSoftBytes &&
      (its_turn_is_over || SpoolHoldsUp())) {
    Throttle(stream);
  }
}

bool OutputPump::SpoolHoldsUp() const {
  return spool_.Behind() || (options_.overflow == OverflowMode::kBlock && spool_.Full(kTurnBytes));
}

void OutputPump::Throttle(Stream& stream) {
  if (stream.paused || stream.poll == nullptr) {
    return;
  }
  stream.paused = true;
  stream.since_pause = 0;
  stream.poll->Stop();
  if (!pause_timer_.active()) {
    pause_timer_.StartAfter(kOutputPause);
  }
}

// `all`: the queue has drained. Else the pause is over: a slow reader only slows workers down to
// what the spool takes.
void OutputPump::ResumePaused(bool all) {
  const bool full = !all && SpoolHoldsUp();
  bool again = false;
  for (const auto& stream : streams_) {
    if (!stream->paused) {
      continue;
    }
    if ((full && stream->shown) || LogsAreBehind(*stream)) {
      again = true;
      continue;
    }
    stream->paused = false;
    stream->poll->Start(UV_READABLE);
  }
  if (again && !pause_timer_.active()) {
    pause_timer_.StartAfter(kOutputPause);
  }
}

void OutputPump::Pump() {
  if (pumping_) {
    return;  // Send told us that the link is closed or writable again
  }
  pumping_ = true;
  bool popped = false;
  while (!spool_.Empty() && !discard_) {
    OutputChunk* const next = spool_.Front();
    if (next == nullptr || !link_->Send(*next)) {
      break;
    }
    spool_.Pop();
    popped = true;
  }
  if (discard_) {
    spool_.Clear();
  }
  pumping_ = false;
  if (popped) {
    Progressed();
  }
  if (popped && spool_.memory_bytes() + spool_.file_bytes() < kOutputSoftBytes / 2) {
    if (dropped_lines_ > 0) {
      LogWarning(absl::StrCat("--output-overflow=drop: ", dropped_lines_,
                              " lines of output were dropped"));
      dropped_lines_ = 0;
    }
    ResumePaused(/*all=*/true);
  }
  CheckEmpty();
}

void OutputPump::OnWritable() { Pump(); }

void OutputPump::Discard() {
  discard_ = true;
  Pump();
  ResumePaused(/*all=*/true);
}

std::string OutputPump::Drain(uint32_t local_rank) {
  std::string tail;
  for (const auto& stream : streams_) {
    if (stream->local_rank != local_rank) {
      continue;
    }
    stream->workers_side.Reset();
    // One more than a full pipe has, to come to its end.
    if (stream->poll != nullptr &&
        ReadSome(*stream, PipeBytes(stream->fd.get()) + 1) == Read::kEnd) {
      FinishStream(*stream);
    }
    if (stream->number == 2 || stream->raw) {
      tail = LastLines(stream->tail);
    }
  }
  Pump();
  return tail;
}

void OutputPump::FinishStream(Stream& stream) {
  if (stream.poll == nullptr) {
    return;
  }
  Emit(stream, stream.lines.TakeHeld());
  if (stream.filter.has_value()) {
    AppendChosen(stream, stream.filter->Finish());
  }
  stream.show_held_at = absl::InfiniteFuture();
  stream.poll.reset();
  stream.fd.Reset();
  stream.paused = false;
  CHECK(open_streams_ > 0);
  --open_streams_;
}

// A descriptor that escaped (passed to a daemon) must not hold us up, even when it is written to
// for ever.
void OutputPump::CloseStream(Stream& stream) {
  if (stream.poll != nullptr) {
    ReadSome(stream, PipeBytes(stream.fd.get()));
    FinishStream(stream);
  }
}

std::vector<uint32_t> OutputPump::open_ranks() const {
  std::set<uint32_t> ranks;
  for (const auto& stream : streams_) {
    if (stream->poll != nullptr) {
      ranks.insert(assignment_.RankOf(LocalRank{stream->local_rank}).value);
    }
  }
  return {ranks.begin(), ranks.end()};
}

void OutputPump::CloseRound() {
  on_round_closed = nullptr;
  for (const auto& stream : streams_) {
    CloseStream(*stream);
  }
  Pump();
}

bool OutputPump::Empty() const { return spool_.Empty() && LogsIdle(); }

bool OutputPump::WaitsForDisk() {
  return !LogsIdle() || (!spool_.Empty() && spool_.Front() == nullptr);
}

void OutputPump::CheckEmpty() {
  if (on_empty && Empty()) {
    on_empty();
  }
}

}  // namespace muster
