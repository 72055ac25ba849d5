#include "launcher/programs.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/option_values.h"
#include "launcher/options.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

absl::Status TooMany(absl::string_view place) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": want at most ", kProgramsMax, " programs in a job"));
}

std::string CommandOf(const JobSpec& spec) {
  std::vector<std::string> words = {spec.program};
  words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
    absl::StrAppend(out, ShellQuote(word));
  });
}

// Of a file: lines that end in '\' joined with the next one, each with the number of its first.
std::vector<std::pair<size_t, std::string>> WholeLines(absl::string_view text) {
  std::vector<std::pair<size_t, std::string>> out;
  size_t number = 0;
  bool goes_on = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    const bool continued = absl::ConsumeSuffix(&line, "\\");
    if (goes_on) {
      absl::StrAppend(&out.back().second, " ", line);
    } else {
      out.emplace_back(number, line);
    }
    goes_on = continued;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<ProgramWords>> SplitAtColons(const std::vector<std::string>& words) {
  std::vector<ProgramWords> out(1);
  for (const std::string& word : words) {
    if (word != ":") {
      out.back().words.push_back(word);
      continue;
    }
    if (out.size() == kProgramsMax) {
      return TooMany("':'");
    }
    out.push_back({{}, absl::StrCat("program ", out.size() + 1)});
  }
  for (const ProgramWords& one : out) {
    if (out.size() > 1 && one.words.empty()) {
      return absl::InvalidArgumentError(
          "':' stands between two programs, and on one side of it there is none; a program gets "
          "':' as a word of its own from a job file (--config, command: [PROGRAM, ':'])");
    }
  }
  return out;
}

absl::StatusOr<std::vector<ProgramWords>> ReadProgramLines(absl::string_view text,
                                                           const std::string& name) {
  std::vector<ProgramWords> out;
  for (const auto& [number, line] : WholeLines(text)) {
    const absl::string_view said = absl::StripAsciiWhitespace(line);
    if (said.empty() || said[0] == '#') {
      continue;
    }
    const std::string place = absl::StrCat(name, ":", number);
    ASSIGN_OR_RETURN(const std::vector<std::string> words, ParseWords({place, said}));
    absl::StatusOr<std::vector<ProgramWords>> programs = SplitAtColons(words);
    if (!programs.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": ", programs.status().message()));
    }
    for (ProgramWords& program : *programs) {
      if (out.size() == kProgramsMax) {
        return TooMany(place);
      }
      out.push_back({std::move(program.words), place});
    }
  }
  if (out.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": want lines with options and a program, as in '-n 2 ./prog', got none"));
  }
  return out;
}

bool MaySayProgram(OptionId id) {
  switch (id) {
    case OptionId::kTotal:
    case OptionId::kHosts:
    case OptionId::kHostfile:
    case OptionId::kModule:
    case OptionId::kNoPython:
    case OptionId::kRunPath:
    case OptionId::kSetEnv:
    case OptionId::kSetEnvPair:
    case OptionId::kEnvList:
    case OptionId::kWdir:
      return true;
    default:
      return false;
  }
}

bool SaysProgram(const JobSpec& spec, OptionId id) {
  if (id != OptionId::kHosts && id != OptionId::kHostfile) {
    return MaySayProgram(id);
  }
  return std::any_of(spec.further.begin(), spec.further.end(), [](const JobSpec& program) {
    return program.Has(OptionId::kHosts) || program.Has(OptionId::kHostfile);
  });
}

absl::Status CheckFurther(const JobSpec& program) {
  for (const auto& [id, given] : program.given) {
    const bool to_all = absl::StartsWith(given.name, "-genv");
    if (FindOption(given.name) != &OptionOf(id)) {
      continue;  // what another one brings with it
    }
    const bool without_effect = OptionOf(id).set == nullptr || id == OptionId::kMpiSetting;
    if (to_all || (!MaySayProgram(id) && !without_effect)) {
      return absl::InvalidArgumentError(
          absl::StrCat(program.Said(id), ": holds for the whole job, so it stands before the ",
                       "first program; behind ':' a program has its own -n, --hosts, -x, --wdir"));
    }
  }
  return absl::OkStatus();
}

std::vector<const JobSpec*> ProgramsOf(const JobSpec& spec) {
  std::vector<const JobSpec*> out = {&spec};
  for (const JobSpec& program : spec.further) {
    out.push_back(&program);
  }
  return out;
}

std::string DescribePrograms(const JobSpec& spec) {
  if (spec.further.empty()) {
    return CommandOf(spec);
  }
  return absl::StrJoin(ProgramsOf(spec), " : ", [](std::string* out, const JobSpec* program) {
    absl::StrAppend(out, program->Has(OptionId::kTotal) ? "-n " : "",
                    program->Has(OptionId::kTotal) ? program->given.at(OptionId::kTotal).value : "",
                    " ", CommandOf(*program));
  });
}

absl::Status CountPrograms(JobSpec& spec) {
  if (spec.further.empty()) {
    return absl::OkStatus();
  }
  uint64_t total = 0;
  for (const JobSpec* program : ProgramsOf(spec)) {
    if (!program->total) {
      return absl::InvalidArgumentError(absl::StrCat(
          "program '", program->program,
          "' has no -n: with several programs each says how many workers it has, as in ",
          "'launch -n 2 ./a : -n 3 ./b'"));
    }
    if (program != &spec) {
      spec.plan.further.push_back({static_cast<uint32_t>(total), program->plan.argv,
                                   program->plan.wdir, program->plan.env_set});
    }
    total += *program->total;
    if (total > kWorldSizeMax) {
      return absl::InvalidArgumentError(absl::StrCat(program->Said(OptionId::kTotal),
                                                     ": want at most ", kWorldSizeMax,
                                                     " workers in a job, got ", total));
    }
  }
  spec.total = static_cast<uint32_t>(total);
  return absl::OkStatus();
}

}  // namespace muster
