#include "tools/trace/report/missing_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "policy/text.h"
#include "tools/text/text.h"
#include "tools/trace/report/format.h"

namespace slipstream::report {
namespace {

using policy::Escape;
using text::PadLeft;
using text::PadRight;
using text::WithThousands;

constexpr size_t kErrorsShown = 3;
constexpr size_t kLibrariesShown = 5;
// Of a row of a library, without its name.
constexpr size_t kOfLibrary = 54;

}  // namespace

std::string MissingText(const Report& report, size_t columns) {
  std::string gaps;
  std::string kept;
  for (const ProcessReport& process : report.processes) {
    const std::string missing = Missing(process);
    if (!missing.empty()) gaps += Wrapped(columns, "  incomplete: " + FullName(process) + ": " + missing);
    if (process.pauses != 0) {
      kept += Wrapped(columns, "  recorded in part: " + FullName(process) + ": paused for " +
                                   Time(process.paused_time) + " in " + Counted(process.pauses, "pause", "pauses") +
                                   ", as it was wanted (tracer.window, slipstream record)");
    }
    if (process.given_up_records != 0) {
      const std::string up_to = process.kept_from ? WallTime(report.start_unix_ns + *process.kept_from) : "";
      kept += Wrapped(columns, "  kept the newest: " + FullName(process) + ": its first " +
                                   Counted(process.given_up_records, "record", "records") +
                                   (up_to.empty() ? "" : ", up to " + up_to + ",") +
                                   " were given up (tracer.keep = \"newest\")");
    }
  }
  for (const std::string& why : report.unreadable) gaps += Wrapped(columns, "  left out: " + Cut(Escape(why), 300));
  if (!report.has_own_tables) {
    return "  not a database of slipstream's: no lines, no steps and no decisions are known\n";
  }
  if (gaps.empty()) gaps = kept.empty() ? "  nothing is missing\n" : "  nothing else is missing\n";
  return kept + gaps;
}

std::string NotSeenText(const Report& report, const ProcessReport& process, size_t columns) {
  std::string text = "NOT SEEN\n";
  const auto say = [&](const std::string& line) { text += Wrapped(columns, "  " + line); };
  if (report.has_own_tables && !process.sees_driver()) {
    say(process.devices_recorded ? "libraries with a CUDA runtime of their own (cuBLAS, cuDNN, NCCL): of their calls, "
                                   "those that make work or wait for it are "
                                   "recorded as the driver's functions; others are not and count as outside CUDA calls"
                                 : "libraries with a CUDA runtime of their own (cuBLAS, cuDNN, NCCL): their calls are "
                                   "not recorded and count "
                                   "as outside CUDA calls");
    if (!process.devices_recorded) {
      say("kernels launched through the driver (Triton, torch.compile): not recorded either; intercept.level = "
          "\"driver\" has them, and so has tracer.device = \"cupti\"");
    }
  }
  uint64_t kernels = 0;
  uint64_t copies = 0;
  for (const LibraryReport& library : process.libraries) {
    kernels += library.kernels;
    copies += library.copies;
  }
  if (!process.libraries.empty()) {
    say("by no hook, in the whole run: " + WithThousands(kernels) + " of " + WithThousands(process.all_kernels) +
        " kernels and " + Counted(copies, "copy or set", "copies and sets") + ", asked for by");
    const size_t names = std::clamp<size_t>(columns - kOfLibrary, 20, 46);
    for (size_t i = 0; i < process.libraries.size() && i < kLibrariesShown; ++i) {
      const LibraryReport& library = process.libraries[i];
      const std::string file = library.path.substr(library.path.rfind('/') + 1);
      const std::string name = text::CutMiddle(library.path.empty() ? "unknown" : Escape(file), names - 2);
      text += "    " + PadRight(name, names) + PadLeft(WithThousands(library.kernels), 9) + " kernels" +
              PadLeft(WithThousands(library.copies), 9) + " copies, sets" + Figure(Time(library.time)) + "\n";
      if (library.synchronizations != 0) {
        text += "      it synchronized " + Counted(library.synchronizations, "time", "times") + ", in " +
                Time(library.synchronizing_time) + " of the host\n";
      }
    }
    if (process.libraries.size() > kLibrariesShown) {
      text += "    " + Counted(process.libraries.size() - kLibrariesShown, "more library", "more libraries") +
              " (--json has all)\n";
    }
  }
  if (process.unattributed != 0) {
    say("devices: of " + Counted(process.unattributed, "kernel, copy or set", "kernels, copies and sets") +
        " the call is not in the trace");
  }
  if (!process.no_devices.empty()) {
    say("devices: nothing of them was recorded: " + Escape(process.no_devices));
  }
  if (process.calls_without_line != 0) {
    say("lines: " + WithThousands(process.calls_without_line) + " of " + WithThousands(process.measured_calls) +
        " calls have none (" +
        Percent(static_cast<double>(process.calls_without_line), static_cast<double>(process.measured_calls)) + ")" +
        (process.no_lines.empty() ? "" : "; Python lines: " + Escape(process.no_lines)));
  }
  if (process.has_steps) {
    say("steps: " + WithThousands(process.calls_outside_steps) + " of " + WithThousands(process.calls) +
        " calls of the process are outside of them");
  }
  size_t without = 0;
  std::string names;
  for (const ProcessReport& other : report.processes) {
    if (other.has_steps) continue;
    if (++without <= 3) names += (names.empty() ? "" : ", ") + FullName(other);
  }
  if (without != 0 && report.processes.size() > 1) {
    say("steps of " + Counted(without, "process", "processes") + ": " + names + (without > 3 ? ", ..." : ""));
  }
  for (size_t i = 0; i < process.errors.size() && i < kErrorsShown; ++i) {
    const ErrorReport& error = process.errors[i];
    say("failed: " + Counted(error.calls, "call", "calls") + " of " + Cut(Escape(error.function), 60) + " returned " +
        std::to_string(error.code));
  }
  if (process.errors.size() > kErrorsShown) {
    say("failed: " + std::to_string(process.errors.size() - kErrorsShown) + " more kinds of failure (--json has all)");
  }
  return text;
}

}  // namespace slipstream::report
