// Who may run jobs at a master. Values.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace muster {

struct KnownUser {
  std::string name;    // "" = everybody who knows the one secret
  std::string secret;  // "" = --insecure

  // Of their job among those of all users, for the master and for people.
  std::string KeyOf(const std::string& job_id) const {
    return name.empty() ? job_id : name + "/" + job_id;
  }
};

// Everybody who knows the one secret, for MasterOptions::users.
inline std::vector<KnownUser> OneSecret(std::string secret) { return {{"", std::move(secret)}}; }

}  // namespace muster
