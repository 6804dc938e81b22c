// Watches a run: reads the counter files of its processes, reads on in their traces, and says what happened since the
// last reading.
//
// It only reads, and locks nothing: the program does not notice. Files of users other than the owner and root are
// refused. Files that vanish or are damaged are no reason to stop.
//
// Threading: an object belongs to one thread.
// Errors: in View::problems.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/top/spool_tail.h"
#include "tools/trace/top/view.h"
#include "tools/trace/top/watch.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::top {

struct RunWatchOptions {
  std::vector<std::string> directories;
  // Whose files are read, besides root's. Nothing: this user's.
  std::optional<uid_t> owner{};
  // Of a process of this host.
  std::function<bool(int32_t pid)> is_alive;
  // Whether a process that lives belongs to the run of this directory.
  std::function<bool(const std::string& directory)> is_in_use;
};

class RunWatch : public Watch {
 public:
  explicit RunWatch(RunWatchOptions options);

  // A reading of all files at `now_ns` of CLOCK_MONOTONIC; of traces as much as ReadOn takes in one go.
  void Read(uint64_t now_ns) override;
  // Reads on in traces. True: up to the end of all of them.
  bool ReadOn() override;

  // What happened between the last two readings, and in the last seconds of the traces.
  View Look(uint64_t now_ns) override;

 private:
  // Closed with it.
  struct File {
    explicit File(int number) : fd(number) {}
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const int fd;
  };
  struct Process {
    std::string directory;
    int32_t pid = 0;
    uint64_t start_unix_ns = 0;
    bool alive = true;
    bool is_here = true;  // on this host
    std::string counter_path;
    std::unique_ptr<File> counter_file;  // held open: the run's directory is removed at its end
    std::optional<tracer::ProcessCounts> before;
    std::optional<tracer::ProcessCounts> now;
    uint64_t before_ns = 0;
    uint64_t now_ns = 0;
    std::string spool_path;
    std::unique_ptr<SpoolTail> tail;
  };

  void ReadDirectory(const std::string& directory);
  void OpenCounters(const std::string& directory, const std::string& path);
  void ReadCounters(Process* process, uint64_t now_ns);
  void OpenTail(const std::string& directory, const std::string& path);
  void FindEnded();
  // The process with this number that began nearest to then and has no file of that kind yet; a new one if there is
  // none.
  Process& ProcessFor(const std::string& directory, int32_t pid, uint64_t start_unix_ns, bool counters);
  bool IsOurs(const std::string& path, const struct stat& facts, bool directory);
  // Null: it is gone, or not for us.
  std::unique_ptr<File> OpenOurs(const std::string& path);
  void Complain(const std::string& problem);
  ProcessView LookAt(const Process& process, uint64_t now_ns) const;

  const RunWatchOptions options_;
  const std::string host_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<std::string, Process*> by_path_;
  std::map<std::string, std::unique_ptr<SpoolTail>> nameless_;  // by path: those that do not say yet whose they are
  std::vector<std::string> problems_;                           // of the last reading
  bool ended_ = false;
};

}  // namespace slipstream::top
