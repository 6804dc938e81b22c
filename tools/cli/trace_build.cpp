#include "tools/cli/trace_build.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/screen.h"
#include "tools/text/text.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using text::HumanBytes;
using text::WithThousands;
using trace_db::BuildProblem;
using trace_db::BuildProgress;

std::atomic<bool> g_stop{false};
std::atomic<int> g_signal{0};

void OnSignal(int signal) {
  g_signal.store(signal);
  g_stop.store(true);
}

}  // namespace

EndingSignals::EndingSignals() {
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

EndingSignals::~EndingSignals() {
  for (size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &before_[i], nullptr);
  sigaction(SIGXFSZ, &before_limit_, nullptr);
}

const std::atomic<bool>* EndingSignals::stop() { return &g_stop; }

void EndingSignals::EndAsAsked() { raise(g_signal.load()); }

int EndingSignals::EndStopped(const std::string& command, const std::string& text) {
  Complain(command, text);
  EndAsAsked();
  return kFailed;
}

ProgressLine::ProgressLine(std::string name) : name_(std::move(name)), shown_(ErrorsTakeEscapes()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Show(const std::string& text, bool is_new) {
  constexpr uint64_t kPeriodNs = 100'000'000;
  const uint64_t now = tracer::NowNs();
  if (!shown_ || (drawn_ && !is_new && now - last_ns_ < kPeriodNs)) return;
  last_ns_ = now;
  drawn_ = true;
  std::fputs(("\r" + name_ + ": " + text + "\033[K").c_str(), stderr);
  std::fflush(stderr);
}

void ProgressLine::Show(const std::string& text, uint64_t done, uint64_t all) {
  if (shown_) Show(text + left_.At(done, all, tracer::NowNs()));
}

void ProgressLine::Show(const BuildProgress& progress) {
  const bool is_new = progress.phase != phase_;
  phase_ = progress.phase;
  std::string text;
  if (phase_ == BuildProgress::Phase::kIndexing) {
    text = "making indices";
  } else {
    const uint64_t percent = progress.total_bytes == 0 ? 100 : progress.done_bytes * 100 / progress.total_bytes;
    text = phase_ == BuildProgress::Phase::kReading ? "reading " : "writing ";
    text += std::to_string(percent) + " % of " + HumanBytes(progress.total_bytes);
    if (progress.records != 0) text += ", " + WithThousands(progress.records) + " records";
    text += left_.At(progress.done_bytes, progress.total_bytes, tracer::NowNs());
  }
  Show(text, is_new);
}

std::function<void(uint64_t, uint64_t)> ProgressLine::Calls() {
  return [this](uint64_t calls, uint64_t all) {
    Show("reading " + std::to_string(all == 0 ? 100 : calls * 100 / all) + " % of " + WithThousands(all) + " calls",
         calls, all);
  };
}

void Complain(const std::string& command, const std::string& text) {
  std::fprintf(stderr, "slipstream %s: %s\n", command.c_str(), text.c_str());
}

void ComplainAbout(const std::string& command, const trace_db::BuildOptions& options,
                   const trace_db::BuildResult& result) {
  const std::string run = Escape(options.run);
  const std::string file = Escape(options.database);
  const std::string what = Escape(result.what);
  switch (result.problem) {
    case BuildProblem::kNone:
    case BuildProblem::kStopped:
    case BuildProblem::kRefused:
      break;
    case BuildProblem::kNoRun:
      Complain(command,
               what + "\n  Name the directory of a recorded run; `slipstream run --record -- COMMAND` makes one.");
      break;
    case BuildProblem::kNoSpools:
      Complain(command,
               (result.what.empty() ? run : Escape(result.what)) +
                   ": no .spool file in it\n  `slipstream run --record -- COMMAND` records a run and says where.");
      break;
    case BuildProblem::kNothingReadable:
      Complain(command, run + ": nothing in it can be read");
      for (const auto& spool : result.unreadable) std::fprintf(stderr, "  %s\n", Escape(spool.why).c_str());
      break;
    case BuildProblem::kExists:
      Complain(command, file + ": exists; --force replaces it");
      break;
    case BuildProblem::kIsSpool:
      Complain(command, file + ": is a spool file of this run, and would be lost. Name another file.");
      break;
    case BuildProblem::kPlace:
      Complain(command,
               file + ": cannot be made: " + what + "\n  Name a file in a directory that is there and can be written.");
      break;
    case BuildProblem::kNoRoom:
      Complain(command, file + ": no room: " + what + Escape(RoomFor(options.database)) +
                            "\n  Nothing is left of it. Make room (a database is up to 2.6 times as large as its "
                            "spools) or name a file "
                            "in another place.");
      break;
    case BuildProblem::kWriting:
      Complain(command, file + ": cannot be written: " + what + "\n  Nothing is left of it.");
      break;
  }
}

std::string RoomFor(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  struct statvfs facts {};
  if (statvfs(folder.empty() ? "." : folder.c_str(), &facts) != 0) return "";
  return "; " + HumanBytes(facts.f_bavail * facts.f_frsize) + " are free there";
}

int Print(const std::string& command, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kSuccess;
  Complain(command, std::string("standard output: ") + std::strerror(errno));
  return kFailed;
}

}  // namespace slipstream::cli
