// A command line of torchrun in the words of launch, for the launch that is called by that name
// (a link `torchrun`, `python -m muster.run`). Text and values only; thread-safe.
//
// Nearly all that torchrun takes launch takes under the same name (option_table.cc), and launch's
// own options are taken here, too. What is put in other words is what torchrun does without being
// told, as its `run.py` has it (torch 1.13 to 2.x):
//  T1 the program is a Python script whatever its name, unless -m or --no-python says otherwise;
//     --run-path counts more than --no-python;
//  T2 one node, one worker on it, also in an allocation, and in each of srun's tasks;
//  T3 lines come as the workers write them; with --tee as [ROLE LOCAL_RANK]: without the blank;
//  T4 files of --log-dir and --redirects lie as torchrun's do;
//  T5 --node-rank belongs to the static form: there the address is 127.0.0.1 if none is said, and
//     an endpoint is that address and port; with --rdzv-backend c10d a typed one has no meaning;
//  T6 an option may be cut short as long as only one of torchrun's begins so (--nproc);
//  T7 all behind the program is the program's; ${local_rank} in its words is the worker's, unless
//     --fill says what is.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/options.h"

namespace muster {

// Whether a program that was called as `argv0` is to be torchrun: its last part is that name.
bool CalledTorchrun(absl::string_view argv0);

struct TorchrunWords {
  std::vector<std::string> words;  // for ParseCommandLine
  std::vector<std::string> notes;  // what the user should know, a sentence each
};

// `arguments` without the name of the program. What is wrong with single options is left to
// ParseCommandLine. InvalidArgument: the program has an argument ':', which launch reads otherwise.
absl::StatusOr<TorchrunWords> FromTorchrun(const std::vector<std::string>& arguments,
                                           const Environment& environment);

}  // namespace muster
