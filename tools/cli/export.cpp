#include "tools/cli/export.h"

#include <cstdio>
#include <string>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"
#include "tools/trace/check/check.h"

namespace slipstream::cli {
namespace {

using policy::Escape;

constexpr char kFormats[] =
    "slipstream export: no format. There are, and several may be named at once:\n"
    "  --sqlite FILE        an SQLite database in the table layout of Nsight\n"
    "                       Systems' export (`slipstream help trace-database`)\n"
    "  --chrome FILE        Chrome's JSON as the PyTorch profiler writes it\n"
    "  --perfetto FILE      a trace for the Perfetto UI and its trace processor\n"
    "  --allocations FILE   what was allocated and freed, to be replayed through\n"
    "                       any allocator (`slipstream help export` for these)\n"
    "Or no file: --check says what the run has, what is missing from it, and what\n"
    "contradicts (`slipstream help trace`)\n";

int CheckRun(const ExportOptions& options, const std::string& version) {
  trace_check::Check check;
  bool stopped = false;
  {
    const EndingSignals signals;
    // From the files themselves, whatever database lies beside them.
    const TraceInput input = OpenTrace({kExportCommand, options.run, version, options.more, {.keep = false}});
    stopped = EndingSignals::stop()->load();
    if (input.status != kSuccess && !stopped) return kUsage;
    if (!stopped) {
      check = trace_check::CheckTrace(input.database.get());
      stopped = input.database->stopped() || EndingSignals::stop()->load();
    }
    if (!stopped && !input.database->ok()) {
      Complain(kExportCommand, Escape(options.run) + ": cannot be checked: " + Escape(input.database->error().text));
      return kUsage;
    }
    for (const auto& spool : input.built.unreadable) check.unreadable.push_back(spool.why);
  }
  if (stopped) return EndingSignals::EndStopped(kExportCommand);
  const int printed =
      Print(kExportCommand, options.json ? trace_check::CheckJson(check) : trace_check::FormatCheck(check));
  return printed != kSuccess ? printed : check.whole() ? kSuccess : kFailed;
}

}  // namespace

int Export(const ExportOptions& options, const std::string& version) {
  const bool others = options.chrome || options.perfetto || options.allocations;
  const bool any = options.sqlite || others;
  if (options.check && !any && !options.rank) return CheckRun(options, version);
  if (options.check) {
    Complain(kExportCommand, "--check makes no file, and looks at all ranks: name no format beside it, and no --rank");
    return kUsage;
  }
  if (!any) {
    std::fputs(kFormats, stderr);
    return kUsage;
  }
  if (options.rank && !others) {
    Complain(kExportCommand, "--rank is for --chrome and --perfetto and --allocations; a database has all processes");
    return kUsage;
  }
  return MakeExports(options, version);
}

}  // namespace slipstream::cli
