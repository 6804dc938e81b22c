// Watches all runs of the machine: finds those that begin, and forgets those that have ended some seconds later.
//
// A process that has ended stays for kEndedShownNs, marked; one that had ended when its run was found is not shown. A
// run whose processes made no CUDA call yet is shown as the process that the others come from.
//
// It reads what the system says of processes (proc_files.h) and what RunWatch reads, and nothing else.
//
// Threading: an object belongs to one thread.
// Errors: in View::problems.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/trace/top/find_run.h"
#include "tools/trace/top/proc_files.h"
#include "tools/trace/top/run_watch.h"
#include "tools/trace/top/view.h"
#include "tools/trace/top/watch.h"

namespace slipstream::top {

class MachineWatch : public Watch {
 public:
  static constexpr uint64_t kEndedShownNs = 10'000'000'000;
  // Between two looks at all processes of the machine.
  static constexpr uint64_t kFindNs = 1'000'000'000;

  // `for_everybody`: this user is root, and files of whoever the processes belong to are read.
  MachineWatch(ProcFiles processes, bool for_everybody);

  void Read(uint64_t now_ns) override;
  bool ReadOn() override;
  View Look(uint64_t now_ns) override;

 private:
  using Who = std::pair<int32_t, uint64_t>;  // number and beginning of a process
  struct Run {
    RunHere facts;
    std::unique_ptr<RunWatch> watch;
    std::string user;
    std::map<Who, std::string> commands;           // of those that lived when they were looked at first
    std::map<Who, std::optional<uint64_t>> ended;  // since when; nothing: it lives
    bool is_here = true;                           // a process that lives has it
    std::optional<uint64_t> ended_ns;
  };

  void Find(uint64_t now_ns);
  void AddProcesses(Run* run, uint64_t now_ns, View* view);
  ProcessView First(const Run& run) const;

  const ProcFiles processes_;
  const bool for_everybody_;
  std::vector<std::unique_ptr<Run>> runs_;  // in the order in which they were found
  std::vector<int32_t> uncounted_;
  std::optional<uint64_t> found_ns_;
};

}  // namespace slipstream::top
