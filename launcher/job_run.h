// What every way of running a job shares: configuration from the user's words, the end of a job,
// messages.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "agent/core/env_filter.h"
#include "agent/core/facts.h"
#include "launcher/display.h"
#include "launcher/exit_codes.h"
#include "launcher/job_life.h"
#include "launcher/job_spec.h"
#include "launcher/jobs/keeper_link.h"
#include "launcher/stop_cause.h"
#include "proto/wire/job_terms.h"
#include "rendezvous/core/types.h"

namespace muster {

// Of a job that ended with `exit_code`, by what became of its output here: `nobody_reads` it, for
// which it was stopped with SIGTERM if it still ran, or some is `lost`, for that reason. A failure
// of the job, or another stop, comes before both; `nobody_reads` is false where the user has
// stopped it, too: what ends a whole pipeline (`launch ... | tee`) ends its reader in any order.
int ExitCodeAsShown(int exit_code, bool nobody_reads, const std::string& lost);
// The same where no report is shown: says why, if the job itself ended well.
int TellExitCodeAsShown(int exit_code, bool nobody_reads, const std::string& lost);

JobTerms TermsOf(const JobSpec& spec);
RoundConfig ConfigOf(const JobSpec& spec);
// Where the command is typed on every node: what must be the same on each; the master names both
// nodes where it is not.
std::vector<std::pair<std::string, std::string>> MustAgree(const JobSpec& spec);
// Of the job's rounds.
uint32_t EpochOf(const JobSpec& spec);

// The node at this place of the list, for people.
std::string ListName(const JobSpec& spec, size_t index);

// Whether the node of `host` is here. Another user, or an sshd at another port (a container's), is
// reached by ssh also where the name is this machine's.
bool IsHere(const JobSpec& spec, const HostEntry& host);

// Whether the job has one node, which is here, and whose agent is in a step of Slurm's all the
// same: so Slurm sends its workers what it sends to steps, and gives them time to end.
bool InLoneStep(const JobSpec& spec);

// Whether its agent is a child of ours. In a batch script those of several nodes are all in one
// step (SlurmJob::in_script), and that of one mostly is, too (lone_step).
bool StartsHere(const JobSpec& spec, const HostEntry& host);

// What a stop that begins now gives the workers before SIGKILL; under Slurm that depends on when
// the job ends.
absl::Duration GraceNow(const JobSpec& spec);
// What is left of that where Slurm kills sooner; for people.
absl::Duration TimeToStop(const JobSpec& spec);

// A stop that begins now.
StopAsked StopOf(const JobSpec& spec, const StopWish& wish);

// Whether a host list or --standalone may run more than one worker; a count that is found out on
// the node is taken for many.
bool ManyWorkers(const JobSpec& spec);

// What depends on the world's size and on where our output goes: prefix, growing lines, log folder.
void FinishOutputOptions(const JobSpec& spec, bool many_workers, WorkPlan& plan);

// Programs for which nothing else is said run in the folder that launch is in.
void RunInOwnFolder(WorkPlan& plan);

// For --verbose.
void LogRound(const RoundStarted& round);

// Makes or replaces a file; "-", and a file that our standard output or error goes to: behind what
// they have written. The reader of a pipe with a name has to be there, and to take `text`
// within 3 s: Unavailable. Of a file that is not written to its end nothing is left; the message is
// why.
absl::Status WriteWhole(const std::string& path, const std::string& text, mode_t mode);

// The folder in --log-dir has the job's name: where that was given before, both jobs' lines are in
// the same files.
void TellEarlierLogs(const JobSpec& spec);

// Before the first worker starts: --report (`path`, "" = none) could be written now.
absl::Status CheckReportFile(const std::string& path);

// What the job's next life has to know of a round that has started; `spec` has a life.
JobLife LifeOf(const JobSpec& spec, const RoundState& state);
// Whether nothing is to be known of it any more: Slurm may start a job again that was stopped, or
// has lost a node.
bool IsLast(CauseKind cause);

// What goes along of our environment to a node whose agent does not inherit it.
std::vector<std::string> EnvironmentForOthers(const JobSpec& spec);

// The folder that has Muster's package for Python, beside the program that runs here:
// PREFIX/lib/python3/dist-packages or, in a build tree, python; "" if neither has it.
std::string OwnPythonDir();

// Shows `page`, what is to be said of the report, on stderr, behind what was logged before. Where
// launch itself was started with a TORCHELASTIC_ERROR_FILE, that is written, as by torchrun: so who
// started it (TorchX, a launch or torchrun around this one) knows the first cause.
void ShowPage(absl::string_view page, const JobReport& report);
// Where srun has started launch on every node: what it waits for behind the report of a lost node;
// "" = nothing.
std::string WhatSrunAwaits(const JobSpec& spec, const JobReport& report);
// Shows the report on stderr, writes --report; the exit code of launch.
int ShowReport(const JobSpec& spec, const std::string& job_id, JobReport report);

// For --report, if it is given. A job that ended well has not where its report is lost, as on a
// full disk: then `report` says so, and the user hears why.
void WriteReport(const JobSpec& spec, const std::string& job_id, JobReport& report);

// The report of a job whose output was not shown or kept whole: our stdout was closed (`launch ...
// | head`), or a file (`launch ... > file`, --log-dir) did not take all. Else unchanged.
JobReport AsShown(JobReport report, const Display& display, bool stop_asked);

// What `launch chaos` asks for goes to the master by `post`, or is answered as wrong. `spec`
// outlives it.
std::function<void(uint64_t ask, const DrillWords& words)> DrillCallback(
    const JobSpec& spec, std::function<void(RoundEvent)> post);
void TellAnswer(const JobSpec& spec, const OrderAnswered& answered);

// To whoever waits for the start of a detached job.
void TellStarted(const JobSpec& spec, uint32_t world_size, uint32_t nodes);

}  // namespace muster
