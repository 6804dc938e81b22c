// The state of a run: written into the run's directory before the command begins, and read by the process that ends it
// (run_end.h).
//
// Threading: pure functions that read and write files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/layers.h"

namespace slipstream::cli {

inline constexpr char kRunStateName[] = "run.json";

// Where standard error led when the run began. The summary may go only there: the same number may later be a file of
// data.
struct ErrorOutput {
  bool open = false;
  uint64_t device = 0;  // st_dev, st_ino, st_rdev
  uint64_t inode = 0;
  uint64_t special = 0;
  std::string path{};  // of a file or terminal, by which another process finds it; empty: it has none
};

struct RunState {
  std::string command{};       // base name only: arguments may hold secrets
  int64_t root = 0;            // the process that the command is
  uint64_t root_started = 0;   // policy::RunRoot
  uint64_t pid_namespace = 0;  // in which it has that number; inode, 0: not known
  std::string boot{};          // of the machine, as random(4) names it; empty: not known
  bool watched = false;        // a watcher holds the directory's lock as long as the root lives
  uint64_t start_ns = 0;       // CLOCK_MONOTONIC
  int64_t start_unix_ns = 0;
  bool quiet = false;
  bool report = false;           // what the trace says is printed at the end
  bool counters = false;         // the policy asks for them
  bool trace = false;            // and for a trace, which stays
  bool children_chosen = false;  // the policy keeps the preload out of some programs
  std::string summary_file{};    // absolute; empty: none is asked for
  std::string saved_in{};        // where summaries are kept (saved_summary.h); empty: nowhere
  ErrorOutput error_output{};
  std::vector<policy::LayerFile> policy_files{};
  std::string version{};         // of slipstream
  bool enabled = true;           // the policy says so
  std::string site_directory{};  // of run.summaries; empty: none
  bool site_for_group = false;   // its files may be read by their group
};

// Why it could not be written; empty: it is there.
std::string WriteRunState(const std::string& directory, const RunState& state);

// Nothing where there is no state, or the text is none.
std::optional<RunState> ReadRunState(const std::string& directory);
std::optional<RunState> ParseRunState(const std::string& text);

ErrorOutput LookAtErrorOutput();
// A descriptor of standard error as it was, which an exec closes; -1: it cannot be had.
int OpenErrorOutput(const ErrorOutput& output);

// When the process started, in clock ticks since boot, the namespace of our own numbers, and what names the machine
// since it started; 0 or empty where /proc does not say.
uint64_t StartOf(pid_t pid);
uint64_t PidNamespace();
std::string Boot();
// Empty: it cannot be read.
std::string WholeFile(const std::string& path);

// Whether the root may still be alive. It is not known for a root in another PID namespace, or on another machine that
// shares the folder.
enum class RootIs : uint8_t { kAlive, kGone, kUnknown };
RootIs LookForRoot(const RunState& state);

}  // namespace slipstream::cli
