// Transcripts: a text file of commands ("> join a") and of what the machine did, line by line. The
// runner executes the commands and compares. MUSTER_REWRITE=1 in the environment writes what it
// did into the file instead: the change is then read in review.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/messages.h"

namespace muster {

// "join a workers=2 port=4000": the words, and the values by name.
struct Command {
  std::string verb;
  std::vector<std::string> words;             // after the verb, without '='
  std::map<std::string, std::string> values;  // the last of each name
  std::vector<std::pair<std::string, std::string>> all;

  std::string Word(size_t i) const { return i < words.size() ? words[i] : ""; }
  std::string Text(const std::string& name, const std::string& otherwise) const;
  int64_t Number(const std::string& name, int64_t otherwise) const;
};

// Runs every transcript whose name begins with `prefix`; `run` makes a fresh machine for each file
// and returns the function that executes one command and says what came of it.
using Executor = std::function<std::string(const Command&)>;
void RunTranscripts(const std::string& prefix, const std::function<Executor()>& run);

// Virtual times in transcripts: seconds since the start, "1.5".
absl::Time AtSeconds(const std::string& text);
std::string Seconds(absl::Time at);

// "ok", "code3", "sig11", "stopped15" (by us), "oom", "enoent"
WorkerExit ExitOf(const std::string& text);
std::string Show(const WorkerExit& exit);

}  // namespace muster
