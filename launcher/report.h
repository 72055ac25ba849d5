// The one page at the end of a job that did not go well, and its JSON form. Pure text; nothing of
// ours is traced.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster {

// What the page says: who failed first, where, when, how, its last words, who was stopped because
// of it. `before`: the history of the job's lives before; `python_dir` as TailHint's. Lines end
// with a newline; "" when every worker ended well.
std::string ReportText(const JobReport& report, const std::string& job_id,
                       const std::vector<std::string>& before = {},
                       const std::string& python_dir = {});

// For --report-state-on-timeout: a line for each worker that was still running. "" where the time
// limit was not the end.
std::string StateText(const JobReport& report);

// For --advise: a line, how long the workers waited for CPUs, and what may be better.
std::string AdviceText(const JobReport& report);

// For --report FILE; stable names, see launcher/README.md.
std::string ReportJson(const JobReport& report, const std::string& job_id,
                       const std::vector<std::string>& before = {});

// For the TORCHELASTIC_ERROR_FILE of who called launch, as torchrun writes it (source: torch,
// distributed/elastic/multiprocessing/errors): what the first cause's own error file says, its exit
// code, and `now` in seconds of Unix time. "" where no worker is the cause, or it has no such file.
std::string CallersErrorText(const JobReport& report, absl::Time now);

}  // namespace muster
