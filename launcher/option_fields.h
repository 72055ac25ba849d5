// What an option does that only puts a flag, a text or a parsed value into one field of JobSpec:
// the field, and how it is parsed, are the template's arguments (option_table.cc). Pure;
// thread-safe.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "launcher/job_spec.h"
#include "launcher/option_values.h"
#include "launcher/options.h"
#include "proto/base/status_macros.h"

namespace muster {

template <auto Field>
absl::Status SetFlag(const OptionValue& v, JobSpec& s) {
  s.*Field = !v.undone;
  return absl::OkStatus();
}

template <auto Field>
absl::Status SetPlanFlag(const OptionValue& v, JobSpec& s) {
  s.plan.*Field = !v.undone;
  return absl::OkStatus();
}

template <auto Field>
absl::Status SetText(const OptionValue& v, JobSpec& s) {
  return NotEmpty(v, s.*Field);
}

template <auto Field>
absl::Status SetPlanText(const OptionValue& v, JobSpec& s) {
  return NotEmpty(v, s.plan.*Field);
}

template <auto Field, auto Parse>
absl::Status SetOutput(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.plan.output.*Field, Parse(v));
  return absl::OkStatus();
}

template <auto Field>
absl::Status SetRestartsOf(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.restart_rules.*Field, ParseNumber(v, 0, kRestartsMax));
  return absl::OkStatus();
}

template <auto Field>
absl::Status SetRestartTime(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.restart_rules.*Field, ParseTime(v));
  return absl::OkStatus();
}

template <auto Field>
absl::Status SetTime(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.*Field, ParseTime(v));
  return absl::OkStatus();
}

// 0 is "never", as mpiexec and Slurm have it.
template <auto Field>
absl::Status SetLimit(const OptionValue& v, JobSpec& s) {
  RETURN_IF_ERROR(SetTime<Field>(v, s));
  if (s.*Field == absl::ZeroDuration()) {
    s.*Field = absl::InfiniteDuration();
  }
  return absl::OkStatus();
}

template <auto Field>
absl::Status SetFilePattern(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.plan.output.*Field, ParseFilePattern(v));
  return absl::OkStatus();
}

}  // namespace muster
