// The end of a trace that is still being written: steps, lines, and what the devices did, over the last seconds.
//
// It reads on where it stopped, reads no byte twice, and keeps only seconds. Once read up to its end, a long recording
// costs no more than a short one.
//
// Memory: what SpoolReader keeps (names, lines and stacks, which the writer bounds), kWindowSeconds of sums by line,
// and what StepWatch, BusyTime and AheadWatch say.
// Threading: an object belongs to one thread.
// Errors: what cannot be read is in TraceView::trouble; everything before it counts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/trace/db/step_finder.h"
#include "tools/trace/top/ahead_watch.h"
#include "tools/trace/top/busy_time.h"
#include "tools/trace/top/step_watch.h"
#include "tools/trace/top/view.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::top {

inline constexpr uint64_t kWindowSeconds = 10;

class SpoolTail {
 public:
  // Of lines in a second; calls at others are put down to none.
  static constexpr size_t kMostLines = 4096;

  // Null and *error where this is no spool file.
  static std::unique_ptr<SpoolTail> Open(const std::string& path, std::string* error);

  // Reads up to the end of what there is, but about `most_bytes` only. True: that was the end.
  bool ReadOn(uint64_t most_bytes);
  // Its writer said that nothing more comes, or End() did.
  bool ended() const { return ended_; }
  // Its process writes no more: what waited for its order is read, and that was all.
  void End();

  // `now_ns`: of this host's CLOCK_MONOTONIC, for a process that runs here; nothing: the time of the last record.
  TraceView Look(std::optional<uint64_t> now_ns) const;

  // By the facts of the file.
  int32_t pid() const { return Number("pid", 0); }
  int32_t rank() const { return Number("rank", -1); }
  std::string Fact(const char* key) const;
  uint64_t start_unix_ns() const { return reader_->start_unix_ns(); }
  // The newest of each device; empty: none was recorded.
  std::vector<tracer::MemoryFigures> Memory() const;

 private:
  struct LineSum {
    uint64_t calls = 0;
    uint64_t time_ns = 0;
  };
  using Second = std::unordered_map<uint32_t, LineSum>;  // by LinesOfSites

  SpoolTail(const std::string& path, std::unique_ptr<tracer::SpoolReader> reader);

  int32_t Number(const char* key, int32_t missing) const;
  void Add(const tracer::SpoolRecord& record);
  void AddCall(const tracer::SpoolRecord& record);
  void AddDecision(const tracer::SpoolRecord& record);
  void AddDeviceWork(const tracer::ActivityRecord& record);
  void AddClock(const tracer::TraceRecord& clock);
  // Of a time as records of device work have it.
  uint64_t Monotonic(uint64_t recorded_ns) const;
  void LookAtDevices(uint64_t end_ns, TraceView* view) const;
  AheadWatch::Call CallFor(const tracer::SpoolRecord& record);

  const std::string path_;
  const std::unique_ptr<tracer::SpoolReader> reader_;
  bool at_end_ = false;
  bool ended_ = false;

  trace_db::LinesOfSites lines_;
  StepWatch steps_;
  std::map<uint64_t, Second> seconds_;  // by CLOCK_MONOTONIC in seconds
  std::optional<uint64_t> first_ns_;
  uint64_t newest_ns_ = 0;
  std::map<int32_t, tracer::MemoryFigures> memory_;

  // What is known of a function, or a decision, by its number.
  struct Function {
    report::CallKind kind = report::CallKind::kOther;
    bool names_its_stream = false;
    bool is_stream_synchronize = false;
    bool asks_for_nothing = false;  // it waits, or has a stream wait
    bool is_blocking_copy = false;
    bool destroys = false;
  };
  struct Decision {
    bool makes_it_return = false;
    bool skips_the_wait = false;
    bool uses_other_streams = false;
  };
  std::unordered_map<uint16_t, Function> functions_;
  std::unordered_map<uint16_t, Decision> decisions_;

  // Devices are recorded from begins_ns_ on, and all that they did up to complete_ns_ has been read.
  bool devices_recorded_ = false;
  uint64_t begins_ns_ = 0;
  uint64_t complete_ns_ = 0;
  uint64_t last_clock_ns_ = 0;
  // The last two readings of the device profiler's clock, which does not run exactly as CLOCK_MONOTONIC does.
  struct Reading {
    uint64_t recorded_ns = 0;
    uint64_t monotonic_ns = 0;
  };
  std::optional<Reading> before_;
  std::optional<Reading> last_;
  std::map<int32_t, BusyTime> busy_;
  // By the decisions of the call that a thread is in.
  struct Saved {
    uint64_t call = 0;
    int64_t ns = 0;
  };
  static constexpr size_t kMostThreads = 4096;
  std::unordered_map<uint32_t, Saved> saved_by_;
  AheadWatch ahead_;
};

}  // namespace slipstream::top
