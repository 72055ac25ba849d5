// Output up, stdin down.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/master_client_impl.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/wire/convert.h"

namespace muster {
namespace {

constexpr size_t kQueueBytesMax = 1u << 20;  // then Send says no
constexpr size_t kFrameBytes = 512u
                               << 10;  // one message: enough to be cheap, far from kMessageBytesMax
constexpr absl::Duration kRetry = absl::Milliseconds(200);

// What a chunk takes of the two bounds above: more than its text where that is short. Beside the
// text 56 bytes of the queue, and at most 32 of the message.
size_t Cost(const OutputChunk& chunk) { return sizeof(OutputChunk) + chunk.bytes.size(); }

}  // namespace

MasterClient::Impl::Output::Output(uv_loop_t* loop, Impl* impl) : loop_(loop), impl_(impl) {}

void MasterClient::Impl::Output::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  started_ = true;
  retry_ = std::make_unique<UvTimer>(loop_, [this] { Open(); });
  finish_timer_ = std::make_unique<UvTimer>(loop_, [this] { FinishNow(); });
  Open();
}

void MasterClient::Impl::Output::OnIdentity(const StreamIdentity& identity) {
  identity_ = identity;
  Open();
}

void MasterClient::Impl::Output::OnLinkDown(const std::string& why, bool for_good) {
  identity_.reset();
  if (call_ != nullptr) {
    call_->Cancel();
  }
  if (for_good) {
    CloseForGood(why);
  }
}

void MasterClient::Impl::Output::Open() {
  if (!started_ || closed_ || call_ != nullptr || !identity_.has_value() ||
      impl_->stub_ == nullptr) {
    return;
  }
  retry_->Stop();
  auto call = std::make_unique<StreamClientCall>(impl_->calls_->mailbox());
  call_ = call.get();
  impl_->calls_->Own(std::move(call));
  welcome_ = lost_told_ = false;
  call_->Open([this](grpc::ClientContext* context, StreamClientCall* reactor) {
    impl_->stub_->async()->Streams(context, reactor);
  });
  v1::StreamUp frame;
  v1::StreamHello* hello = frame.mutable_hello();
  hello->set_protocol(kProtocolVersion);
  hello->set_job_id(identity_->handshake.job_id);
  hello->set_node(identity_->node.value);
  hello->set_incarnation(identity_->incarnation.value);
  hello->set_proof(StreamProof(impl_->options_.secret, identity_->handshake, identity_->node.value,
                               identity_->incarnation.value));
  call_->Write(std::move(frame));
}

bool MasterClient::Impl::Output::Send(OutputChunk& chunk) {
  if (closed_) {
    return true;  // on_closed has been said: nobody reads
  }
  if (queued_bytes_ >= kQueueBytesMax) {
    refused_chunk_ = true;
    return false;
  }
  sent_ = true;
  while (chunk.bytes.size() > kChunkBytesMax) {
    OutputChunk part = chunk;
    part.bytes.resize(kChunkBytesMax);
    part.ends_line = false;
    queued_bytes_ += Cost(part);
    queue_.push_back(std::move(part));
    chunk.bytes.erase(0, kChunkBytesMax);
  }
  queued_bytes_ += Cost(chunk);
  queue_.push_back(std::move(chunk));
  Pump();
  return true;
}

void MasterClient::Impl::Output::Lost(const std::string& why) {
  if (lost_.empty()) {
    lost_ = why.substr(0, kTextBytesMax);
    sent_ = true;
    Pump();
  }
}

void MasterClient::Impl::Output::StdinTaken(size_t bytes) {
  stdin_taken_ += bytes;
  Pump();
}

void MasterClient::Impl::Output::FillFrame(v1::StreamUp* frame) {
  size_t bytes = 0;
  while (!queue_.empty() && bytes < kFrameBytes) {
    bytes += Cost(queue_.front());
    *frame->add_chunks() = ToWire(std::move(queue_.front()));
    queue_.pop_front();
  }
  queued_bytes_ -= bytes;
  frame->set_stdin_taken(std::exchange(stdin_taken_, 0));
  if (LostUntold()) {
    lost_told_ = true;
    frame->set_lost(lost_);
  }
}

void MasterClient::Impl::Output::Pump() {
  if (call_ == nullptr || !welcome_ || call_->writing() || call_->released() ||
      call_->half_closed()) {
    return;
  }
  if (!queue_.empty() || stdin_taken_ > 0 || LostUntold()) {
    v1::StreamUp frame;
    FillFrame(&frame);
    call_->Write(std::move(frame));
  } else if (finish_done_ != nullptr) {
    call_->HalfClose();
  }
  if (refused_chunk_ && queued_bytes_ <= kQueueBytesMax / 2) {
    refused_chunk_ = false;
    callbacks_.on_writable();
  }
}

void MasterClient::Impl::Output::OnEvent(const ClientEvent& event) {
  switch (event.kind) {
    case ClientEventKind::kRead: {
      const v1::StreamDown& frame = call_->incoming();
      welcome_ = welcome_ || frame.welcome();
      std::string bytes = frame.stdin();
      const bool eof = frame.stdin_eof();
      const auto rows = static_cast<uint16_t>(frame.rows());
      const auto columns = static_cast<uint16_t>(frame.columns());
      if (!call_->released()) {
        call_->Read();
      }
      if (!bytes.empty() || eof) {
        callbacks_.on_stdin(std::move(bytes), eof);
      }
      if (rows > 0 || columns > 0) {
        callbacks_.on_window(rows, columns);
      }
      Pump();
      return;
    }
    case ClientEventKind::kWritten:
      call_->WriteEnded();
      Pump();
      return;
    case ClientEventKind::kWriteFailed:
    case ClientEventKind::kReadEnded:
      call_->Release();
      return;
    case ClientEventKind::kHalfClosed:
      return;
    case ClientEventKind::kDone: {
      const grpc::Status status = call_->status();
      const bool complete = call_->half_closed() && status.ok();
      call_ = nullptr;
      if (closed_) {
        return;
      }
      const bool broke = status.ok() || status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                         status.error_code() == grpc::StatusCode::CANCELLED;
      if (complete) {
        FinishNow();
      } else if (!broke) {
        if (finish_done_ == nullptr) {
          LogWarning(absl::StrCat("the rest of the output of this node is not shown: ",
                                  status.error_message()));
        }
        CloseForGood(status.error_message());
      } else if (identity_.has_value()) {
        retry_->StartAfter(kRetry);  // else with the next connection
      }
      return;
    }
  }
}

void MasterClient::Impl::Output::CloseForGood(const std::string& why) {
  if (closed_) {
    return;
  }
  closed_ = true;
  queue_.clear();
  queued_bytes_ = 0;
  if (retry_ != nullptr) {
    retry_->Stop();
  }
  if (finish_done_ != nullptr) {
    FinishNow();
  } else if (started_) {
    callbacks_.on_closed(why);
  }
}

void MasterClient::Impl::Output::Shut() {
  closed_ = true;
  identity_.reset();
  if (retry_ != nullptr) {
    retry_->Stop();
  }
}

void MasterClient::Impl::Output::Finish(std::function<void()> done) {
  finish_done_ = std::move(done);
  if (finish_timer_ == nullptr) {
    finish_timer_ = std::make_unique<UvTimer>(loop_, [this] { FinishNow(); });
  }
  // Nothing was ever sent, nobody reads, or no stream can come: there is nothing to wait for.
  if (closed_ || !started_ || !sent_ || (queue_.empty() && call_ == nullptr)) {
    finish_timer_->StartAfter(absl::ZeroDuration());
  }
  Pump();
}

void MasterClient::Impl::Output::FinishNow() {
  Shut();
  finish_timer_->Stop();
  if (call_ != nullptr) {
    call_->Cancel();
  }
  if (finish_done_ != nullptr) {
    std::exchange(finish_done_, nullptr)();
  }
}

}  // namespace muster
