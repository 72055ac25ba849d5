// How `launch doctor` shows its rows. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/diagnose.h"

namespace muster {

// A line for each row, the fix below those that are not well; rows that differ in `where` alone
// share one. Ends with a line that counts them.
std::string DoctorTable(const std::vector<DoctorRow>& rows, bool colour);

// One JSON object and a newline ("format": "muster-doctor-1"; names stay): "ok", "checks" (check,
// health, where, seen, fix), and "nodes" with what each said.
std::string DoctorJson(const std::vector<DoctorRow>& rows, const Examination& examined);

// Whether nothing is worse than suspect.
bool AllWell(const std::vector<DoctorRow>& rows);

}  // namespace muster
