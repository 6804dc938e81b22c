// From the rings of a process into its spool file: one round at a time.
//
// Threading: one thread, which is the rings' consumer and, once Open was called, has an own table of descriptors.
// Ownership: everything pointed to is the caller's and stays.
// Errors: as values. Out of memory throws: whoever runs this catches.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tracer/chunk_writer.h"
#include "tracer/code_sites.h"
#include "tracer/process_facts.h"
#include "tracer/range_names.h"
#include "tracer/record_rings.h"
#include "tracer/spool_file.h"
#include "tracer/spool_format.h"
#include "tracer/stack_tree.h"

namespace slipstream::tracer {

class SpoolWriter {
 public:
  struct Sources {
    RecordRings* rings = nullptr;
    const std::atomic<const CodeSites*>* sites = nullptr;         // may hold null, and be set at any time, once
    const StackTree* stacks = nullptr;                            // null: records have none
    const std::atomic<const RangeNames*>* range_names = nullptr;  // the same
    const std::atomic<uint64_t>* dropped_without_ring = nullptr;  // by threads for which there was none
  };

  SpoolWriter(const Sources& sources, const FileCalls& calls, uint64_t max_file_bytes, uint32_t max_rings);

  // Makes the file and writes what is known from the start.
  SpoolFailure Open(const std::string& directory, const JobIdentity& job, const Facts& more,
                    const std::vector<std::string>& decisions);

  // Takes every ring's records as of now. With `last`, the threads are said to have ended. False: nothing more can be
  // written, see stopped().
  bool Pass(bool last);
  EndReason stopped() const { return chunks_.stopped(); }
  int error() const { return chunks_.error(); }
  // The last chunk, and the end of the file. False: it could not be written.
  bool End();

 private:
  // Clocks drift apart by some microseconds in this time.
  static constexpr uint64_t kClockPeriodNs = 10'000'000'000;

  void WriteFacts(const Facts& facts);
  void WriteNames(NameTable table, const std::vector<std::string>& names);
  void WriteClock();
  void WriteNewSites();
  void WriteNewStacks();
  void WriteNewRangeNames();
  void WriteOwn(const TraceRecord& record);
  void WriteThread(const RecordRing::Owner& owner);
  void WriteThreadEnd(const RecordRing& ring);
  bool Drain(RecordRing* ring);
  uint64_t Dropped() const;

  const Sources sources_;
  SpoolFile file_;
  ChunkWriter chunks_;
  std::vector<uint32_t> announced_;    // of each ring, the last owner that has a kThread chunk
  std::vector<bool> written_sites_;    // by site
  uint32_t first_unwritten_site_ = 1;  // all before it are in the file
  std::vector<bool> written_stacks_;
  uint32_t first_unwritten_stack_ = StackTree::kFirst;
  std::vector<bool> written_range_names_;
  uint32_t first_unwritten_range_name_ = 1;
  uint64_t own_records_ = 0;        // of thread 0
  uint64_t said_without_ring_ = 0;  // of dropped_without_ring, in records
  uint64_t said_without_ring_at_ns_ = 0;
  uint64_t dropped_by_ended_ = 0;
  uint64_t next_clock_ns_ = 0;
};

}  // namespace slipstream::tracer
