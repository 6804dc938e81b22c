#include "tools/cli/export.h"

#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/text.h"
#include "tracer/clock.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using trace_db::BuildProblem;
using trace_db::BuildProgress;
using trace_db::BuildResult;

constexpr char kFormats[] =
    "slipstream export: no format. There is:\n"
    "  --sqlite FILE   an SQLite database in the table layout of Nsight Systems' export (docs/trace-database.md)\n";

std::atomic<bool> g_stop{false};
std::atomic<int> g_signal{0};

void OnSignal(int signal) {
  g_signal.store(signal);
  g_stop.store(true);
}

// While it lives, signals that would end the process set g_stop, and a file that is too large is an error. What the
// caller had ignored (nohup) stays ignored.
class Signals {
 public:
  Signals() {
    for (size_t i = 0; i < kEnding.size(); ++i) {
      sigaction(kEnding[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;
      struct sigaction ours {};
      ours.sa_handler = OnSignal;
      sigaction(kEnding[i], &ours, nullptr);
    }
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &ignore, &before_limit_);
  }
  ~Signals() {
    for (size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &before_[i], nullptr);
    sigaction(SIGXFSZ, &before_limit_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static constexpr std::array<int, 3> kEnding = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
  struct sigaction before_limit_ {};
};

// One line on a terminal, written over and over, and gone at the end.
class ProgressLine {
 public:
  ProgressLine() : shown_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const BuildProgress& progress) {
    constexpr uint64_t kPeriodNs = 100'000'000;
    const uint64_t now = tracer::NowNs();
    const bool is_new = !drawn_ || progress.phase != phase_;
    if (!shown_ || (!is_new && now - last_ns_ < kPeriodNs)) return;
    last_ns_ = now;
    phase_ = progress.phase;
    drawn_ = true;
    std::string text = "\rexport: ";
    if (phase_ == BuildProgress::Phase::kIndexing) {
      text += "making indices";
    } else {
      const uint64_t percent = progress.total_bytes == 0 ? 100 : progress.done_bytes * 100 / progress.total_bytes;
      text += phase_ == BuildProgress::Phase::kReading ? "reading " : "writing ";
      text += std::to_string(percent) + " % of " + HumanBytes(progress.total_bytes);
      if (progress.records != 0) text += ", " + WithThousands(progress.records) + " records";
    }
    std::fputs((text + "\033[K").c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  const bool shown_;
  bool drawn_ = false;
  uint64_t last_ns_ = 0;
  BuildProgress::Phase phase_ = BuildProgress::Phase::kReading;
};

// How much more fits where the file would be; empty where nobody knows.
std::string RoomFor(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  struct statvfs facts {};
  if (statvfs(folder.empty() ? "." : folder.c_str(), &facts) != 0) return "";
  return "; " + HumanBytes(facts.f_bavail * facts.f_frsize) + " are free there";
}

void Complain(const std::string& text) { std::fprintf(stderr, "slipstream export: %s\n", text.c_str()); }

// What happened, where, and what to do.
void ComplainAbout(const ExportOptions& options, const BuildResult& result) {
  const std::string run = Escape(options.run);
  const std::string file = Escape(*options.sqlite);
  const std::string what = Escape(result.what);
  switch (result.problem) {
    case BuildProblem::kNone:
    case BuildProblem::kStopped:
      break;
    case BuildProblem::kNoRun:
      Complain(what + "\n  Name the directory of a recorded run; `slipstream run --record -- COMMAND` makes one.");
      break;
    case BuildProblem::kNoSpools:
      Complain(run + ": no .spool file in it\n  `slipstream run --record -- COMMAND` records a run and says where.");
      break;
    case BuildProblem::kNothingReadable:
      Complain(run + ": nothing in it can be read");
      for (const auto& spool : result.unreadable) std::fprintf(stderr, "  %s\n", Escape(spool.why).c_str());
      break;
    case BuildProblem::kExists:
      Complain(file + ": exists; --force replaces it");
      break;
    case BuildProblem::kIsSpool:
      Complain(file + ": is a spool file of this run, and would be lost. Name another file.");
      break;
    case BuildProblem::kPlace:
      Complain(file + ": cannot be made: " + what + "\n  Name a file in a directory that is there and can be written.");
      break;
    case BuildProblem::kNoRoom:
      Complain(file + ": no room: " + what + Escape(RoomFor(*options.sqlite)) +
               "\n  Nothing is left of it. Make room (a database is up to twice as large as its spools) or name a file "
               "in another place.");
      break;
    case BuildProblem::kWriting:
      Complain(file + ": cannot be written: " + what + "\n  Nothing is left of it.");
      break;
  }
}

int Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kSuccess;
  Complain(std::string("standard output: ") + std::strerror(errno));
  return kFailed;
}

}  // namespace

int Export(const ExportOptions& options, const std::string& version) {
  if (!options.sqlite) {
    std::fputs(kFormats, stderr);
    return kUsage;
  }
  BuildResult result;
  {
    const Signals signals;
    ProgressLine line;
    result = trace_db::BuildTraceDatabase({.run = options.run,
                                           .database = *options.sqlite,
                                           .replace = options.force,
                                           .product_version = version,
                                           .stop = &g_stop,
                                           .progress = [&](const BuildProgress& progress) { line.Show(progress); }});
  }
  if (result.problem == BuildProblem::kStopped) {
    Complain("stopped; nothing is left of " + Escape(*options.sqlite));
    raise(g_signal.load());
    return kFailed;  // whoever blocks the signal
  }
  if (result.problem != BuildProblem::kNone) {
    ComplainAbout(options, result);
    return kFailed;
  }
  const int printed = Print(options.json ? ExportJson(options, result) : FormatExport(options, result));
  return printed != kSuccess ? printed : result.partial() ? kPartial : kSuccess;
}

}  // namespace slipstream::cli
