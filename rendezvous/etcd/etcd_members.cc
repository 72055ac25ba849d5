#include "rendezvous/etcd/etcd_members.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

using Places = std::vector<std::string>;

absl::string_view PortOf(absl::string_view place) { return place.substr(place.rfind(':') + 1); }

// Each host means itself by it.
bool IsHere(absl::string_view place) {
  const absl::string_view host = place.substr(0, place.rfind(':'));
  return host == "localhost" || absl::StartsWith(host, "127.") || host == "[::1]" ||
         host == "0.0.0.0" || host == "[::]" || absl::StartsWithIgnoreCase(host, "[::ffff:127.");
}

// As it was named; nullopt: it was not.
std::optional<std::string> NamedHere(const Places& named, absl::string_view place) {
  const auto at = std::find_if(named.begin(), named.end(), [place](const std::string& one) {
    return IsHere(one) && PortOf(one) == PortOf(place);
  });
  return at == named.end() ? std::nullopt : std::optional(*at);
}

// The places of each that no other one gives.
std::vector<Places> OwnPlaces(const std::vector<EtcdMember>& members) {
  std::map<std::string, int> givers;
  std::vector<std::set<std::string>> given;
  for (const EtcdMember& member : members) {
    std::set<std::string>& places = given.emplace_back();
    for (const std::string& url : member.client_urls) {
      if (std::string place = PlaceOfUrl(url); !place.empty() && places.insert(place).second) {
        ++givers[IsHere(place) ? absl::StrCat(":", PortOf(place)) : place];
      }
    }
  }
  std::vector<Places> own;
  for (const std::set<std::string>& places : given) {
    Places& one = own.emplace_back();
    std::copy_if(places.begin(), places.end(), std::back_inserter(one),
                 [&givers](const std::string& place) {
                   return givers[IsHere(place) ? absl::StrCat(":", PortOf(place)) : place] == 1;
                 });
  }
  return own;
}

}  // namespace

std::string PlaceOfUrl(absl::string_view url) {
  if (!absl::ConsumePrefix(&url, "http://") && !absl::ConsumePrefix(&url, "https://")) {
    return "";
  }
  url = url.substr(0, url.find('/'));
  const size_t colon = url.rfind(':');
  return colon == absl::string_view::npos || colon == 0 || PortOf(url).empty() ||
                 absl::EndsWith(url, "]")
             ? ""
             : std::string(url);
}

std::optional<std::vector<Places>> PlacesToAsk(const Places& named,
                                               const std::vector<EtcdMember>& members) {
  std::vector<Places> all = OwnPlaces(members);
  const bool here = std::all_of(all.begin(), all.end(), [&named](const Places& places) {
    return std::all_of(places.begin(), places.end(), [&named](const std::string& place) {
      return IsHere(place) && NamedHere(named, place).has_value();
    });
  });
  for (Places& places : all) {
    if (here) {
      std::transform(places.begin(), places.end(), places.begin(),
                     [&named](const std::string& place) { return *NamedHere(named, place); });
    } else {
      places.erase(std::remove_if(places.begin(), places.end(), IsHere), places.end());
    }
    if (places.empty()) {
      return std::nullopt;
    }
  }
  return all.empty() ? std::nullopt : std::optional(std::move(all));
}

std::string FewNamed(const Places& named, const std::vector<EtcdMember>& members) {
  const size_t names = std::set<std::string>(named.begin(), named.end()).size();
  Places places;
  size_t voters = 0;
  for (const EtcdMember& member : members) {
    if (member.votes) {
      ++voters;
      for (const std::string& url : member.client_urls) {
        places.push_back(PlaceOfUrl(url).empty() ? url : PlaceOfUrl(url));
      }
    }
  }
  if (names >= voters) {
    return "";
  }
  return absl::StrCat(
      "--rdzv-store names ", names, " of the ", voters,
      " members of etcd: where what it names is down, this daemon has no etcd and "
      "cannot lead, though the others run; name all of them (etcd says they are at ",
      absl::StrJoin(places, ","), ")");
}

}  // namespace muster
