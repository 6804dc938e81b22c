// The reading side of spool files (spool_format.h): one process's records in the order of time, with what they refer
// to.
//
// It reads chunk by chunk, so a file may be larger than memory. A reader trusts nothing: a file may be torn, cut,
// damaged, still being written, or from a newer build. Where a chunk is not whole, it goes on at the next one that is,
// and counts what lies between; without such a chunk it says how much it left. It never crashes, and its work grows
// with the size of the file, whatever is in it. A reader that follows a file while it is written (Follow) waits where
// nothing whole follows, and goes on there as often as it is asked.
//
// Behind a damaged part names, lines and stacks may be unknown: no number ever means something else in their place. A
// thread whose own chunk was lost has a made-up number (kLostThread).
//
// A file that keeps the newest records (spool_format.h) has lost its oldest ones on purpose: they are counted as given
// up, and nothing is missing because of them.
//
// Order: by end_ns, as far as the writer's rounds allow. What was recorded while a round ran may be in it or in the
// next, so records wait here until the round after theirs begins. Records of one thread always come in the order in
// which it made them. A record that came late to the writer is handed out when it is read, and counted. Work of a
// device (SpoolRecord::activity) comes in the order in which it was written.
//
// Threading: an object belongs to one thread.
// Errors: as texts for people.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracer/spool/activity_record.h"
#include "tracer/spool/spool_format.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

struct SpoolSite {
  std::string file;
  std::string function;
  int32_t line = 0;
};

struct SpoolStack {
  uint32_t site = 0;    // 0: a frame that nobody can name; see spool_format.h
  uint32_t parent = 0;  // a stack with a lower number, 0 or kCutSpoolStack
};

// A place in native code.
struct SpoolAddress {
  uint32_t module = 0;  // 0: none
  uint64_t offset = 0;
};

struct SpoolModule {
  uint64_t start = 0;  // in the process
  uint64_t end = 0;
  std::string path;
  std::string build_id;  // bytes; empty: it has none
};

// With this bit the system's number of a thread is not known, and the other bits are the spool's. Linux gives no number
// as high (PID_MAX_LIMIT is 1 << 22), and a globalTid has room for it.
inline constexpr uint32_t kLostThread = 1U << 23;

struct SpoolThread {
  uint32_t id = 0;  // the system's number; may come again in another thread
  std::string name;
  uint64_t records = 0;  // read so far, its drop records included
  uint64_t dropped = 0;  // that it made and that are not in the file, as far as has been read
  bool ended = false;
};

struct SpoolRecord {
  TraceRecord record;   // of an activity: its times and its kind
  uint32_t thread = 0;  // key in threads(); 0: made by the writer for the whole process
  uint32_t tid = 0;     // the system's number of it; 0 for the writer's
  uint64_t number = 0;  // counted from 0 by thread, drop records included
  // How many of its thread's should stand directly before it and are not in the file, and not dropped either: they were
  // in a part that is damaged, or the writer was wrong.
  uint64_t missing = 0;
  uint64_t missing_from_ns = 0;  // of CLOCK_MONOTONIC: none of those ended before; 0: nothing of the thread is known
  ActivityRecord activity;       // of RecordKind::kActivity; of any other, that of another record
};

class SpoolReader {
 public:
  // How many records may wait for their order. No writer makes more; if there are more, they are handed out as they
  // are.
  static constexpr size_t kMaxWaiting = size_t{1} << 20;

  // Null and *error if this is no spool file, or one of another version.
  static std::unique_ptr<SpoolReader> Open(const std::string& path, std::string* error);
  ~SpoolReader();
  SpoolReader(const SpoolReader&) = delete;
  SpoolReader& operator=(const SpoolReader&) = delete;

  // The next record. False: there are no more, and end() is final; of a reader that follows: there are no more yet.
  bool Next(SpoolRecord* record);

  // True: from now on the file may grow. Next() then returns false where the file ends, or where a chunk is not whole
  // yet, and goes on there when it is asked again; records whose order is not sure yet wait. False: what is left is
  // handed out, and Next() ends as that of any other reader.
  void Follow(bool follow) { follow_ = follow; }

  // What has been read so far; whatever a record refers to is there before the record is handed out.
  uint64_t start_unix_ns() const { return start_unix_ns_; }
  const std::map<std::string, std::string>& facts() const { return facts_; }
  // Keyed by what records carry. Null, empty or 0: the file has nothing about it.
  const std::string* NameOf(NameTable table, uint32_t number) const;
  const SpoolSite* SiteOf(uint32_t site) const;
  // Its parent is there too, or is none.
  const SpoolStack* StackOf(uint32_t stack) const;
  // The two that a stack stands for; 0: it has none of that kind.
  struct Both {
    uint32_t python = 0;
    uint32_t native = 0;
  };
  Both BothOf(uint32_t stack) const;
  const SpoolAddress* AddressOf(uint32_t address) const;
  const SpoolModule* ModuleOf(uint32_t module) const;
  const std::map<uint32_t, SpoolThread>& threads() const { return threads_; }
  // What the process counted while it recorded, of one of the two tables; null: the file does not say.
  const std::vector<CountersEntry>* CountersOf(NameTable table) const;
  size_t sites() const { return sites_.size(); }

  struct End {
    bool complete = false;  // the writer said that this is the end, and it is; else the last moments are missing
    EndReason reason = EndReason::kFinished;  // why it ended there, if complete
    // Calls that the process made after its recording had ended by itself. Not known: it was killed since, or goes on,
    // or the file is an older one.
    uint64_t later_calls = 0;
    bool later_calls_known = false;
    int error = 0;                  // an errno, with kError
    uint64_t records = 0;           // handed out
    uint64_t dropped = 0;           // made by the process and known not to be in the file
    uint64_t last_pass_ns = 0;      // what was recorded after this may be missing if not complete
    uint64_t read_bytes = 0;        // up to here the file was read, damaged parts included
    uint64_t left_bytes = 0;        // behind that: no whole chunk, and nothing whole is behind it
    std::string left_why;           // empty: none were left
    uint64_t damaged_bytes = 0;     // between whole chunks, that are none
    uint64_t missing_chunks = 0;    // whose numbers lie between those that were read
    uint64_t skipped_chunks = 0;    // of kinds or versions that this reader does not know
    uint64_t skipped_records = 0;   // the same
    uint64_t malformed_chunks = 0;  // whole, and yet not as they should be: the writer was wrong
    uint64_t missing_records = 0;   // that should have stood between others: the same, or they were in missing chunks
    uint64_t late_records = 0;      // handed out after a later one
    // What was given up for newer records: neither damaged nor missing nor dropped.
    uint64_t given_up_records = 0;
    uint64_t given_up_chunks = 0;
    uint64_t given_up_bytes = 0;  // of the file; they are in read_bytes
    uint64_t kept_from_ns = 0;    // all that ended later was kept; 0: nothing was given up
  };
  const End& end() const { return end_; }

 private:
  class Payload;
  // A SpoolRecord without its activity, which is in activities_.
  struct Waiting {
    uint64_t key = 0;  // end_ns, but never less than that of the record before it from the same thread
    TraceRecord record;
    uint32_t thread = 0;
    uint32_t tid = 0;
    uint64_t number = 0;
    uint64_t missing = 0;
    uint64_t missing_from_ns = 0;
  };
  struct Progress {
    uint64_t next = 0;  // number of its next record
    uint64_t key = 0;
    uint64_t missing = 0;  // directly before it
  };
  // What is where a chunk may begin.
  enum class Place : uint8_t {
    kChunk,    // a whole one, that may come next
    kNothing,  // the end of the file
    kCut,      // what may be the beginning of one, up to the end of the file
    kDamaged,  // one with a wrong checksum or a wrong number
    kNoChunk
  };

  SpoolReader(int fd, uint64_t start_unix_ns, uint64_t offset) : fd_(fd), start_unix_ns_(start_unix_ns), at_(offset) {
    end_.read_bytes = offset;
  }

  bool ReadChunk();
  bool FindChunk(ChunkHeader* header);
  Place LookAt(uint64_t at, ChunkHeader* header);
  static const char* WhyNot(Place place);
  uint64_t NextMagic(uint64_t at);
  uint64_t BehindHole(uint64_t at) const;
  const char* BytesAt(uint64_t at, size_t size);
  bool Wait();
  void Leave(const std::string& why);
  void Release(uint64_t up_to);
  void ReleaseHalf();
  static uint64_t KeyOf(NameTable table, uint32_t number);
  bool Take(const ChunkHeader& header, Payload* payload);
  bool TakeFacts(Payload* payload);
  bool TakeNames(Payload* payload);
  bool TakeSites(Payload* payload);
  bool TakeStacks(Payload* payload);
  bool IsStackOf(uint32_t stack, bool native) const;
  bool TakeModules(Payload* payload);
  bool TakeAddresses(Payload* payload);
  bool TakeCounters(Payload* payload);
  bool TakeThread(Payload* payload);
  std::map<uint32_t, SpoolThread>::iterator ThreadOf(uint32_t number);
  static bool GetHead(Payload* payload, size_t least_bytes, RecordsHead* head);
  bool GoOn(const RecordsHead& head);
  void Enqueue(Waiting* waiting, uint64_t key_ns);
  bool TakeRecords(Payload* payload);
  bool TakeActivities(Payload* payload, uint64_t pass_ns);
  bool TakeThreadEnd(Payload* payload);
  bool TakeEnd(Payload* payload, bool last);
  bool TakeSection(Payload* payload);
  bool TakeGivenUp(Payload* payload);
  void SettleGap(bool is_last);

  const int fd_;
  const uint64_t start_unix_ns_;
  // A part of the file.
  std::vector<char> window_;
  uint64_t window_at_ = 0;
  size_t window_bytes_ = 0;
  bool window_is_last_ = false;  // the file ends with it
  uint64_t at_;                  // where a chunk is looked for next: read_bytes, or behind what is damaged there
  uint64_t wasted_bytes_ = 0;    // whose checksums were made for nothing
  bool stopped_ = false;
  bool follow_ = false;
  bool seen_end_ = false;
  bool seen_stop_ = false;
  bool seen_section_ = false;
  // In front of sections something is not there: it was given up, if a later chunk says so.
  struct Gap {
    uint64_t section = 0;  // the number of the last one's first chunk
    uint64_t chunks = 0;   // 0: there is no gap that has to be settled
    uint64_t bytes = 0;
    uint64_t records = 0;
  };
  Gap gap_;
  bool in_section_behind_gap_ = false;
  bool seen_gap_ = false;         // in front of a section
  uint64_t given_up_before_ = 0;  // the number of a chunk
  uint64_t next_chunk_ = 0;
  uint64_t read_records_ = 0;  // that are in the chunks that were read

  std::map<std::string, std::string> facts_;
  std::unordered_map<uint64_t, std::string> names_;  // by table and number
  std::unordered_map<uint32_t, SpoolSite> sites_;
  std::unordered_map<uint32_t, SpoolStack> stacks_;
  std::unordered_map<uint32_t, SpoolModule> modules_;
  std::unordered_map<uint32_t, SpoolAddress> addresses_;
  std::map<uint32_t, std::vector<CountersEntry>> counters_;  // by table
  std::map<uint32_t, SpoolThread> threads_;
  std::unordered_map<uint32_t, Progress> progress_;  // by thread

  std::deque<ActivityRecord> activities_;  // of waiting_ and ready_
  std::vector<Waiting> waiting_;
  std::vector<Waiting> ready_;  // in order
  size_t next_ready_ = 0;
  uint64_t last_key_ = 0;
  uint64_t dropped_without_ring_ = 0;
  End end_;
};

// The spool files in a directory, by name. Empty and *error when it cannot be read.
std::vector<std::string> ListSpools(const std::string& directory, std::string* error);

}  // namespace slipstream::tracer
