// What Ctrl-C in `launch attach` means is asked at the terminal.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "launcher/jobs/wait_signals.h"

namespace muster {

enum class AttachAnswer : uint8_t { kGoOn, kDetach, kStop };

// None: neither of them.
std::optional<AttachAnswer> ParseAttachAnswer(absl::string_view line);
// `stopping`: it was asked to stop before, so that the next time means at once.
std::string AttachQuestion(const std::string& job, bool stopping);

// Whether somebody sits at our terminal and can be asked there: it is all of stdin, stdout and
// stderr, and neither in the background nor stuck.
bool CanAskAtTerminal();
// Asks, and again what was not understood. A signal while it waits, or the end of the input, means
// kDetach; no answer for a minute, or `over`, means kGoOn. `over` is called whenever `keeper` has
// something.
AttachAnswer AskAtTerminal(const std::string& question, int keeper,
                           const std::function<bool()>& over, const WaitSignals& signals);

}  // namespace muster
