#include "tools/cli/run_end.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "policy/number.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/install.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/run_record.h"
#include "tools/cli/run_state.h"
#include "tools/cli/saved_summary.h"
#include "tools/cli/still_running.h"
#include "tools/cli/summary.h"
#include "tools/cli/summary_file.h"
#include "tools/cli/trace_line.h"
#include "tools/text/text.h"
#include "tracer/base/clock.h"
#include "tracer/counters/counter_reader.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::cli {
namespace {

using text::ForTerminal;

// A reader that does not read must not keep a command from ending that has written nothing itself.
constexpr int kPatienceMs = 5000;
constexpr size_t kMostState = size_t{1} << 20;

// The state file, open and locked.
class LockedState {
 public:
  LockedState(const std::string& directory, bool wait) {
    const std::string path = directory + "/" + kRunStateName;
    file_ = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat facts {};
    if (file_ < 0) return;
    int locked = 0;
    do {
      locked = flock(file_, wait ? LOCK_EX : LOCK_EX | LOCK_NB);
    } while (locked != 0 && errno == EINTR);
    // Whoever had the lock before may have ended the run.
    ours_ = locked == 0 && fstat(file_, &facts) == 0 && facts.st_nlink != 0 && facts.st_uid == geteuid();
  }
  ~LockedState() {
    if (file_ >= 0) close(file_);
  }
  LockedState(const LockedState&) = delete;
  LockedState& operator=(const LockedState&) = delete;

  bool ours() const { return ours_; }

  std::string Text() const {
    std::string text;
    char part[4096];
    ssize_t bytes = 0;
    while (text.size() < kMostState && (bytes = read(file_, part, sizeof(part))) > 0) {
      text.append(part, static_cast<size_t>(bytes));
    }
    return text;
  }

 private:
  int file_ = -1;
  bool ours_ = false;
};

// Nothing more is written once somebody does not take it. False: then, or where nothing can be written.
bool Print(const ErrorOutput& output, std::string_view text) {
  if (text.empty()) return true;
  const int file = OpenErrorOutput(output);
  if (file < 0) return false;
  while (!text.empty()) {
    pollfd ready = {.fd = file, .events = POLLOUT, .revents = 0};
    const int polled = poll(&ready, 1, kPatienceMs);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0 || (ready.revents & POLLOUT) == 0) break;
    // As much as a pipe that is ready takes at once.
    const ssize_t written = write(file, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    text.remove_prefix(static_cast<size_t>(written));
  }
  close(file);
  return text.empty();
}

RunSummary SumUp(const std::string& directory, const RunState& state, const RunEnding& ending) {
  RunSummary summary;
  summary.command = state.command;
  summary.exit_status = ending.exit_status;
  if (ending.now) summary.wall_ns = tracer::NowNs() - state.start_ns;
  summary.counters_off = !state.counters;
  summary.children_chosen = state.children_chosen;
  summary.policy_files = state.policy_files;
  summary.processes = tracer::ReadRunDirectory(directory, &summary.problems);
  // Where a process could not count, nothing says that the others are all there were.
  const bool counted = state.counters && summary.problems.empty();
  if (state.trace) summary.trace = SumUpTrace(directory, summary.processes, counted, state.root);
  for (const tracer::ProcessCounts& process : summary.processes) {
    if (process.pid != state.root && StillRuns(process)) summary.still_running.insert(process.pid);
  }
  return summary;
}

std::string Message(const std::string& text) { return "slipstream: " + policy::Escape(text) + "\n"; }

// What is printed at the end, and what is kept to be printed again.
struct Texts {
  std::string printed;
  std::string kept;
};

Texts TextsOf(const std::string& directory, const RunState& state, const RunSummary& summary) {
  Texts texts;
  std::string error;
  if (!state.trace && !tracer::ListSpools(directory, &error).empty()) {
    texts.printed = texts.kept = Message(
        "a process of the command recorded a trace that is not kept: only this command's own policy has it kept");
  }
  texts.kept += ForTerminal(FormatSummary(summary));
  if (!state.quiet) texts.printed += ForTerminal(FormatSummary(summary));
  if (!summary.trace) return texts;
  const std::string trace = ForTerminal(FormatTrace(*summary.trace));
  const std::string hint = state.report ? "" : ForTerminal(FormatHint(*summary.trace));
  texts.kept += trace + hint;
  if (!state.quiet) {
    texts.printed += trace + hint;
  } else if (!summary.trace->troubles.empty()) {  // one that lacks something never goes without a word
    texts.printed += trace;
  }
  return texts;
}

[[noreturn]] void BecomeReport(const std::string& directory, int answer, int errors) {
  const std::string command = OwnExecutable();
  winsize size{};
  // As wide as where it will be printed.
  const bool terminal = isatty(errors) != 0;
  if (terminal && ioctl(errors, TIOCGWINSZ, &size) == 0) {
    setenv("COLUMNS", std::to_string(size.ws_col).c_str(), /*overwrite=*/0);
  }
  dup2(answer, STDOUT_FILENO);
  // There it says how far it is. Elsewhere nobody may be reading.
  dup2(terminal ? errors : answer, STDERR_FILENO);
  std::array<const char*, 4> words = {command.c_str(), "report", directory.c_str(), nullptr};
  execv(command.c_str(), const_cast<char* const*>(words.data()));
  _exit(kNotExecutable);
}

// To where the summary goes. Made by a process of its own: whatever becomes of it, the run has ended.
void PrintReport(const std::string& directory, const ErrorOutput& output) {
  int answer[2];
  const int errors = OpenErrorOutput(output);
  if (errors < 0) return;
  if (pipe2(answer, O_CLOEXEC) != 0) {
    close(errors);
    return;
  }
  const pid_t child = fork();
  if (child == 0) BecomeReport(directory, answer[1], errors);
  close(errors);
  close(answer[1]);
  std::string text;
  char part[4096];
  for (ssize_t got = 1; child > 0 && got != 0;) {
    got = read(answer[0], part, sizeof(part));
    if (got < 0 && errno != EINTR) break;
    if (got > 0) text.append(part, static_cast<size_t>(got));
  }
  close(answer[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Print(output, text);
}

// The root is alive, so nobody else has ended its run: the command has removed the directory, or somebody who cleans
// up. Where standard error led then is not known any more; a file could be one of data by now.
void SayThatItIsGone(const std::string& directory) {
  struct stat facts {};
  if (access(directory.c_str(), F_OK) == 0 || errno != ENOENT) return;
  if (fstat(STDERR_FILENO, &facts) != 0 || S_ISREG(facts.st_mode)) return;
  const bool trace = std::filesystem::path(directory).filename().string().starts_with(kTracePrefix);
  const std::string text =
      Message(std::string(trace ? "no trace: " : "no summary: ") + "the directory of this run is gone: " + directory);
  Print({.open = true, .device = facts.st_dev, .inode = facts.st_ino, .special = facts.st_rdev}, text);
}

}  // namespace

bool EndRun(const std::string& directory, const RunEnding& ending) {
  const LockedState locked(directory, ending.wait);
  if (!locked.ours()) return false;
  const std::optional<RunState> state = ParseRunState(locked.Text());
  bool report = false;  // there is something to report, and somebody who takes it
  if (state) {
    const RunSummary summary = SumUp(directory, *state, ending);
    Texts texts = TextsOf(directory, *state, summary);
    const std::string json = SummaryJson(summary);
    if (!state->summary_file.empty()) {
      if (const std::string why = WriteSummaryFile(state->summary_file, json); !why.empty()) {
        texts.printed = Message("cannot write the summary to " + state->summary_file + ": " + why) + texts.printed;
      }
    }
    if (const std::string why = WriteRunRecord(*state, summary); !why.empty()) {
      texts.printed =
          Message("no summary of this run in " + state->site_directory + " (run.summaries): " + why) + texts.printed;
    }
    report = ending.print && Print(state->error_output, texts.printed) && state->report && summary.trace &&
             HasCalls(*summary.trace);
    SaveSummary(state->saved_in, {.start_unix_ns = state->start_unix_ns,
                                  .root = state->root,
                                  .trace = state->trace ? directory : "",
                                  .text = texts.kept,
                                  .json = json});
  }
  RemoveRun(directory, state && state->trace);
  if (report) PrintReport(directory, state->error_output);
  return true;
}

int EndRunOfRoot(const std::string& directory, const std::string& exit_status) {
  const auto status = policy::NumberIn<int>(exit_status);
  if (!status) return kUsage;
  if (EndRun(directory, {.exit_status = *status})) return kSuccess;
  SayThatItIsGone(directory);
  return kFailed;
}

}  // namespace slipstream::cli
