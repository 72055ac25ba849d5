#include "rendezvous/etcd/etcd_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "proto/wire/grpc_runtime.h"
#include "rendezvous/etcd/etcd.grpc.pb.h"

namespace muster {

namespace etcd = etcdserverpb;

namespace {

constexpr absl::string_view kScheme = "etcd://";
constexpr size_t kMembersMax = 16;
// A member that is down refuses at once; one that is cut off is left for the next one after this.
constexpr absl::Duration kEachMember = absl::Seconds(1);
// After all have said that they cannot answer now (they choose a leader of their own).
constexpr std::chrono::milliseconds kBetweenRounds{50};
constexpr int64_t kPage = 8;  // entries of one answer, of up to a MiB each: kEachMember is enough

absl::Status BadPlace(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "': ", what, "; want etcd://HOST:PORT[,HOST:PORT...][/NAME]"));
}

bool IsMember(absl::string_view text) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 && port < 65536;
}

// The first key behind all that begin so.
std::string EndOf(std::string prefix) {
  ++prefix.back();  // ours end with '/' or a letter
  return prefix;
}

void Fill(const EtcdChange& change, etcd::TxnRequest& request) {
  for (const EtcdChange::Guard& guard : change.guards) {
    etcd::Compare& compare = *request.add_compare();
    compare.set_result(etcd::Compare::EQUAL);
    compare.set_target(etcd::Compare::MOD);
    compare.set_key(guard.key);
    compare.set_mod_revision(guard.mod_revision);
  }
  for (const std::string& prefix : change.deleted_prefixes) {
    etcd::DeleteRangeRequest& gone = *request.add_success()->mutable_request_delete_range();
    gone.set_key(prefix);
    gone.set_range_end(EndOf(prefix));
  }
  for (const EtcdChange::Put& one : change.puts) {
    etcd::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(one.key);
    put.set_value(one.value);
    put.set_lease(one.lease);
  }
}

// The call's time was over there sooner than here, or the member was ending: errors of Go's own, to
// which etcd 3.4 gives no code.
bool HasEndedThere(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNKNOWN &&
         (status.error_message() == "context deadline exceeded" ||
          status.error_message() == "context canceled");
}

// What a user cannot know who reads etcd's own words.
absl::string_view WhatToDo(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "user name is empty")
             ? "; this etcd wants a user and Muster logs in as none: give it an etcd of its own, "
               "without authentication, whose ports only the masters reach"
             : "";
}

bool IsAway(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED || HasEndedThere(status);
}

}  // namespace

absl::StatusOr<EtcdPlace> ParseEtcdPlace(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kScheme)) {
    return BadPlace(text, "not an etcd cluster");
  }
  EtcdPlace place;
  if (const size_t slash = rest.find('/'); slash != absl::string_view::npos) {
    place.name = std::string(rest.substr(slash + 1));
    rest = rest.substr(0, slash);
    if (place.name.empty() || absl::StrContains(place.name, '/')) {
      return BadPlace(text, "NAME is one word without '/'");
    }
  }
  place.members = absl::StrSplit(rest, ',');
  for (const std::string& member : place.members) {
    if (!IsMember(member)) {
      return BadPlace(text, absl::StrCat("'", member, "' is not HOST:PORT"));
    }
  }
  if (place.members.size() > kMembersMax) {
    return BadPlace(text, absl::StrCat("more than ", kMembersMax, " members"));
  }
  return place;
}

struct EtcdClient::Member {
  std::string name;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<etcd::KV::Stub> kv;
  std::unique_ptr<etcd::Lease::Stub> leases;
  std::unique_ptr<etcd::Cluster::Stub> cluster;
};

EtcdClient::EtcdClient(const EtcdPlace& place) {
  KeepGrpcRunning();
  for (const std::string& name : place.members) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    // A member that is back is used again soon.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    auto member = std::make_unique<Member>();
    member->name = name;
    member->channel =
        grpc::CreateCustomChannel(name, grpc::InsecureChannelCredentials(), arguments);
    member->kv = etcd::KV::NewStub(member->channel);
    member->leases = etcd::Lease::NewStub(member->channel);
    member->cluster = etcd::Cluster::NewStub(member->channel);
    members_.push_back(std::move(member));
  }
}

EtcdClient::~EtcdClient() = default;

template <typename Call>
absl::Status EtcdClient::Try(absl::Duration limit, const Call& call) {
  const absl::Time until = BootNow() + limit;
  std::string last = "no time was left";
  for (size_t tries = 0; BootNow() < until; ++tries) {
    const size_t at = (last_ + tries) % members_.size();
    if (tries > 0 && tries % members_.size() == 0) {
      std::this_thread::sleep_for(kBetweenRounds);
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +  // gRPC takes it for so much from now
                         absl::ToChronoMicroseconds(std::min(until - BootNow(), kEachMember)));
    // A connection that is being made is waited for; with others to ask, that is their turn.
    context.set_wait_for_ready(tries >= members_.size());
    const grpc::Status status = call(*members_[at], context);
    if (status.ok()) {
      last_ = at;
      return absl::OkStatus();
    }
    last = absl::StrCat(members_[at]->name, ": ", status.error_message());
    if (!IsAway(status)) {
      return absl::FailedPreconditionError(absl::StrCat("etcd at ", last, WhatToDo(status)));
    }
  }
  return absl::DeadlineExceededError(absl::StrCat("no etcd member has answered; ", last));
}

absl::StatusOr<std::vector<EtcdEntry>> EtcdClient::Read(const std::string& prefix,
                                                        absl::Duration limit) {
  std::vector<EtcdEntry> entries;
  etcd::RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(EndOf(prefix));
  request.set_limit(kPage);
  for (bool more = true; more;) {
    etcd::RangeResponse response;
    RETURN_IF_ERROR(Try(limit, [&](const Member& member, grpc::ClientContext& context) {
      return member.kv->Range(&context, request, &response);
    }));
    for (etcd::KeyValue& one : *response.mutable_kvs()) {
      entries.push_back(
          {std::move(*one.mutable_key()), std::move(*one.mutable_value()), one.mod_revision()});
    }
    more = response.more() && response.kvs_size() > 0;
    if (more) {
      request.set_key(entries.back().key + '\0');
    }
  }
  return entries;
}

absl::StatusOr<int64_t> EtcdClient::Change(const EtcdChange& change, absl::Duration limit) {
  etcd::TxnRequest request;
  Fill(change, request);
  etcd::TxnResponse response;
  RETURN_IF_ERROR(Try(limit, [&](const Member& member, grpc::ClientContext& context) {
    return member.kv->Txn(&context, request, &response);
  }));
  return response.succeeded() ? response.header().revision() : 0;
}

absl::StatusOr<int64_t> EtcdClient::Grant(absl::Duration ttl, absl::Duration limit) {
  etcd::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))));
  etcd::LeaseGrantResponse response;
  RETURN_IF_ERROR(Try(limit, [&](const Member& member, grpc::ClientContext& context) {
    return member.leases->LeaseGrant(&context, request, &response);
  }));
  return response.id();
}

absl::Status EtcdClient::KeepAlive(int64_t lease, absl::Duration limit) {
  etcd::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcd::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(Try(limit, [&](const Member& member, grpc::ClientContext& context) {
    const auto stream = member.leases->LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->Read(&response);
    stream->WritesDone();
    if (answered) {
      context.TryCancel();
      (void)stream->Finish();
      return grpc::Status::OK;
    }
    const grpc::Status status = stream->Finish();
    return status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer") : status;
  }));
  return response.ttl() > 0 ? absl::OkStatus() : absl::NotFoundError("the lease has ended");
}

absl::Status EtcdClient::Revoke(int64_t lease, absl::Duration limit) {
  etcd::LeaseRevokeRequest request;
  request.set_id(lease);
  etcd::LeaseRevokeResponse response;
  return Try(limit, [&](const Member& member, grpc::ClientContext& context) {
    return member.leases->LeaseRevoke(&context, request, &response);
  });
}

absl::StatusOr<std::vector<EtcdMember>> EtcdClient::Members(absl::Duration limit) {
  etcd::MemberListRequest request;
  request.set_linearizable(true);
  etcd::MemberListResponse response;
  RETURN_IF_ERROR(Try(limit, [&](const Member& member, grpc::ClientContext& context) {
    return member.cluster->MemberList(&context, request, &response);
  }));
  std::vector<EtcdMember> members;
  for (const etcd::Member& one : response.members()) {
    members.push_back({{one.clienturls().begin(), one.clienturls().end()}, !one.islearner()});
  }
  return members;
}

}  // namespace muster
