#include "launcher/torchrun_words.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "launcher/option_values.h"
#include "launcher/schedule/first_set.h"

namespace muster {
namespace {

constexpr absl::string_view kTemplateVariable = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
constexpr absl::string_view kMasterHere = "127.0.0.1";  // torchrun's default of --master-addr
constexpr absl::string_view kStatic = "static";

// One word of torchrun's, with the value that follows it, if it has one.
struct Said {
  const OptionRow* row = nullptr;  // nullptr: launch will say what is wrong with it
  std::vector<std::string> words;
  std::string value;  // "" of a flag
};

bool IsTorchruns(const OptionRow& row) { return absl::StartsWith(row.environment, "PET_"); }

// The one long name of torchrun's that begins with `name` (T6); "" where none or several do.
std::string Completed(absl::string_view name) {
  const std::string begun = absl::StrReplaceAll(name, {{"_", "-"}});
  std::string found;
  if (!absl::StartsWith(begun, "--") || begun.size() < 3) {
    return "";
  }
  for (const OptionRow& row : OptionTable()) {
    for (absl::string_view known : absl::StrSplit(row.names, ' ')) {
      if (!IsTorchruns(row) || !absl::StartsWith(known, begun)) {
        continue;
      }
      if (!found.empty()) {
        return "";
      }
      found = std::string(known);
    }
  }
  return found;
}

class Translation {
 public:
  Translation(const std::vector<std::string>& arguments, const Environment& environment)
      : arguments_(arguments), environment_(environment) {}

  absl::StatusOr<TorchrunWords> Run() {
    const size_t program = TakeOptions();
    for (size_t i = program; i < arguments_.size(); ++i) {
      if (arguments_[i] == ":") {
        return absl::InvalidArgumentError(
            "a word ':' of the program's separates programs to launch, of which torchrun knows "
            "one: write the command down, command: [PROGRAM, ':'], and say launch --config FILE");
      }
    }
    if (program < arguments_.size()) {
      AddProgram(arguments_[program]);
      AddFill(program);
    }
    AddCounts();
    AddOutput();
    AddMeeting();
    for (Said& one : said_) {
      std::move(one.words.begin(), one.words.end(), std::back_inserter(out_.words));
    }
    if (program < arguments_.size()) {
      out_.words.emplace_back("--");
      out_.words.insert(out_.words.end(), arguments_.begin() + static_cast<ptrdiff_t>(program),
                        arguments_.end());
    }
    return std::move(out_);
  }

 private:
  // Returns where the program stands.
  size_t TakeOptions() {
    size_t next = 0;
    while (next < arguments_.size()) {
      const std::string& word = arguments_[next];
      if (word.size() < 2 || word[0] != '-') {
        break;
      }
      ++next;
      if (word == "--") {
        break;
      }
      next = TakeOption(word, next);
    }
    return next;
  }

  size_t TakeOption(const std::string& word, size_t next) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    Said said = {FindOption(name), {word}, ""};
    if (said.row == nullptr && FindUndone(name) == nullptr) {
      if (const std::string whole = Completed(name); !whole.empty()) {
        said.row = FindOption(whole);
        said.words = {whole + (equals == std::string::npos ? std::string() : word.substr(equals))};
      }
    }
    if (said.row == nullptr && word.size() > 2 && word[1] != '-') {  // -t3
      said.row = FindOption(word.substr(0, 2));
      said.value = word.substr(2);
    } else if (equals != std::string::npos) {
      said.value = word.substr(equals + 1);
    } else if (said.row != nullptr) {
      const size_t follow =
          ValuesBehind(*said.row, next < arguments_.size() ? arguments_[next] : "");
      for (size_t i = 0; i < follow && next < arguments_.size(); ++i) {
        said.value = arguments_[next];
        said.words.push_back(arguments_[next++]);
      }
    }
    said_.push_back(std::move(said));
    return next;
  }

  const Said* Typed(OptionId id) const {
    const auto it = std::find_if(said_.rbegin(), said_.rend(), [id](const Said& one) {
      return one.row != nullptr && one.row->id == id;
    });
    return it == said_.rend() ? nullptr : &*it;
  }
  bool TypedAny(std::initializer_list<OptionId> ids) const {
    return std::any_of(ids.begin(), ids.end(), [this](OptionId id) { return Typed(id); });
  }
  // What is typed, else what the environment has; "" = neither.
  std::string ValueOf(OptionId id) const {
    if (const Said* typed = Typed(id)) {
      return typed->value;
    }
    const auto* variable = FirstSet(environment_, OptionOf(id).environment);
    return variable == nullptr ? "" : variable->second;
  }
  bool FlagOf(OptionId id) const {
    const auto* variable = FirstSet(environment_, OptionOf(id).environment);
    return Typed(id) != nullptr ||
           (variable != nullptr && ParseBool({variable->first, variable->second}).value_or(false));
  }
  bool HasValue(OptionId id) const { return !ValueOf(id).empty(); }

  void Forget(OptionId id) {
    said_.erase(
        std::remove_if(said_.begin(), said_.end(),
                       [id](const Said& one) { return one.row != nullptr && one.row->id == id; }),
        said_.end());
  }

  void Add(OptionId id, absl::string_view value = "") {
    out_.words.emplace_back(OptionName(id));
    if (!value.empty()) {
      out_.words.emplace_back(value);
    }
  }

  void AddProgram(absl::string_view program) {  // T1
    if (Typed(OptionId::kRunPath) != nullptr) {
      Forget(OptionId::kNoPython);
    } else if (!FlagOf(OptionId::kRunPath) && !FlagOf(OptionId::kModule) &&
               !FlagOf(OptionId::kNoPython) && !absl::EndsWith(program, ".py")) {
      Add(OptionId::kRunPath);
    }
  }

  void AddFill(size_t program) {  // T7
    const auto has_names = [](absl::string_view word) {
      return absl::StrContains(word, "$local_rank") || absl::StrContains(word, "${local_rank}") ||
             absl::StrContains(word, "$$");
    };
    if (!TypedAny({OptionId::kFill, OptionId::kFillTorchrun}) &&
        std::any_of(arguments_.begin() + static_cast<ptrdiff_t>(program), arguments_.end(),
                    has_names)) {
      Add(OptionId::kFillTorchrun);
    }
  }

  void AddCounts() {  // T2
    if (TypedAny({OptionId::kHosts, OptionId::kHostfile, OptionId::kRankfile, OptionId::kTotal,
                  OptionId::kPpn, OptionId::kMapBy, OptionId::kConfig})) {
      return;
    }
    for (const OptionId id : {OptionId::kNnodes, OptionId::kNprocPerNode}) {
      if (!HasValue(id)) {
        Add(id, "1");
      }
    }
    if (Alone() && !HasValue(OptionId::kNodeRank) && !FlagOf(OptionId::kStandalone)) {
      Add(OptionId::kNodeRank, "0");  // then no scheduler is asked for nodes
    }
  }

  bool Alone() const {
    const std::string nodes = ValueOf(OptionId::kNnodes);
    return nodes.empty() || nodes == "1" || nodes == "1:1";
  }

  void AddOutput() {
    if (Typed(OptionId::kConfig) != nullptr) {
      return;  // a job file says what it wants
    }
    const std::string tee = ValueOf(OptionId::kTee);
    if (!TypedAny({OptionId::kLabel, OptionId::kLogPrefix, OptionId::kNoPrefix}) &&
        FirstSet(environment_, kTemplateVariable) == nullptr) {  // T3
      if (tee.empty() || tee == "0") {
        Add(OptionId::kNoPrefix);
      } else {
        Add(OptionId::kLogPrefix, "[{role}{local_rank}]:");
      }
    }
    const std::string redirects = ValueOf(OptionId::kRedirects);
    const bool files = HasValue(OptionId::kLogDir) || (!redirects.empty() && redirects != "0");
    if (files && !TypedAny({OptionId::kLogLayout, OptionId::kOutputFilename})) {  // T4
      Add(OptionId::kLogLayout, "torchrun");
    }
  }

  void AddMeeting() {  // T5
    const std::string backend = ValueOf(OptionId::kRdzvBackend);
    const bool is_static = backend.empty() || backend == kStatic;
    if (!HasValue(OptionId::kNodeRank) || FlagOf(OptionId::kStandalone)) {
      return;
    }
    if (!is_static) {
      if (Typed(OptionId::kNodeRank) != nullptr) {
        out_.notes.push_back(absl::StrCat("--node-rank is not used: it has no meaning with ",
                                          "--rdzv-backend ", backend, ", as with torchrun"));
        Forget(OptionId::kNodeRank);
      }
      if (Alone()) {
        Add(OptionId::kNodeRank, "0");  // as in AddCounts
      }
    } else if (HasValue(OptionId::kRdzvEndpoint)) {
      if (backend.empty() && !HasValue(OptionId::kRdzvFingerprint)) {  // else it is a daemon
        Add(OptionId::kRdzvBackend, kStatic);
      }
    } else if (!Alone() && !HasValue(OptionId::kMasterAddr)) {
      Add(OptionId::kMasterAddr, kMasterHere);
    }
  }

  const std::vector<std::string>& arguments_;  // borrowed for the time of Run
  const Environment& environment_;             // likewise
  std::vector<Said> said_;
  TorchrunWords out_;
};

}  // namespace

bool CalledTorchrun(absl::string_view argv0) {
  return argv0.substr(argv0.rfind('/') + 1) == "torchrun";
}

absl::StatusOr<TorchrunWords> FromTorchrun(const std::vector<std::string>& arguments,
                                           const Environment& environment) {
  return Translation(arguments, environment).Run();
}

}  // namespace muster
