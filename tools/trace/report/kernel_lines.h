// Adds up the time of a device's kernels by the line of the program whose call launched them.
//
// Memory: a number for each line and for each kernel's name at it.
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/device_lines.h"
#include "tools/trace/report/report.h"
#include "tools/trace/run/names.h"

namespace slipstream::report {

// All kernels in the order of their starts. Columns: 0 start, 1 end, 2 deviceId, 3 globalPid, 4 and 5 the ids of their
// short and their demangled name, 6 to 8 grid, 9 to 11 block, 12 registers, 13 and 14 shared memory, then LaunchOf's.
std::string KernelsSql(trace_db::DatabaseReader* reader);

// The call that launched a kernel.
struct Launch {
  bool known = false;  // else it is not in the trace
  int64_t site = 0;    // siteId; 0: no line is known
  bool of_step_thread = true;
};
// `row`: of KernelsSql; `process`: whose kernel it is.
Launch LaunchOf(const trace_db::Question& row, const ProcessReport& process);

class KernelLines {
 public:
  // `name`: the id of the kernel's short name. `time`: its duration.
  void Add(const Launch& launch, int64_t name, int64_t time);
  // By time, the most first. Empty where the database does not say which call launched what.
  std::vector<KernelLineReport> Finish(trace_db::DatabaseReader* reader, run::Names* names) const;

 private:
  struct Sum {
    uint64_t launches = 0;
    int64_t time = 0;
    std::unordered_map<int64_t, int64_t> names;  // time by name
  };
  std::map<std::tuple<bool, int64_t, bool>, Sum> lines_;  // as in Launch
};

}  // namespace slipstream::report
