// What the user has said of where the nodes meet, and no node will ask.
#pragma once

#include <functional>
#include <string>

#include "launcher/job_spec.h"

namespace muster {

// Adds a note to `spec` for each key of --rdzv-conf that nobody knows, with those that are known
// and the nearest. What only torchrun knows has no meaning here, and is left out without a word.
// Pure.
void NoteUnknownConf(JobSpec& spec);

// Of a resolved job of one node: that --rdzv-endpoint is not asked, where it names another machine.
// `is_here`: whether a host is this machine, without asking any name server.
void NoteUnusedEndpoint(JobSpec& spec, const std::function<bool(const std::string& host)>& is_here);

// Of a job of one node on this machine (its way is known): a note for each option that says how
// nodes reach or trust each other, as there is no other. Nothing of variables, which a site sets
// for all jobs. Pure.
void NoteUnusedAlone(JobSpec& spec);

// Where node rank 0 serves although the place where the nodes meet is no address of this machine:
// two nodes may both be rank 0, each with a master of its own. `hostname`: this machine's.
std::string ServesElsewhere(const JobSpec& spec, const std::string& hostname);

// What to do where another program listens at `place`, by what was `tried` there last
// (AgentLoop::Options::on_no_master); "" = nothing says that one does.
std::string StrangerThere(const JobSpec& spec, const std::string& place, const std::string& tried);

}  // namespace muster
