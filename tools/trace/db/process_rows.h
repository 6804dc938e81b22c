// Writes the rows of one process: its spool's records one after the other, then what is known about it at the end.
//
// Memory: what the spool's reader holds, and a number a line, a name and a step.
// Threading: one thread.
// Errors: kept by the tables' Database.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/trace/db/device_rows.h"
#include "tools/trace/db/range_rows.h"
#include "tools/trace/db/step_cutter.h"
#include "tools/trace/db/survey.h"
#include "tools/trace/db/time_base.h"
#include "tools/trace/db/trace_tables.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::trace_db {

// What went into the database.
struct ExportedProcess {
  std::string file;        // of the spool, without its directory
  std::string executable;  // without its directory; empty: not known
  std::string host;
  std::optional<int64_t> pid;
  std::optional<int64_t> parent_pid;
  std::optional<int64_t> rank;
  std::optional<int64_t> local_rank;
  std::optional<int64_t> world_size;
  uint64_t calls = 0;
  std::optional<int64_t> first_ns;  // in the trace's time
  std::optional<int64_t> last_ns;
  std::optional<int64_t> kept_from_ns;  // all that ended later is there; nothing: older records were not given up
  tracer::SpoolReader::End end;
  uint64_t steps = 0;
  std::optional<int64_t> median_step_ns;
  std::string step_line;  // file:line that begins each, where slipstream found them
  std::string step_name;  // of NVTX ranges of the program's that are its steps; both empty: the process recorded them

  // Something that is in the file is not in the database.
  bool damaged() const {
    return end.left_bytes != 0 || end.damaged_bytes != 0 || end.missing_chunks != 0 || end.malformed_chunks != 0 ||
           end.missing_records != 0 || end.skipped_chunks != 0 || end.skipped_records != 0;
  }
};

// "finished", "limit", "error".
const char* NameOf(tracer::EndReason reason);

class ProcessRows {
 public:
  // All must outlive it. `number`: of the process, from 1.
  ProcessRows(TraceTables* tables, const TimeBase& times, size_t host, int64_t number, const SpoolSurvey& survey,
              const tracer::SpoolReader& reader);

  void Add(const tracer::SpoolRecord& record);
  // When the spool has been read.
  ExportedProcess Finish();

 private:
  int64_t At(uint64_t monotonic_ns) const { return times_.At(host_, monotonic_ns); }
  // NULL for what the process itself did, by no thread of the program.
  std::optional<int64_t> ThreadOf(const tracer::SpoolRecord& record) const;
  void AddMissing(const tracer::SpoolRecord& next, int64_t end);
  void AddCall(const tracer::SpoolRecord& record);
  // A call's rows. `function`: its name, its class, and whether it is a copy.
  struct Function {
    int64_t id = 0;
    int64_t event_class = 0;
    bool copies = false;
  };
  // Returns the call's correlationId.
  int64_t AddCallRow(const tracer::SpoolRecord& record, const Function& function);
  // Decisions of a call come before it, in the records of its thread.
  void AddDecision(const tracer::SpoolRecord& record);
  int64_t AddDecisionsOf(const tracer::SpoolRecord& call, int64_t correlation);
  void AddDecisionRow(const tracer::SpoolRecord& record, const std::optional<int64_t>& correlation);
  void AddRange(const tracer::SpoolRecord& record);
  void AddRecordedStep(const tracer::SpoolRecord& record);
  void AddFoundStep(const StepTime& step);
  void AddStep(const StepTime& step, uint32_t thread, std::optional<int64_t> global_tid, int64_t number,
               std::optional<int64_t> site);
  void AddAllocation(const tracer::SpoolRecord& record);
  void AddMemory(const tracer::TraceRecord& record);
  void AddTasks(const tracer::TraceRecord& record);
  void AddSwitch(bool on, int64_t at);
  // Of either table of names.
  const Function& FunctionOf(tracer::NameTable table, uint16_t number);
  int64_t DecisionId(uint16_t decision);
  int64_t LibraryId(tracer::NameTable table, uint32_t library);
  std::optional<int64_t> SiteId(uint32_t site);
  std::optional<int64_t> SiteOf(const tracer::TraceRecord& record);
  std::optional<int64_t> NativeSiteId(uint32_t stack);
  StackTable::Frame FrameAt(uint32_t site);
  std::optional<int64_t> StackId(uint32_t stack);
  void AddThreads();
  void AddCounters(int64_t kind, tracer::NameTable table);
  void AddProcess();
  void AddStepsByLaunches(const LaunchSequence::Found& found);
  void SumUpSteps();

  TraceTables& tables_;
  const TimeBase& times_;
  const size_t host_;
  const int64_t number_;
  const SpoolSurvey& survey_;
  const tracer::SpoolReader& reader_;
  const int64_t global_pid_;
  ExportedProcess exported_;

  std::unordered_map<uint16_t, Function> functions_;  // by the spool's number
  std::unordered_map<uint16_t, Function> driver_functions_;
  std::unordered_map<uint16_t, int64_t> decisions_;
  std::unordered_map<uint32_t, std::vector<tracer::SpoolRecord>> undecided_;  // by thread: of a call that is to come
  std::unordered_map<uint32_t, int64_t> libraries_;
  std::unordered_map<uint32_t, int64_t> callers_;
  std::unordered_map<uint32_t, std::optional<int64_t>> sites_;
  std::unordered_map<uint32_t, std::optional<int64_t>> native_sites_;  // by stack
  std::unordered_map<uint32_t, StackTable::Stack> stacks_;
  std::unordered_map<uint32_t, uint64_t> missing_;  // records, by thread
  std::optional<int64_t> paused_since_;
  DeviceRows device_;
  LinesOfSites lines_;
  RangeRows ranges_;
  std::optional<StepCutter> cutter_;
  std::optional<int64_t> cut_thread_;  // global, of the cutter's thread
  size_t step_named_ranges_ = 0;       // read so far of those that SpoolSurvey::StepRanges is about
  std::vector<int64_t> step_times_;    // of those whose end is known
};

}  // namespace slipstream::trace_db
