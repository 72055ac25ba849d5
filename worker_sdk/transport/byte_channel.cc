#include "worker_sdk/transport/byte_channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "worker_sdk/base/momentary.h"
#include "worker_sdk/transport/copy.h"

namespace muster {
namespace {

// Told to the reader at once: it copies out of the cache while the next are copied in. Less than
// half as much is not left for a piece of its own.
constexpr uint64_t kTellEvery = 8u << 10;

class SocketChannel : public ByteChannel {
 public:
  explicit SocketChannel(HeldSocket socket) : socket_(std::move(socket)) {}

  Moved Write(const std::array<Conversation::Piece, 2>& pieces) override {
    iovec parts[2];
    for (size_t i = 0; i < pieces.size(); ++i) {
      parts[i] = {const_cast<uint8_t*>(pieces[i].data), pieces[i].bytes};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = pieces.size();
    return Result(socket_.Send(message));
  }
  Moved Read(uint8_t* to, uint64_t bytes) override {
    const ssize_t got = socket_.Receive(to, bytes);
    return got == 0 ? Moved{0, true, 0} : Result(got);
  }
  void Abort() override { shutdown(socket_.fd(), SHUT_RDWR); }
  int fd() const override { return socket_.fd(); }
  uint64_t unsent() const override { return socket_.unsent(); }

 private:
  // Of a system call that has just returned.
  static Moved Result(ssize_t moved) {
    if (moved >= 0) {
      return {static_cast<uint64_t>(moved)};
    }
    const int error = errno;
    if (IsMomentary(error)) {
      return {};
    }
    return {0, true, error == EPIPE || error == ECONNRESET ? 0 : error};
  }

  HeldSocket socket_;
};

class RingChannel : public ByteChannel {
 public:
  RingChannel(Pipe* pipe, PipeSide* mine, PipeSide* theirs, std::function<void()> ring_bell,
              std::function<void(Pipe*)> free)
      : pipe_(pipe, std::move(free)),
        mine_(*mine),
        theirs_(*theirs),
        ring_bell_(std::move(ring_bell)) {}

  Moved Write(const std::array<Conversation::Piece, 2>& pieces) override {
    const uint64_t bytes = pieces[0].bytes + pieces[1].bytes;
    uint64_t room = bytes < kTellEvery * 3 / 2 ? bytes : kTellEvery;
    if (PipeSide::kBytes - (written_ - others_read_) < room) {
      others_read_ = std::atomic_ref(theirs_.read).load(std::memory_order_acquire);
      room = std::min(room, PipeSide::kBytes - (written_ - others_read_));
    }
    if (written_ - others_read_ > PipeSide::kBytes) {
      return {0, true, ECANCELED};  // it has read what nobody wrote: Abort()
    }
    if (bytes > 0 && bytes <= PipeSide::kNearBytes && others_read_ == written_) {
      BringNear(pieces, bytes);
      Tell(written_ + bytes, PipeSide::kIsNear);
      CopyIn(pieces, bytes);  // for when the next ones are not near; nobody reads them before
      written_ += bytes;
      return {bytes};
    }
    const uint64_t moved = std::min(room, bytes);
    if (moved > 0) {
      CopyIn(pieces, moved);
      written_ += moved;
      Tell(written_, 0);
    }
    return {moved};
  }

  Moved Read(uint8_t* to, uint64_t bytes) override {
    if (others_written_ == read_) {
      Look();
    }
    const uint64_t there = others_written_ - read_;
    if (there > PipeSide::kBytes) {
      return {0, true, ECANCELED};
    }
    const uint64_t moved = std::min(there, bytes);
    if (moved == 0) {
      return {};
    }
    if (near_ != nullptr) {
      std::memcpy(to, near_, moved);
      near_ += moved;
    } else {
      CopyOut(to, read_, moved);
    }
    read_ += moved;
    // The other rank sleeps for room only when its ring is full: it hears of it when much was
    // there, and when much is free again since it heard last. Else with what we write.
    if (there >= PipeSide::kBytes / 2 || read_ - told_read_ >= PipeSide::kBytes / 4) {
      Tell(written_, 0);
    }
    return {moved};
  }

  void Withdraw() override { std::atomic_ref(mine_.withdrawn).store(1, std::memory_order_seq_cst); }
  bool withdrawn() const override {
    return std::atomic_ref(theirs_.withdrawn).load(std::memory_order_seq_cst) != 0;
  }

  void Abort() override {
    Withdraw();
    for (uint64_t* word : {&mine_.written, &mine_.read}) {
      std::atomic_ref(*word).store(kNonsense, std::memory_order_seq_cst);
    }
    ring_bell_();
  }

 private:
  static constexpr uint64_t kNonsense = uint64_t{1} << 63;
  static constexpr uint64_t kInFirstLine = 64 - offsetof(PipeSide, near);

  void Look() {
    __builtin_prefetch(theirs_.near + kInFirstLine);
    const uint64_t word = std::atomic_ref(theirs_.written).load(std::memory_order_acquire);
    others_written_ = word & ~PipeSide::kIsNear;
    if (others_written_ != read_) {
      near_ = (word & PipeSide::kIsNear) != 0 ? theirs_.near : nullptr;
      others_read_ = std::atomic_ref(theirs_.read).load(std::memory_order_acquire);
    }
  }
  // The second line first: the other rank looks at the line of the words all the time, and would
  // take it away between two writes.
  void BringNear(const std::array<Conversation::Piece, 2>& pieces, uint64_t bytes) {
    if (bytes > kInFirstLine) {
      BringNear(pieces, kInFirstLine, bytes);
      asm volatile("" : : : "memory");
    }
    BringNear(pieces, 0, std::min(bytes, kInFirstLine));
  }
  // What is from `begin` to `end` in the pieces, one behind the other.
  void BringNear(const std::array<Conversation::Piece, 2>& pieces, uint64_t begin, uint64_t end) {
    uint64_t at = 0;
    for (const Conversation::Piece& piece : pieces) {
      const uint64_t from = std::max(begin, at);
      const uint64_t to = std::min(end, at + piece.bytes);
      if (from < to) {
        std::memcpy(mine_.near + from, piece.data + (from - at), to - from);
      }
      at += piece.bytes;
    }
  }
  // Both words lie in one line, which the other rank fetches once.
  void Tell(uint64_t written, uint64_t flags) {
    if (told_read_ != read_) {
      told_read_ = read_;
      std::atomic_ref(mine_.read).store(read_, std::memory_order_release);
    }
    // In one order with the other rank's falling asleep, as its bell demands.
    std::atomic_ref(mine_.written).exchange(written | flags, std::memory_order_seq_cst);
    ring_bell_();
  }
  void CopyIn(const std::array<Conversation::Piece, 2>& pieces, uint64_t bytes) {
    const uint64_t of_first = std::min(bytes, pieces[0].bytes);
    CopyIn(written_, pieces[0].data, of_first);
    if (bytes > of_first) {
      CopyIn(written_ + of_first, pieces[1].data, bytes - of_first);
    }
  }
  void CopyIn(uint64_t number, const uint8_t* from, uint64_t bytes) {
    const uint64_t at = number % PipeSide::kBytes;
    const uint64_t first = std::min(bytes, PipeSide::kBytes - at);
    CopyBytes(mine_.bytes + at, from, first);
    CopyBytes(mine_.bytes, from + first, bytes - first);
  }
  void CopyOut(uint8_t* to, uint64_t number, uint64_t bytes) const {
    const uint64_t at = number % PipeSide::kBytes;
    const uint64_t first = std::min(bytes, PipeSide::kBytes - at);
    CopyBytes(to, theirs_.bytes + at, first);
    CopyBytes(to + first, theirs_.bytes, bytes - first);
  }

  const std::unique_ptr<Pipe, std::function<void(Pipe*)>> pipe_;
  PipeSide& mine_;
  PipeSide& theirs_;
  const std::function<void()> ring_bell_;
  uint64_t written_ = 0;
  uint64_t read_ = 0;
  uint64_t told_read_ = 0;
  uint64_t others_read_ = 0;       // as we have seen
  uint64_t others_written_ = 0;    // as we have seen
  const uint8_t* near_ = nullptr;  // what comes next, if it lies there
};

}  // namespace

std::unique_ptr<ByteChannel> OverSocket(HeldSocket socket) {
  return std::make_unique<SocketChannel>(std::move(socket));
}

std::unique_ptr<ByteChannel> OverPipe(const UniqueFd& memory, bool is_lower,
                                      std::function<void()> ring_bell) {
  struct stat facts {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (fstat(memory.get(), &facts) != 0 || static_cast<uint64_t>(facts.st_size) < sizeof(Pipe) ||
      seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return nullptr;
  }
  void* const mapped =
      mmap(nullptr, sizeof(Pipe), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  const auto unmap = [](Pipe* mine) { munmap(mine, sizeof(Pipe)); };
  std::unique_ptr<Pipe, decltype(unmap)> pipe(static_cast<Pipe*>(mapped), unmap);
  auto out =
      std::make_unique<RingChannel>(pipe.get(), &pipe->sides[is_lower ? 0 : 1],
                                    &pipe->sides[is_lower ? 1 : 0], std::move(ring_bell), unmap);
  (void)pipe.release();  // now the channel's
  return out;
}

std::unique_ptr<ByteChannel> ToOneself() {
  auto pipe = std::make_unique<Pipe>();
  auto out = std::make_unique<RingChannel>(
      pipe.get(), &pipe->sides[0], &pipe->sides[0], [] {}, [](Pipe* mine) { delete mine; });
  (void)pipe.release();  // now the channel's
  return out;
}

}  // namespace muster
