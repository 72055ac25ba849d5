#include "rendezvous/etcd/etcd_files.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

constexpr absl::string_view kHead = "head";

std::string Number(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

bool ReadNumber(absl::string_view text, uint64_t& value) {
  return text.size() == 16 && absl::SimpleHexAtoi(text, &value);
}

EtcdChange Deletion(std::string prefix) {
  EtcdChange change;
  change.deleted_prefixes.push_back(std::move(prefix));
  return change;
}

}  // namespace

EtcdFiles::EtcdFiles(const std::string& root) : prefix_(root + "jobs/") {}

std::string EtcdFiles::FilePrefix(uint64_t file) const {
  return absl::StrCat(prefix_, Number(file), "/");
}

std::string EtcdFiles::GenerationPrefix(uint64_t file, uint64_t generation) const {
  return absl::StrCat(FilePrefix(file), Number(generation), "/");
}

absl::StatusOr<EtcdFiles::Listing> EtcdFiles::Take(const std::vector<EtcdEntry>& entries) {
  struct Contents {
    uint64_t head = 0;  // 0 = none
    std::map<uint64_t, std::string> generations;
    std::map<uint64_t, uint64_t> parts;
  };
  std::map<uint64_t, Contents> found;
  for (const EtcdEntry& entry : entries) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(absl::string_view(entry.key).substr(prefix_.size()), '/');
    uint64_t file = 0;
    uint64_t generation = 0;
    uint64_t part = 0;
    const bool named = ReadNumber(words[0], file);
    if (named && words.size() == 2 && words[1] == kHead && ReadNumber(entry.value, generation)) {
      found[file].head = generation;
    } else if (named && words.size() == 3 && ReadNumber(words[1], generation) &&
               ReadNumber(words[2], part)) {
      found[file].generations[generation] += entry.value;
      found[file].parts[generation] = part + 1;
    } else {
      return absl::DataLossError(
          absl::StrCat("etcd: ", entry.key, " is not of a journal; remove it"));
    }
  }
  Listing listing;
  for (auto& [file, contents] : found) {
    if (contents.head == 0) {
      listing.garbage.push_back(Deletion(FilePrefix(file)));
      continue;
    }
    for (const auto& [generation, bytes] : contents.generations) {
      if (generation != contents.head) {
        listing.garbage.push_back(Deletion(GenerationPrefix(file, generation)));
      }
    }
    files_[file] = {contents.head, contents.parts[contents.head]};
    listing.files.push_back({file, absl::StrCat("etcd: ", FilePrefix(file)),
                             std::move(contents.generations[contents.head])});
  }
  return listing;
}

EtcdFiles::Plan EtcdFiles::PlanFor(const std::vector<JournalTask>& tasks) {
  Plan plan;
  for (const JournalTask& task : tasks) {
    if (plan.changes.empty()) {
      BeginChange(plan);
    }
    switch (task.what) {
      case JournalTask::What::kAppend:
        Append(task.file, task.bytes, plan);
        break;
      case JournalTask::What::kReplace:
        Replace(task.file, task.bytes, plan);
        break;
      case JournalTask::What::kRemove:
        Remove(task.file, plan);
        break;
    }
    plan.ends.push_back(plan.changes.size() - 1);
  }
  return plan;
}

void EtcdFiles::BeginChange(Plan& plan) {
  plan.changes.emplace_back();
  keys_ = bytes_ = 0;
  touched_.clear();
}

void EtcdFiles::MakeRoom(Plan& plan, size_t keys, size_t bytes) {
  if (keys_ + keys > kEtcdChangeKeysMax || bytes_ + bytes > kEtcdChangeBytesMax) {
    BeginChange(plan);
  }
  keys_ += keys;
  bytes_ += bytes;
}

void EtcdFiles::Append(uint64_t file, absl::string_view bytes, Plan& plan) {
  File& to = files_[file];
  while (!bytes.empty()) {
    const absl::string_view part = bytes.substr(0, kEtcdChangeBytesMax);
    bytes.remove_prefix(part.size());
    MakeRoom(plan, 1, part.size());
    plan.changes.back().puts.push_back(
        {GenerationPrefix(file, to.generation) + Number(to.parts++), std::string(part), 0});
    touched_.insert(file);
  }
}

void EtcdFiles::Replace(uint64_t file, absl::string_view bytes, Plan& plan) {
  if (touched_.contains(file)) {  // S2: what it deletes is put by the same change
    BeginChange(plan);
  }
  File& to = files_[file];
  const uint64_t old = to.generation++;
  to.parts = 0;
  Append(file, bytes, plan);
  MakeRoom(plan, 2, 0);
  EtcdChange& last = plan.changes.back();
  last.puts.push_back({absl::StrCat(FilePrefix(file), kHead), Number(to.generation), 0});  // S1
  if (old != 0) {
    last.deleted_prefixes.push_back(GenerationPrefix(file, old));
  }
  touched_.insert(file);
}

void EtcdFiles::Remove(uint64_t file, Plan& plan) {
  if (touched_.contains(file)) {
    BeginChange(plan);
  }
  MakeRoom(plan, 1, 0);
  plan.changes.back().deleted_prefixes.push_back(FilePrefix(file));
  files_.erase(file);
  touched_.insert(file);
}

}  // namespace muster
