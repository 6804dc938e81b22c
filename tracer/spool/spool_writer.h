// Writes the rings of a process into its spool file, one round at a time.
//
// Threading: one thread, the rings' consumer. After Open it has a descriptor table of its own.
// Ownership: everything pointed to is the caller's and stays.
// Errors: as values. Out of memory throws: whoever runs this catches.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/base/clock.h"
#include "tracer/base/counted.h"
#include "tracer/python/code_sites.h"
#include "tracer/python/native_frames.h"
#include "tracer/python/stack_tree.h"
#include "tracer/spool/chunk_writer.h"
#include "tracer/spool/device_records.h"
#include "tracer/spool/late_facts.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/range_names.h"
#include "tracer/spool/record_rings.h"
#include "tracer/spool/record_switch.h"
#include "tracer/spool/spool_file.h"
#include "tracer/spool/spool_format.h"
#include "tracer/spool/task_sampler.h"

namespace slipstream::tracer {

class CounterFile;

class SpoolWriter {
 public:
  // Numbers that records carry and whose texts come while the program runs. May hold null, and be set at any time,
  // once.
  struct TextSource {
    NameTable table;
    std::atomic<const RangeNames*> names{nullptr};
  };

  struct Sources {
    RecordRings* rings = nullptr;
    const std::atomic<const CodeSites*>* sites = nullptr;  // may hold null, and be set at any time, once
    const StackTree* stacks = nullptr;                     // null: records have none
    NativeFrames* native = nullptr;                        // null: stacks have no native frames
    std::span<const TextSource> texts = {};
    const std::atomic<uint64_t>* dropped_without_ring = nullptr;  // by threads for which there was none
    const std::atomic<DeviceRecords*>* device = nullptr;          // may hold null, and be set at any time, once
    RecordSwitch* record_switch = nullptr;                        // null: nothing is ever paused
    LateFacts* late_facts = nullptr;                              // null: there are none
    const std::atomic<const std::atomic<uint64_t>*>* lost_ranges = nullptr;  // as `device`
    const CounterFile* counters = nullptr;                                   // null: nothing is counted
  };

  SpoolWriter(const Sources& sources, const FileCalls& calls, uint64_t max_file_bytes, uint32_t max_rings);

  // Before Open: at the limit the oldest records make room (chunk_writer.h), where the file system lets them.
  void KeepNewest() { keep_newest_ = true; }
  // Before Open: what the process has at work is written too.
  void SampleTasks() { samples_tasks_ = true; }
  // Why they cannot, an errno: then the recording ends at the limit. 0: they can, or need not.
  int cannot_keep_newest() const { return cannot_keep_newest_; }

  // Makes the file and writes what is known from the start.
  SpoolFailure Open(const std::string& directory, const JobIdentity& job, const Facts& more,
                    const std::vector<std::string>& decisions);

  // Before the first Pass: nothing is recorded yet.
  void BeginPaused() { WriteSwitch({.at_ns = NowNs(), .on = false}); }
  // Before the last round, while everything that happens is still recorded.
  void RecordingEnds();
  // Takes every ring's records as of now. With `last`, the threads are said to have ended. False: nothing more can be
  // written, see stopped().
  bool Pass(bool last);
  EndReason stopped() const { return chunks_.stopped(); }
  int error() const { return chunks_.error(); }
  // Once, where Pass said that nothing more can be written and the process goes on: says so in the file, where that can
  // be, so that a process that is killed from here on has said it. Nothing but End may follow.
  void Stop();
  // The last chunk, and the end of the file. `later_calls`: SpoolEnd's. False: it could not be written.
  bool End(uint64_t later_calls);

 private:
  // The time between two looks for unloaded libraries; rounds are more frequent.
  static constexpr uint64_t kLookPeriodNs = 50'000'000;
  // More threads that call CUDA are not looked at one by one.
  static constexpr size_t kMostSampledThreads = 64;
  // Clocks drift apart by some microseconds in this time.
  static constexpr uint64_t kClockPeriodNs = 10'000'000'000;

  void WriteFacts(const Facts& facts);
  void BeginSection();
  void WriteDeviceNames(const std::vector<DeviceRecords::Name>& names);
  void WriteNames(NameTable table, const std::vector<std::string>& names);
  void WriteClock();
  void WriteNewSites();
  void WriteNewStacks();
  void WriteNewTexts();
  void WriteNewModules();
  void WriteNewAddresses();
  void WriteWhatHadNoRoom();
  void WriteCounters();
  void WriteCounted(NameTable table, const std::vector<Counted>& before, const std::vector<Counted>& sure,
                    const std::vector<Counted>& last);
  uint64_t Refused(std::string_view key) const;
  void WriteOwn(const TraceRecord& record);
  void WriteSwitch(const RecordSwitch::Change& change);
  void WriteTasks(uint64_t now_ns);
  void WriteDeviceWork();
  void CountUnwrittenDeviceWork();
  uint64_t DroppedWithoutRing() const;
  void WriteThread(const RecordRing& ring);
  void WriteWhatRecordsReferTo(uint32_t ring);
  void WriteThreadEnd(const RecordRing& ring);
  bool Drain(uint32_t ring);
  uint64_t Dropped() const;
  SpoolEnd EndAsOfNow() const;

  const Sources sources_;
  OwnFiles files_;
  SpoolFile file_;
  ChunkWriter chunks_;
  bool keep_newest_ = false;
  int cannot_keep_newest_ = 0;
  // What a section begins with; empty where there are none.
  std::map<std::string, std::string> said_facts_;
  std::vector<std::string> hooks_;
  std::vector<std::string> decisions_;
  std::vector<DeviceRecords::Name> said_names_;
  std::vector<uint32_t> announced_;    // of each ring, the last owner that has a kThread chunk
  std::vector<bool> written_sites_;    // by site
  uint32_t first_unwritten_site_ = 1;  // all before it are in the file
  std::vector<bool> written_stacks_;
  uint32_t first_unwritten_stack_ = StackTree::kFirst;
  std::vector<bool> written_modules_;
  uint32_t first_unwritten_module_ = 1;
  std::vector<bool> written_addresses_;
  uint32_t first_unwritten_address_ = 1;
  struct WrittenTexts {
    std::vector<bool> written;
    uint32_t first_unwritten = 1;
  };
  std::vector<WrittenTexts> texts_;  // of each source
  bool paused_ = false;              // as the file has it
  bool was_paused_ = false;          // at any time
  uint64_t own_records_ = 0;         // of thread 0
  DeviceRecords::Waiting device_;    // of the last round
  uint64_t said_without_ring_ = 0;   // of dropped_without_ring, in records
  uint64_t said_without_ring_at_ns_ = 0;
  uint64_t dropped_by_ended_ = 0;
  uint64_t unwritten_activities_ = 0;       // that were taken from their queue and found no room in the file
  std::optional<uint64_t> device_dropped_;  // of the devices' records, when the recording ended by itself
  std::array<uint64_t, std::size(kRefusedFacts)> said_refused_{};
  bool said_pytorch_folder_ = false;
  CounterTotals counted_before_;  // the recording began
  CounterTotals counted_surely_;  // before it ended
  uint64_t next_clock_ns_ = 0;
  uint64_t next_look_ns_ = 0;
  bool samples_tasks_ = false;
  std::optional<TaskSampler> tasks_;
  uint64_t next_tasks_ns_ = 0;
};

}  // namespace slipstream::tracer
