#include "tools/cli/report_command.h"

#include <string>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/text.h"
#include "tools/cli/trace_build.h"
#include "tools/cli/trace_input.h"
#include "tools/report/json.h"
#include "tools/report/report.h"
#include "tools/report/text.h"

namespace slipstream::cli {
namespace {

using policy::Escape;

constexpr char kCommand[] = "report";

struct Made {
  int status = kFailed;
  bool stopped = false;
  bool partial = false;
  report::Report report;
};

Made Make(const ReportCommandOptions& options, const std::string& version) {
  Made made;
  const EndingSignals signals;
  const TraceInput input = OpenTrace(kCommand, options.run, version);
  if (input.status != kSuccess) {
    made.stopped = input.built.problem == trace_db::BuildProblem::kStopped;
    return made;
  }
  made.partial = input.partial();
  ProgressLine line(kCommand);
  bool first = true;
  made.report = report::MakeReport(
      input.database.get(), {.timeline = options.html.has_value(), .progress = [&](uint64_t calls, uint64_t all) {
                               line.Show("calls " + WithThousands(calls) + " of " + WithThousands(all), first);
                               first = false;
                             }});
  if (input.database->stopped()) {
    made.stopped = true;
  } else if (!input.database->ok()) {
    Complain(kCommand, Escape(options.run) + ": cannot be read to its end: " + Escape(input.database->error().text));
  } else if (made.report.processes.empty()) {
    Complain(kCommand, Escape(options.run) +
                           ": holds no CUDA calls and no kernels\n  Name a recorded run, or a database that "
                           "`slipstream export --sqlite` or Nsight Systems made.");
  } else {
    made.status = kSuccess;
  }
  return made;
}

}  // namespace

int Report(const ReportCommandOptions& options, const std::string& version) {
  const Made made = Make(options, version);
  if (made.stopped) {
    Complain(kCommand, "stopped");
    EndingSignals::EndAsAsked();
    return kFailed;  // whoever blocks the signal
  }
  if (made.status != kSuccess) return made.status;
  const int printed =
      Print(kCommand, options.json ? report::ReportJson(made.report, made.partial) : report::FormatReport(made.report));
  return printed != kSuccess ? printed : made.partial ? kPartial : kSuccess;
}

}  // namespace slipstream::cli
