#include "agent/core/worker_argv.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

// $1 is the prologue, the rest what is started behind it. In a function, so that `set -- ...` in
// the prologue does not change the program's words; its first failure ends it. Shells print $0 in
// front of what they say themselves.
constexpr char kPrologueName[] = "launch --prologue";
constexpr char kPrologueScript[] =
    "trap 's=$?; echo \"$0: ended with status $s, the program was not started\" >&2; exit $s' "
    "EXIT\n"
    "prologue() { eval \"$1\"; }\n"
    "set -e\n"
    "prologue \"$1\"\n"
    "set +e\n"
    "trap - EXIT\n"
    "unset -f prologue\n"
    "shift\n"
    "exec \"$@\"";

// As Template.safe_substitute of Python, which is what torchrun fills with: $local_rank,
// ${local_rank} and, for a dollar, $$; what else a dollar begins stays.
std::string FillAsTorchrun(absl::string_view text, uint32_t local_rank) {
  std::string out;
  while (!text.empty()) {
    if (absl::ConsumePrefix(&text, "$$")) {
      out.push_back('$');
    } else if (absl::string_view rest = text;
               absl::ConsumePrefix(&rest, "${local_rank}") ||
               (absl::ConsumePrefix(&rest, "$local_rank") &&
                (rest.empty() ||
                 (rest[0] != '_' && !absl::ascii_isalnum(static_cast<unsigned char>(rest[0])))))) {
      absl::StrAppend(&out, local_rank);
      text = rest;
    } else {
      out.push_back(text[0]);
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

std::string FillNames(absl::string_view text, const WorkerNames& names) {
  const std::string rank = absl::StrCat(names.rank);
  const size_t width = absl::StrCat(std::max(names.world_size, 1u) - 1).size();
  const std::string zeros(width > rank.size() ? width - rank.size() : 0, '0');
  const std::pair<absl::string_view, std::string> values[] = {
      {"{rank}", rank},
      {"{rank0}", zeros + rank},
      {"{local_rank}", absl::StrCat(names.local_rank)},
      {"{node_rank}", absl::StrCat(names.node_rank)},
      {"{host}", names.host}};
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [name, value] : values) {
    all.emplace_back(name, value);
    all.emplace_back(absl::StrCat("$", name), value);
  }
  return absl::StrReplaceAll(text, all);
}

std::vector<std::string> WorkerArgv(const WorkPlan& plan, const WorkerNames& names) {
  std::vector<std::string> argv;
  if (!plan.prologue.empty()) {
    argv = {"/bin/sh", "-c", kPrologueScript, kPrologueName, plan.prologue};
  }
  for (const Wrap& wrap : plan.wraps) {
    if (std::find(wrap.ranks.begin(), wrap.ranks.end(), names.rank) != wrap.ranks.end()) {
      for (const std::string& word : wrap.argv) {
        argv.push_back(FillNames(word, names));
      }
    }
  }
  WorkerNames own = names;
  if (plan.virtual_local_rank) {
    own.local_rank = 0;  // as LOCAL_RANK
  }
  for (size_t i = 0; i < plan.argv.size(); ++i) {
    std::string word = plan.argv[i];
    if (plan.fill && i > 0) {
      word = FillNames(word, own);
    }
    if (plan.fill_torchrun && i > 0) {
      word = FillAsTorchrun(word, names.local_rank);  // also with a virtual one, as there
    }
    argv.push_back(std::move(word));
  }
  return argv;
}

}  // namespace muster
