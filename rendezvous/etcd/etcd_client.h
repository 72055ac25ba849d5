// The few things a master asks of an etcd cluster. Blocks; any one thread at a time.
//
// Every call tries the members one after the other, beginning with the one that answered last,
// until one answers or its time is over. Errors of every call: DeadlineExceeded (no member answered
// in time; says what the last one said), FailedPrecondition (etcd refuses; its words).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// "etcd://HOST:PORT[,HOST:PORT...][/NAME]" of --rdzv-store: members of one cluster, and the name
// under which masters of one kind find each other.
struct EtcdPlace {
  std::vector<std::string> members;  // HOST:PORT
  std::string name = "default";
};
// InvalidArgument: what is wrong with it, and what is wanted.
absl::StatusOr<EtcdPlace> ParseEtcdPlace(absl::string_view text);

struct EtcdEntry {
  std::string key;
  std::string value;
  int64_t mod_revision = 0;  // of its last change; grows with every change of anything
};

// One of etcd's own list.
struct EtcdMember {
  std::vector<std::string> client_urls;  // none: it has not been started yet
  bool votes = true;                     // false: it still learns
};

// All of `puts` and `deletes` happen, or nothing. A put of a key with `lease` goes with the lease.
struct EtcdChange {
  struct Put {
    std::string key;
    std::string value;
    int64_t lease = 0;
  };
  // Only if this key was changed last then; 0 = is not there.
  struct Guard {
    std::string key;
    int64_t mod_revision = 0;
  };
  std::vector<Guard> guards;
  std::vector<Put> puts;
  std::vector<std::string> deleted_prefixes;  // none of `puts` may be below
};

class EtcdClient {
 public:
  explicit EtcdClient(const EtcdPlace& place);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // All whose key begins so, ascending by key.
  absl::StatusOr<std::vector<EtcdEntry>> Read(const std::string& prefix, absl::Duration limit);
  // The revision of the keys that were put; 0: the guards did not hold. An error leaves open
  // whether it happened.
  absl::StatusOr<int64_t> Change(const EtcdChange& change, absl::Duration limit);
  // A lease of that many seconds, rounded up; its number.
  absl::StatusOr<int64_t> Grant(absl::Duration ttl, absl::Duration limit);
  // NotFound: there is no such lease any more.
  absl::Status KeepAlive(int64_t lease, absl::Duration limit);
  // What has the lease is gone.
  absl::Status Revoke(int64_t lease, absl::Duration limit);
  // All members that etcd has, also those that were not named.
  absl::StatusOr<std::vector<EtcdMember>> Members(absl::Duration limit);

 private:
  struct Member;
  template <typename Call>
  absl::Status Try(absl::Duration limit, const Call& call);

  std::vector<std::unique_ptr<Member>> members_;
  size_t last_ = 0;  // that answered
};

}  // namespace muster
