#include "tools/cli/report_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "policy/text.h"
#include "tools/cli/advise_command.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/screen.h"
#include "tools/cli/trace_build.h"
#include "tools/text/columns.h"
#include "tools/text/shell.h"
#include "tools/trace/check/counter_check.h"
#include "tools/trace/db/new_file.h"
#include "tools/trace/report/html.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/overview.h"
#include "tools/trace/report/plotly.h"
#include "tools/trace/report/report.h"
#include "tools/trace/report/text.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::cli {
namespace {

using policy::Escape;

constexpr char kReportCommand[] = "report";

bool IsSameFile(const struct stat& a, const std::string& path) {
  struct stat b {};
  return stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Before the work, so that nobody waits for it in vain. Empty: the page may be made there.
std::string WhyNoPage(const ReportCommandOptions& options) {
  struct stat place {};
  if (lstat(options.html->c_str(), &place) != 0) return "";
  std::vector<std::string> read = options.more;
  read.push_back(options.run);
  for (size_t parts = read.size(); parts > 0; --parts) {
    std::string ignored;
    for (std::string& spool : tracer::ListSpools(read[parts - 1], &ignored)) read.push_back(std::move(spool));
  }
  for (const std::string& path : read) {
    if (IsSameFile(place, path)) return "is what the report is made of, and would be lost. Name another file.";
  }
  struct stat behind {};
  if (stat(options.html->c_str(), &behind) == 0 && !S_ISREG(behind.st_mode)) return "is no file. Name another one.";
  return options.force ? "" : "exists; --force replaces it";
}

// 0, or an errno.
int Write(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return errno;
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = written ? 0 : errno != 0 ? errno : EIO;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  return error;
}

bool WritePage(const ReportCommandOptions& options, const report::Report& report,
               const std::vector<report::PageFinding>& findings) {
  trace_db::NewFile file(*options.html);
  int error = file.Create();
  if (error == 0) error = Write(file.path(), report::ReportHtml(report, report::PlotlyJs(), findings));
  if (error == 0) error = file.Publish(options.force);
  if (error == 0) return true;
  Complain(kReportCommand, Escape(*options.html) + ": cannot be made: " + std::strerror(error) +
                               "\n  Name a file in a directory that can be written and has room.");
  return false;
}

// Lines that were made for no width.
std::string Wrapped(const std::string& lines, size_t columns) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    text += text::Wrapped(std::string_view(lines).substr(at, end - at), columns, 0, 6);
    at = end + 1;
  }
  return text;
}

// What a reader of the overview wants next, to be pasted. A line that would break names no run.
std::string WhatNext(const ReportCommandOptions& options, const report::Report& report, size_t columns) {
  const std::string more = "more: --full";
  if (!report.has_own_tables) return more + "\n";
  std::vector<std::string> words = {"slipstream", "advise", options.run};
  words.insert(words.end(), options.more.begin(), options.more.end());
  const std::string next = more + "; next: " + text::InShell(words);
  return text::Columns(next) <= columns ? next + "\n" : more + "; next: slipstream advise, of the same run\n";
}

std::string Screen(const ReportCommandOptions& options, const report::Report& report, const std::string& warnings) {
  const text::Page page = OutputPage();
  std::string text = options.full ? report::FormatReport(report, page) : report::FormatOverview(report, page);
  text += Wrapped(warnings, page.columns);
  if (!options.full) text += WhatNext(options, report, page.columns);
  if (options.html) text += "page: " + Escape(*options.html) + "\n";
  return text;
}

}  // namespace

int Report(const ReportCommandOptions& options, const std::string& version) {
  if (options.html) {
    if (const std::string why = WhyNoPage(options); !why.empty()) {
      Complain(kReportCommand, Escape(*options.html) + ": " + why);
      return kFailed;
    }
  }
  report::Report report;
  std::vector<report::PageFinding> findings;
  std::string warnings;  // where the records of a process are fewer or more than it counted
  const auto ask = [&](const TraceInput& input) {
    {
      ProgressLine line(kReportCommand);
      report =
          report::MakeReport(input.database.get(), {.timeline = options.html.has_value(), .progress = line.Calls()});
    }
    if (options.html) findings = FindingsForPage(kReportCommand, input, report);
  };
  const auto answer = [&](const TraceInput& input) -> int {
    for (const auto& spool : input.built.unreadable) report.unreadable.push_back(spool.why);
    if (report.processes.empty()) {
      Complain(kReportCommand, Escape(options.run) +
                                   ": holds no CUDA calls and no kernels\n  Name a recorded run, or a database that "
                                   "`slipstream export --sqlite` or Nsight Systems made.");
      return kFailed;
    }
    if (options.html && !WritePage(options, report, findings)) return kFailed;
    warnings = trace_check::FormatCounterWarnings(input.database.get());
    if (!input.database->ok()) warnings.clear();
    return input.partial() ? kPartial : kSuccess;
  };
  const int status = AnswerFromTrace({kReportCommand, options.run, version, options.more, options.input}, ask, answer);
  if (status == kFailed) return status;
  if (options.json) std::fputs(warnings.c_str(), stderr);
  const std::string text =
      options.json ? report::ReportJson(report, status == kPartial) : Screen(options, report, warnings);
  const int printed = Print(kReportCommand, text);
  return printed != kSuccess ? printed : status;
}

}  // namespace slipstream::cli
