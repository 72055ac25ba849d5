#include "worker_sdk/transport/byte_channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "worker_sdk/transport/copy.h"

namespace muster {
namespace {

// Told to the reader at once: it copies out of the cache while the next are copied in.
constexpr uint64_t kTellEvery = 16u << 10;

class SocketChannel : public ByteChannel {
 public:
  explicit SocketChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  Moved Write(const std::array<Conversation::Piece, 2>& pieces) override {
    iovec parts[2];
    for (size_t i = 0; i < pieces.size(); ++i) {
      parts[i] = {const_cast<uint8_t*>(pieces[i].data), pieces[i].bytes};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = pieces.size();
    return Result(sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  Moved Read(uint8_t* to, uint64_t bytes) override {
    const ssize_t got = recv(socket_.get(), to, bytes, MSG_DONTWAIT);
    return got == 0 ? Moved{0, true, 0} : Result(got);
  }
  void Abort() override { shutdown(socket_.get(), SHUT_RDWR); }
  int fd() const override { return socket_.get(); }

 private:
  // Of a system call that has just returned.
  static Moved Result(ssize_t moved) {
    if (moved >= 0) {
      return {static_cast<uint64_t>(moved)};
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
      return {};
    }
    return {0, true, error == EPIPE || error == ECONNRESET ? 0 : error};
  }

  const UniqueFd socket_;
};

class RingChannel : public ByteChannel {
 public:
  RingChannel(Pipe* pipe, PipeRing* out, PipeRing* in, std::function<void()> ring_bell,
              std::function<void(Pipe*)> free)
      : pipe_(pipe, std::move(free)), out_(*out), in_(*in), ring_bell_(std::move(ring_bell)) {}

  Moved Write(const std::array<Conversation::Piece, 2>& pieces) override {
    uint64_t room = kTellEvery;
    if (PipeRing::kBytes - (written_ - others_read_) < room) {
      others_read_ = std::atomic_ref(out_.read).load(std::memory_order_acquire);
      room = std::min(room, PipeRing::kBytes - (written_ - others_read_));
    }
    if (written_ - others_read_ > PipeRing::kBytes) {
      return {0, true, ECANCELED};  // it has read what nobody wrote: Abort()
    }
    uint64_t moved = 0;
    for (const Conversation::Piece& piece : pieces) {
      const uint64_t bytes = std::min(room - moved, piece.bytes);
      CopyIn(written_ + moved, piece.data, bytes);
      moved += bytes;
    }
    if (moved > 0) {
      written_ += moved;
      // In one order with the other rank's falling asleep, as its bell demands.
      std::atomic_ref(out_.written).exchange(written_, std::memory_order_seq_cst);
      ring_bell_();
    }
    return {moved};
  }

  Moved Read(uint8_t* to, uint64_t bytes) override {
    if (others_written_ == read_) {
      others_written_ = std::atomic_ref(in_.written).load(std::memory_order_acquire);
    }
    const uint64_t there = others_written_ - read_;
    if (there > PipeRing::kBytes) {
      return {0, true, ECANCELED};
    }
    const uint64_t moved = std::min(there, bytes);
    if (moved > 0) {
      CopyOut(to, read_, moved);
      read_ += moved;
      FreeRoom(there);
    }
    return {moved};
  }
  void Abort() override {
    for (uint64_t* word : {&out_.written, &in_.read}) {
      std::atomic_ref(*word).store(kNonsense, std::memory_order_seq_cst);
    }
    ring_bell_();
  }

 private:
  static constexpr uint64_t kNonsense = uint64_t{1} << 63;

  // The other rank sleeps for room only when the ring is full: it hears of it when much was there,
  // and when much is free again since it heard last. The rest it finds when it looks.
  void FreeRoom(uint64_t was_there) {
    if (was_there < PipeRing::kBytes / 2 && read_ - told_read_ < PipeRing::kBytes / 4) {
      return std::atomic_ref(in_.read).store(read_, std::memory_order_release);
    }
    told_read_ = read_;
    std::atomic_ref(in_.read).exchange(read_, std::memory_order_seq_cst);
    ring_bell_();
  }
  void CopyIn(uint64_t number, const uint8_t* from, uint64_t bytes) {
    const uint64_t at = number % PipeRing::kBytes;
    const uint64_t first = std::min(bytes, PipeRing::kBytes - at);
    if (bytes > 0) {
      CopyBytes(out_.bytes + at, from, first);
      CopyBytes(out_.bytes, from + first, bytes - first);
    }
  }
  void CopyOut(uint8_t* to, uint64_t number, uint64_t bytes) const {
    const uint64_t at = number % PipeRing::kBytes;
    const uint64_t first = std::min(bytes, PipeRing::kBytes - at);
    CopyBytes(to, in_.bytes + at, first);
    CopyBytes(to + first, in_.bytes, bytes - first);
  }

  const std::unique_ptr<Pipe, std::function<void(Pipe*)>> pipe_;
  PipeRing& out_;
  PipeRing& in_;
  const std::function<void()> ring_bell_;
  uint64_t written_ = 0;
  uint64_t read_ = 0;
  uint64_t told_read_ = 0;       // with a ring of the bell
  uint64_t others_read_ = 0;     // as we have seen
  uint64_t others_written_ = 0;  // as we have seen
};

}  // namespace

std::unique_ptr<ByteChannel> OverSocket(UniqueFd socket) {
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
  auto* const pipe = static_cast<Pipe*>(mapped);
  return std::make_unique<RingChannel>(pipe, &pipe->rings[is_lower ? 0 : 1],
                                       &pipe->rings[is_lower ? 1 : 0], std::move(ring_bell),
                                       [](Pipe* mine) { munmap(mine, sizeof(Pipe)); });
}

std::unique_ptr<ByteChannel> ToOneself() {
  auto* const pipe = new Pipe();  // as good as RingChannel's
  return std::make_unique<RingChannel>(
      pipe, &pipe->rings[0], &pipe->rings[0], [] {}, [](Pipe* mine) { delete mine; });
}

}  // namespace muster
