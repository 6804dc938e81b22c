#include "tools/cli/export.h"

#include <cstdio>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using trace_db::BuildProblem;
using trace_db::BuildProgress;
using trace_db::BuildResult;

constexpr char kCommand[] = "export";
constexpr char kFormats[] =
    "slipstream export: no format. There is:\n"
    "  --sqlite FILE   an SQLite database in the table layout of Nsight Systems' export (docs/trace-database.md)\n";

}  // namespace

int Export(const ExportOptions& options, const std::string& version) {
  if (!options.sqlite) {
    std::fputs(kFormats, stderr);
    return kUsage;
  }
  BuildResult result;
  trace_db::BuildOptions build = {.run = options.run,
                                  .database = *options.sqlite,
                                  .replace = options.force,
                                  .product_version = version,
                                  .stop = EndingSignals::stop()};
  {
    const EndingSignals signals;
    ProgressLine line(kCommand);
    build.progress = [&](const BuildProgress& progress) { line.Show(progress); };
    result = trace_db::BuildTraceDatabase(build);
  }
  if (result.problem == BuildProblem::kStopped) {
    Complain(kCommand, "stopped; nothing is left of " + Escape(*options.sqlite));
    EndingSignals::EndAsAsked();
    return kFailed;  // whoever blocks the signal
  }
  if (result.problem != BuildProblem::kNone) {
    ComplainAbout(kCommand, build, result);
    return kFailed;
  }
  const int printed = Print(kCommand, options.json ? ExportJson(options, result) : FormatExport(options, result));
  return printed != kSuccess ? printed : result.partial() ? kPartial : kSuccess;
}

}  // namespace slipstream::cli
