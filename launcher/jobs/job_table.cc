#include "launcher/jobs/job_table.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr absl::string_view kPrefix = "job-";
constexpr size_t kCandidatesMax = 8;  // in an error

std::string CommandText(const JobRecord& record) {
  std::string out = absl::StrJoin(record.command, " ", [](std::string* text, const std::string& s) {
    absl::StrAppend(text, ShellQuote(s));
  });
  for (char& c : out) {  // a newline in an argument must not break the table
    c = absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c;
  }
  return out;
}

std::string StateText(const JobRecord& record) {
  if (record.state == JobState::kEnded) {
    return absl::StrCat("ended ", record.exit_code);
  }
  return record.state == JobState::kLost && !record.within.empty()
             ? absl::StrCat("lost in ", record.within)
             : std::string(JobStateName(record.state));
}

std::string Count(uint32_t number) { return number == 0 ? "-" : absl::StrCat(number); }

// "12 s", "3 min", "5 h", "2 d": one unit is enough for an age.
std::string Age(absl::Duration age) {
  constexpr absl::Duration kDay = absl::Hours(24);
  age = std::max(age, absl::ZeroDuration());
  return age < absl::Minutes(2) ? absl::StrCat(absl::ToInt64Seconds(age), " s")
         : age < absl::Hours(2) ? absl::StrCat(absl::ToInt64Minutes(age), " min")
         : age < 2 * kDay       ? absl::StrCat(absl::ToInt64Hours(age), " h")
                                : absl::StrCat(age / kDay, " d");
}

std::string Candidates(const std::vector<JobRecord>& records, const std::vector<size_t>& which) {
  std::string out;
  for (size_t i = 0; i < which.size() && i < kCandidatesMax; ++i) {
    const JobRecord& record = records[which[i]];
    absl::StrAppend(&out, out.empty() ? "" : ", ", record.id,
                    record.name.empty() ? "" : absl::StrCat(" '", record.name, "'"), " (",
                    StateText(record), ")");
  }
  return which.size() > kCandidatesMax
             ? absl::StrCat(out, ", and ", which.size() - kCandidatesMax, " more")
             : out;
}

template <typename Matches>
std::vector<size_t> Where(const std::vector<JobRecord>& records, Matches matches) {
  std::vector<size_t> out;
  for (size_t i = 0; i < records.size(); ++i) {
    if (matches(records[i])) {
      out.push_back(i);
    }
  }
  return out;
}

}  // namespace

std::string HowEnded(const JobRecord& record) {
  if (record.state == JobState::kEnded) {
    return absl::StrCat(record.id, " has ended with ", record.exit_code);
  }
  return absl::StrCat(record.id, " was lost: its launcher was killed, and nothing of it runs",
                      record.within.empty()
                          ? ""
                          : absl::StrCat("; it ran in ", record.within,
                                         ", whose script or shell takes all with it at its end"));
}

std::string StopOfSlurm(absl::string_view word, bool slurm) {
  const bool number = !word.empty() &&
                      absl::ascii_isdigit(static_cast<unsigned char>(word.front())) &&
                      word.find_first_not_of("0123456789_.") == absl::string_view::npos;
  return slurm && number ? absl::StrCat("; if job ", word, " of Slurm is meant: scancel ", word)
                         : "";
}

absl::StatusOr<std::vector<size_t>> FindJobs(const std::vector<JobRecord>& records,
                                             absl::string_view word) {
  std::vector<size_t> found = Where(records, [&](const JobRecord& r) { return r.id == word; });
  if (found.empty()) {
    found = Where(records, [&](const JobRecord& r) { return !r.name.empty() && r.name == word; });
  }
  if (found.empty() && !word.empty()) {
    found = Where(records, [&](const JobRecord& r) {
      return absl::StartsWith(r.id, word) || absl::StartsWith(r.id, absl::StrCat(kPrefix, word));
    });
  }
  if (found.empty()) {
    const std::vector<size_t> all = Where(records, [](const JobRecord&) { return true; });
    return absl::NotFoundError(
        absl::StrCat("no job of yours on this host is called '", word, "'",
                     all.empty() ? ": there is none (launch --detach starts one)"
                                 : absl::StrCat("; there are ", Candidates(records, all))));
  }
  return found;
}

absl::StatusOr<size_t> FindJob(const std::vector<JobRecord>& records, absl::string_view word) {
  ASSIGN_OR_RETURN(const std::vector<size_t> found, FindJobs(records, word));
  if (found.size() == 1) {
    return found.front();
  }
  std::vector<size_t> live;
  std::copy_if(found.begin(), found.end(), std::back_inserter(live),
               [&](size_t i) { return records[i].live(); });
  if (live.size() == 1) {
    return live.front();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("'", word, "' may be ", Candidates(records, live.empty() ? found : live),
                   ": name one by its id"));
}

std::string NameTaken(const std::vector<JobRecord>& records, absl::string_view name) {
  const std::vector<size_t> live = Where(
      records, [&](const JobRecord& r) { return r.live() && !name.empty() && r.name == name; });
  return live.empty()
             ? ""
             : absl::StrCat("--name ", name, ": ", Candidates(records, live),
                            live.size() == 1 ? " has" : " have",
                            " that name, too: launch attach, logs and stop want their ids as long ",
                            "as more than one runs");
}

absl::StatusOr<size_t> FindOnlyJob(const std::vector<JobRecord>& records, absl::string_view how) {
  const std::vector<size_t> live = Where(records, [](const JobRecord& r) { return r.live(); });
  if (live.empty()) {
    return absl::NotFoundError("no job of yours runs on this host (launch --detach starts one)");
  }
  if (live.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("several jobs run: ", Candidates(records, live), "; name one", how));
  }
  return live.front();
}

std::string JobTable(const std::vector<JobRecord>& records, absl::Time now, size_t width) {
  using Row = std::array<std::string, 7>;
  std::vector<Row> rows = {{"ID", "NAME", "STATE", "WORLD", "NODES", "AGE", "COMMAND"}};
  for (const JobRecord& record : records) {
    rows.push_back({record.id, record.name.empty() ? "-" : record.name, StateText(record),
                    Count(record.world_size), Count(record.nodes), Age(now - record.started_at),
                    CommandText(record)});
  }
  std::array<size_t, 7> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      absl::StrAppend(&line, row[i], std::string(widths[i] - row[i].size() + 2, ' '));
    }
    line += row.back();
    if (width != 0 && line.size() > width) {
      line.resize(width);
    }
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string RestartJson(const JobRecord& record, bool restarts, const std::string& text) {
  nlohmann::ordered_json out;
  out["id"] = record.id;
  out["name"] = record.name;
  out["restarts"] = restarts;
  out["text"] = text;
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string JobsJson(const std::vector<JobRecord>& records) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const JobRecord& record : records) {
    out.push_back(nlohmann::ordered_json::parse(RecordJson(record)));
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster
