// The directory that the processes of one run leave their counter files in, and their traces.
#pragma once

#include <string>
#include <vector>

namespace slipstream::cli {

// What the name of a trace's directory begins with.
inline constexpr char kTracePrefix[] = "slipstream-trace-";

// Made 0700 under an unpredictable name, in memory where possible (/dev/shm, else TMPDIR, else /tmp): the files are
// written by stores to mapped pages. This process, or the watcher of a run, holds it by flock. If no process holds it,
// and its run has no root that lives or may live, the next run of the same user ends it (run_end.h). Not copyable;
// removed by the destructor or by Remove; if the process becomes the command, by the run's end.
//
// A run that leaves a trace has its directory where its user looks for it, and the trace stays in it.
class RunDirectory {
 public:
  RunDirectory() = default;
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  ~RunDirectory();

  // False, with *error filled, when no place can be written.
  bool Create(const std::vector<std::string>& places, std::string* error);

  // The same for a trace: "slipstream-trace-<local time>-XXXXXX", with its whole path.
  bool CreateForTrace(const std::vector<std::string>& places, std::string* error);

  // The same with a name that the user chose: it is made, or is there and empty.
  bool CreateNamed(const std::string& path, std::string* error);

  // Removes it now, with all its files, except those of a trace; the directory stays while there are any.
  void Remove();

  // Empty before Create and after Remove.
  const std::string& path() const { return path_; }
  // A descriptor that holds its lock, which an exec closes.
  int lock() const { return lock_; }

 private:
  std::string path_;
  int lock_ = -1;
  bool keeps_trace_ = false;
};

// Removes a run's directory with all its files, except those of a trace that is kept; the directory stays while there
// are any.
void RemoveRun(const std::string& path, bool keeps_trace);

// Ends the runs that are not ended because their root and their watcher were killed: those of the places below, so also
// one that recorded a trace where this process is. A trace stays.
void EndAbandonedRuns(const std::string& tmpdir);

// /dev/shm, the value of TMPDIR, /tmp.
std::vector<std::string> RunDirectoryPlaces(const std::string& tmpdir);
// The working directory, the value of TMPDIR, /tmp.
std::vector<std::string> TraceDirectoryPlaces(const std::string& tmpdir);

}  // namespace slipstream::cli
