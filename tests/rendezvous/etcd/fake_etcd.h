// An etcd of one member, in memory: what etcd.proto has of it. Leases end when a test says so.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/mutex.h"
#include "rendezvous/etcd/etcd.grpc.pb.h"
#include "rendezvous/etcd/etcd_client.h"

namespace muster {

namespace etcd = etcdserverpb;

class FakeEtcd {
 public:
  FakeEtcd() : kv_(*this), leases_(*this), cluster_(*this) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&kv_);
    builder.RegisterService(&leases_);
    builder.RegisterService(&cluster_);
    server_ = builder.BuildAndStart();
    ListMembers({{absl::StrCat("http://", member())}});
  }
  ~FakeEtcd() { server_->Shutdown(); }

  std::string member() const { return absl::StrCat("127.0.0.1:", port_); }

  void EndLease(int64_t id) {
    const MutexLock lock(mutex_);
    EndLocked(id);
  }
  // The lease of that key; 0: it is not there, or has none.
  int64_t LeaseOf(const std::string& key) {
    const MutexLock lock(mutex_);
    const auto at = entries_.find(key);
    return at == entries_.end() ? 0 : at->second.lease;
  }
  // What it says of its members: the client URLs of each.
  void ListMembers(const std::vector<std::vector<std::string>>& members) {
    const MutexLock lock(mutex_);
    members_.Clear();
    for (const std::vector<std::string>& urls : members) {
      members_.add_members()->mutable_clienturls()->Add(urls.begin(), urls.end());
    }
  }
  // The next changes happen, but their answers are lost.
  void LoseAnswers(int count) {
    const MutexLock lock(mutex_);
    lost_answers_ = count;
  }
  // Every call fails so from now on.
  void Refuse(grpc::Status status) {
    const MutexLock lock(mutex_);
    refusal_ = std::move(status);
  }
  // Its NOSPACE alarm, from now on: what puts something is refused.
  void BeFull() {
    const MutexLock lock(mutex_);
    full_ = true;
  }

 private:
  struct Entry {
    std::string value;
    int64_t revision = 0;
    int64_t lease = 0;
  };

  class Kv final : public etcd::KV::Service {
   public:
    explicit Kv(FakeEtcd& all) : all_(all) {}
    grpc::Status Range(grpc::ServerContext*, const etcd::RangeRequest* request,
                       etcd::RangeResponse* response) override {
      return all_.Range(*request, *response);
    }
    grpc::Status Txn(grpc::ServerContext*, const etcd::TxnRequest* request,
                     etcd::TxnResponse* response) override {
      return all_.Txn(*request, *response);
    }

   private:
    FakeEtcd& all_;
  };

  class Leases final : public etcd::Lease::Service {
   public:
    explicit Leases(FakeEtcd& all) : all_(all) {}
    grpc::Status LeaseGrant(grpc::ServerContext*, const etcd::LeaseGrantRequest* request,
                            etcd::LeaseGrantResponse* response) override {
      const MutexLock lock(all_.mutex_);
      response->set_id(++all_.last_lease_);
      all_.leases_live_[all_.last_lease_] = request->ttl();
      return all_.refusal_;
    }
    grpc::Status LeaseRevoke(grpc::ServerContext*, const etcd::LeaseRevokeRequest* request,
                             etcd::LeaseRevokeResponse*) override {
      const MutexLock lock(all_.mutex_);
      all_.EndLocked(request->id());
      return all_.refusal_;
    }
    grpc::Status LeaseKeepAlive(
        grpc::ServerContext*,
        grpc::ServerReaderWriter<etcd::LeaseKeepAliveResponse, etcd::LeaseKeepAliveRequest>* stream)
        override {
      etcd::LeaseKeepAliveRequest request;
      while (stream->Read(&request)) {
        const MutexLock lock(all_.mutex_);
        if (!all_.refusal_.ok()) {
          return all_.refusal_;
        }
        etcd::LeaseKeepAliveResponse response;
        const auto at = all_.leases_live_.find(request.id());
        response.set_ttl(at == all_.leases_live_.end() ? 0 : at->second);
        stream->Write(response);
      }
      return grpc::Status::OK;
    }

   private:
    FakeEtcd& all_;
  };

  class Cluster final : public etcd::Cluster::Service {
   public:
    explicit Cluster(FakeEtcd& all) : all_(all) {}
    grpc::Status MemberList(grpc::ServerContext*, const etcd::MemberListRequest*,
                            etcd::MemberListResponse* response) override {
      const MutexLock lock(all_.mutex_);
      *response = all_.members_;
      return all_.refusal_;
    }

   private:
    FakeEtcd& all_;
  };

  grpc::Status Range(const etcd::RangeRequest& request, etcd::RangeResponse& response) {
    const MutexLock lock(mutex_);
    for (auto at = entries_.lower_bound(request.key());
         at != entries_.end() && at->first < request.range_end(); ++at) {
      if (response.kvs_size() == request.limit()) {
        response.set_more(true);
        break;
      }
      etcd::KeyValue& one = *response.add_kvs();
      one.set_key(at->first);
      one.set_value(at->second.value);
      one.set_mod_revision(at->second.revision);
    }
    return refusal_;
  }

  grpc::Status Txn(const etcd::TxnRequest& request, etcd::TxnResponse& response) {
    const MutexLock lock(mutex_);
    if (!refusal_.ok()) {
      return refusal_;
    }
    if (grpc::Status wrong = Check(request); !wrong.ok()) {
      return wrong;
    }
    for (const etcd::Compare& compare : request.compare()) {
      const auto at = entries_.find(compare.key());
      if ((at == entries_.end() ? 0 : at->second.revision) != compare.mod_revision()) {
        return Answer();
      }
    }
    const auto puts = [](const etcd::RequestOp& one) { return one.has_request_put(); };
    if (full_ && std::any_of(request.success().begin(), request.success().end(), puts)) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"};
    }
    ++revision_;
    for (const etcd::RequestOp& one : request.success()) {
      if (one.has_request_put()) {
        const etcd::PutRequest& put = one.request_put();
        if (put.lease() != 0 && leases_live_.count(put.lease()) == 0) {
          return {grpc::StatusCode::NOT_FOUND, "etcdserver: requested lease not found"};
        }
        entries_[put.key()] = {put.value(), revision_, put.lease()};
      } else {
        const etcd::DeleteRangeRequest& gone = one.request_delete_range();
        entries_.erase(entries_.lower_bound(gone.key()), entries_.lower_bound(gone.range_end()));
      }
    }
    response.set_succeeded(true);
    response.mutable_header()->set_revision(revision_);
    return Answer();
  }

  // What etcd takes by its defaults.
  static grpc::Status Check(const etcd::TxnRequest& request) {
    std::set<std::string> puts;
    for (const etcd::RequestOp& one : request.success()) {
      if (one.has_request_put() && !puts.insert(one.request_put().key()).second) {
        return {grpc::StatusCode::INVALID_ARGUMENT,
                "etcdserver: duplicate key given in txn request"};
      }
    }
    for (const etcd::RequestOp& one : request.success()) {
      const auto at = puts.lower_bound(one.request_delete_range().key());
      if (!one.has_request_put() && at != puts.end() &&
          *at < one.request_delete_range().range_end()) {
        return {grpc::StatusCode::INVALID_ARGUMENT,
                "etcdserver: duplicate key given in txn request"};
      }
    }
    if (request.success_size() > 128 || request.compare_size() > 128) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: too many operations in txn request"};
    }
    if (request.ByteSizeLong() > size_t{1536} * 1024) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: request is too large"};
    }
    return grpc::Status::OK;
  }

  grpc::Status Answer() MUSTER_ANNOTATE(requires_capability(mutex_)) {
    if (lost_answers_ > 0) {
      --lost_answers_;
      return {grpc::StatusCode::UNAVAILABLE, "the answer was lost"};
    }
    return grpc::Status::OK;
  }

  void EndLocked(int64_t id) MUSTER_ANNOTATE(requires_capability(mutex_)) {
    leases_live_.erase(id);
    for (auto at = entries_.begin(); at != entries_.end();) {
      at = at->second.lease == id ? entries_.erase(at) : std::next(at);
    }
  }

  Kv kv_;
  Leases leases_;
  Cluster cluster_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  std::map<std::string, Entry> entries_ MUSTER_GUARDED_BY(mutex_);
  std::map<int64_t, int64_t> leases_live_ MUSTER_GUARDED_BY(mutex_);  // to its seconds
  etcd::MemberListResponse members_ MUSTER_GUARDED_BY(mutex_);
  int64_t revision_ MUSTER_GUARDED_BY(mutex_) = 0;
  int64_t last_lease_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool full_ MUSTER_GUARDED_BY(mutex_) = false;
  int lost_answers_ MUSTER_GUARDED_BY(mutex_) = 0;
  grpc::Status refusal_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster
