// Reads a trace's database row by row for an export: each row's owner, its texts, and what it belongs to.
//
// Rows come table by table, never held: of calls in the order of their correlation, which within a process is that of
// time; of all others in the order of time. What is held is small: processes, threads, devices, and each text once.
//
// Threading: one thread.
// Errors: kept by the DatabaseReader; whoever asked looks there when all rows have come.
// Ownership: a row, and the texts in it, live until the sink returns; what TraceFacts names lives as long as the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/trace/db/database_reader.h"
#include "tools/trace/db/devices.h"
#include "tools/trace/export/trace_texts.h"

namespace slipstream::trace_export {

struct TraceProcess {
  int64_t id = 0;          // of SLIPSTREAM_PROCESSES
  int64_t global_pid = 0;  // as Nsight Systems packs it (global_id.h)
  int64_t pid = 0;         // its number on its host; 0: not known
  int64_t shown_pid = 0;   // the same, unless another process of this export has it
  std::optional<int64_t> rank;
  std::optional<int64_t> local_rank;
  std::optional<int64_t> world_size;
  std::string name;     // of its executable
  std::string command;  // with its arguments
  std::string host;
};

struct TraceThread {
  const TraceProcess* process = nullptr;
  int64_t tid = 0;
  std::string name;  // empty: none
};

// It is not copied: threads point to processes.
struct TraceFacts {
  TraceFacts() = default;
  TraceFacts(TraceFacts&&) = default;
  TraceFacts& operator=(TraceFacts&&) = default;

  std::vector<TraceProcess> processes;              // that are exported
  std::map<int64_t, TraceThread> threads;           // of these, by their globalTid
  std::map<int64_t, std::vector<int64_t>> devices;  // of these, that they have work or memory on; by TraceProcess::id
  trace_db::Devices properties;
  int64_t first_ns = 0;       // no row begins earlier; 0 or below
  int64_t start_unix_ns = 0;  // wall time of the trace's 0
};

// A thread of a process: a number that was given anew (S: the system does that) is one thread here.
struct Place {
  const TraceProcess* process = nullptr;
  int64_t tid = 0;
};

struct CallRow {
  Place at = {};
  int64_t start = 0;  // ns of the trace
  int64_t end = 0;
  std::string_view function = {};  // without the version that CUPTI puts behind it
  bool is_driver = false;          // a function of the driver's API
  int64_t correlation = 0;         // unique in the database; 0: none
  bool has_work = false;           // the device did something for it, and there is a row about that
  int64_t status = 0;              // what the call returned
  int64_t bytes = 0;
  int64_t stream = 0;  // the handle as a number
  std::optional<int64_t> device;
  CallSite site = {};
  bool decided = false;
  std::string_view decision = {};  // empty: only a time
  int64_t saved_ns = 0;
};

enum class WorkKind : uint8_t { kKernel, kCopy, kSet, kWait };

// Something that a device did, or a synchronization waited for.
struct WorkRow {
  WorkKind kind = WorkKind::kKernel;
  const TraceProcess* process = nullptr;
  int64_t start = 0;
  int64_t end = 0;
  int64_t device = 0;
  int64_t context = 0;
  int64_t stream = 0;       // CUPTI's number; -1: none
  int64_t correlation = 0;  // 0: not known
  bool has_call = false;    // there is a call of this correlation
  bool is_own = false;      // slipstream asked for it, and not the program
  std::optional<int64_t> graph_node;
  std::string name;
  // Of a kernel.
  trace_db::KernelShape shape;
  // Of a copy or a memset.
  int64_t bytes = 0;
};

struct StepRow {
  Place at = {};
  int64_t start = 0;
  int64_t end = 0;
  int64_t number = 0;
  CallSite site = {};
};

// Of the program's own NVTX.
struct RangeRow {
  Place at = {};
  int64_t start = 0;
  std::optional<int64_t> end;  // none: it was never ended, or is a mark
  bool is_mark = false;
  bool is_profiler_step = false;  // it is one of the steps (a StepRow) and called "ProfilerStep#" and its number
  std::string_view text = {};
};

struct MarkRow {
  Place at = {};
  int64_t start = 0;
  int64_t value = 0;
  CallSite site = {};
};

struct DropRow {
  Place at = {};
  int64_t start = 0;
  int64_t end = 0;
  int64_t count = 0;
};

struct MemoryRow {
  const TraceProcess* process = nullptr;
  int64_t start = 0;
  int64_t device = 0;
  int64_t live = 0;
  int64_t idle = 0;
  int64_t parked = 0;
  int64_t trims = 0;
  int64_t retries = 0;
};

class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual void Begin(const TraceFacts& facts) = 0;
  virtual void Add(const StepRow& row) = 0;
  virtual void Add(const RangeRow& row) = 0;
  virtual void Add(const CallRow& row) = 0;
  virtual void Add(const WorkRow& row) = 0;
  virtual void Add(const MemoryRow& row) = 0;
  virtual void Add(const MarkRow& row) = 0;
  virtual void Add(const DropRow& row) = 0;
  virtual void End() = 0;
};

struct RowCounts {
  uint64_t calls = 0;
  uint64_t kernels = 0;
  uint64_t copies = 0;
  uint64_t sets = 0;
  uint64_t waits = 0;
  uint64_t steps = 0;
  uint64_t ranges = 0;
  uint64_t memory = 0;
  uint64_t blocks = 0;  // allocated and freed; these are in traces of allocations alone
  uint64_t frees = 0;
  uint64_t marks = 0;
  uint64_t drops = 0;
  uint64_t strays = 0;  // of a process that the database does not name; left out
};

class TraceRows {
 public:
  explicit TraceRows(trace_db::DatabaseReader& database) : database_(database), texts_(database) {}

  // Whether the database is one of slipstream's. All other functions need that.
  bool IsOurs();
  // Only of the processes with this rank; empty: of all. Without such a process, the result has none.
  TraceFacts Facts(std::optional<int64_t> rank);
  // The ranks that there are.
  std::vector<int64_t> Ranks();

  // All rows of the processes in `facts`. `progress` is called now and then, with the rows that were read and their
  // number; where it says false, no more rows come.
  TraceTexts& texts() { return texts_; }
  RowCounts Visit(const TraceFacts& facts, RowSink* sink, const std::function<bool(uint64_t, uint64_t)>& progress);

 private:
  class Pass;

  trace_db::DatabaseReader& database_;
  TraceTexts texts_;
};

}  // namespace slipstream::trace_export
