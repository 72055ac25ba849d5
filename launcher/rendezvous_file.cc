#include "launcher/rendezvous_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/private_file.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr char kFormat[] = "muster-rendezvous-1";

absl::Status NotOne(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a rendezvous file of muster: ", why));
}

}  // namespace

std::string RendezvousText(const RendezvousPoint& point) {
  const nlohmann::ordered_json json = {{"format", kFormat},        {"job_id", point.job_id},
                                       {"build", point.build},     {"host", point.host},
                                       {"address", point.address}, {"port", point.port},
                                       {"nonce", point.nonce},     {"secret", point.secret}};
  return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RendezvousPoint> ParseRendezvousText(absl::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr,
                                                    /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return NotOne("no JSON object");
  }
  RendezvousPoint point;
  std::string format;
  const std::pair<const char*, std::string*> texts[] = {
      {"format", &format},      {"job_id", &point.job_id},   {"build", &point.build},
      {"host", &point.host},    {"address", &point.address}, {"nonce", &point.nonce},
      {"secret", &point.secret}};
  for (const auto& [name, out] : texts) {
    const auto it = json.find(name);
    if (it == json.end() || !it->is_string()) {
      return NotOne(absl::StrCat("want a text as '", name, "'"));
    }
    *out = it->get<std::string>();
  }
  if (format != kFormat) {
    return NotOne(absl::StrCat("want format ", kFormat, ", got '", format.substr(0, 64), "'"));
  }
  const auto port = json.find("port");
  if (port == json.end() || !port->is_number_unsigned() || port->get<uint64_t>() == 0 ||
      port->get<uint64_t>() > 65535) {
    return NotOne("want a port of 1..65535");
  }
  point.port = port->get<uint16_t>();
  if (point.address.empty() || point.nonce.empty() ||
      point.nonce.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return NotOne("want an address and a nonce of hex digits");
  }
  return point;
}

absl::StatusOr<std::optional<RendezvousPoint>> RendezvousFile::Read() const {
  const absl::StatusOr<std::string> text = ReadPrivateFile(path_, kRendezvousFileBytesMax);
  if (absl::IsNotFound(text.status())) {
    return std::nullopt;
  }
  RETURN_IF_ERROR(text.status());
  absl::StatusOr<RendezvousPoint> point = ParseRendezvousText(*text);
  if (!point.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, " is ", point.status().message(), ": give a path where no file is, or remove it"));
  }
  return *std::move(point);
}

absl::StatusOr<bool> RendezvousFile::Publish(const RendezvousPoint& own) const {
  ASSIGN_OR_RETURN(const std::string temp, WritePrivateTemp(path_, RendezvousText(own)));
  const auto remove_temp = absl::MakeCleanup([&temp] { unlink(temp.c_str()); });
  return LinkUnlessTaken(temp, path_);
}

absl::StatusOr<bool> RendezvousFile::Replace(const RendezvousPoint& dead,
                                             const RendezvousPoint& own) const {
  ASSIGN_OR_RETURN(const std::string temp, WritePrivateTemp(path_, RendezvousText(own)));
  const auto remove_temp = absl::MakeCleanup([&temp] { unlink(temp.c_str()); });
  const std::string right = RightTo(dead);
  ASSIGN_OR_RETURN(const bool ours, LinkUnlessTaken(temp, right));
  if (!ours) {
    return false;
  }
  const auto remove_right = absl::MakeCleanup([&right] { unlink(right.c_str()); });
  // The right says who may; whether it is still that file says the file.
  ASSIGN_OR_RETURN(const std::optional<RendezvousPoint> there, Read());
  if (!there.has_value() || there->nonce != dead.nonce) {
    return false;
  }
  if (rename(temp.c_str(), path_.c_str()) != 0) {
    return absl::InternalError(absl::StrCat("rename to ", path_, ": ", std::strerror(errno)));
  }
  return true;
}

void RendezvousFile::Remove(const RendezvousPoint& own) const {
  const absl::StatusOr<std::string> temp = WritePrivateTemp(path_, own.nonce);
  if (!temp.ok()) {
    return;  // a full disk, say: the file stays and will be found dead
  }
  const std::string right = RightTo(own);
  const absl::StatusOr<bool> ours = LinkUnlessTaken(*temp, right);
  if (ours.ok() && *ours) {
    const absl::StatusOr<std::string> there = ReadPrivateFile(path_, kRendezvousFileBytesMax);
    if (there.ok() && absl::StrContains(*there, own.nonce)) {  // no other file has that
      unlink(path_.c_str());
    }
    unlink(right.c_str());
  }
  unlink(temp->c_str());
}

std::string RendezvousFile::RightTo(const RendezvousPoint& point) const {
  return absl::StrCat(path_, ".replaces-", point.nonce.substr(0, 16));
}

}  // namespace muster
