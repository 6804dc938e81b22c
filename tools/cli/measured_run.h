// Runs a command and takes its time, with nothing of it on the terminal.
//
// The command gets a process group of its own, no input, and files without names for its output: nothing is left
// behind, whatever becomes of this process. Processes of the group that outlive the command would disturb the next run:
// they get kGraceSeconds to end, and are then killed.
//
// Signals: SIGINT, SIGTERM, SIGHUP and SIGQUIT end the run. The group gets the signal, and SIGKILL three seconds later
// or with the second signal. SIGTSTP stops the group and this process; the run's time is then invalid (`disturbed`).
// The terminal's signals do not reach the group by themselves: it is not in the foreground.
//
// Threading: call from a process with one thread; it changes the signal mask and puts it back, and is told of the
// processes whose parents have ended (PR_SET_CHILD_SUBREAPER), for as long as the process lives.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace slipstream::cli {

inline constexpr double kGraceSeconds = 10;
inline constexpr size_t kMostRead = size_t{256} << 20;  // bytes of either output of a run

// A file without a name, in TMPDIR or /tmp.
class OutputFile {
 public:
  OutputFile();
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  int fd() const { return fd_; }        // negative: it could not be made
  int error() const { return error_; }  // why
  // Up to kMostRead bytes; *more: there is more.
  std::string Read(bool* more) const;

 private:
  int fd_ = -1;
  int error_ = 0;
};

struct MeasuredRun {
  bool started = false;
  int start_errno = 0;
  int wait_status = 0;
  double seconds = 0;  // from before the fork until the command was seen to have ended
  int signal = 0;      // that this process got, and that ended the run; 0: none
  bool timed_out = false;
  bool disturbed = false;         // stopped in between
  bool wanted_terminal = false;   // it was stopped because it wanted to read or set the terminal, and killed
  bool left_processes = false;    // that had to be killed
  bool printed_too_much = false;  // `output` or `errors` is not all of it
  std::string output;
  std::string errors;
};

struct MeasureOptions {
  double limit_seconds = 0;  // killed then; 0: never
  // Called now and then while the command runs, with the seconds that it has had; empty: it is left alone.
  std::function<void(double seconds)> tick{};
};

MeasuredRun Measure(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const MeasureOptions& options);

// How it ended, for people: "exit status 3", "killed by SIGSEGV (Segmentation fault)"; empty: it succeeded, and its
// time is good.
std::string TroubleOf(const MeasuredRun& run, const MeasureOptions& options);

}  // namespace slipstream::cli
