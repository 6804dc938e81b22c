// The reading side of spool files (spool_format.h): one process's records in the order of time, with what they refer
// to.
//
// It reads chunk by chunk, so a file may be larger than memory. A reader trusts nothing: a file may be torn, cut,
// damaged, still being written, or from a newer build. It reads up to the first chunk that is not whole and says how
// much it left; it never crashes and never reads the file twice. A reader that follows a file while it is written
// (Follow) goes on at that chunk, as often as it is asked.
//
// Order: by end_ns, as far as the writer's rounds allow. What was recorded while a round ran may be in it or in the
// next, so records wait here until the round after theirs begins. Records of one thread always come in the order in
// which it made them. A record that came late to the writer is handed out when it is read, and counted. Work of a
// device (device_work.h) comes in the order in which it was written.
//
// Threading: an object belongs to one thread.
// Errors: as texts for people.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

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

struct SpoolThread {
  uint32_t id = 0;  // the system's number; may come again in another thread
  std::string name;
  uint64_t records = 0;  // read so far, its drop records included
  uint64_t dropped = 0;  // that it made and that are not in the file, as far as has been read
  bool ended = false;
};

struct SpoolRecord {
  TraceRecord record;
  uint32_t thread = 0;  // key in threads(); 0: made by the writer for the whole process
  uint32_t tid = 0;     // the system's number of it; 0 for the writer's
  uint64_t number = 0;  // counted from 0 by thread, drop records included
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
  size_t sites() const { return sites_.size(); }

  struct End {
    bool complete = false;  // the writer said that this is the end, and it is; else the last moments are missing
    EndReason reason = EndReason::kFinished;  // why it ended there, if complete
    int error = 0;                            // an errno, with kError
    uint64_t records = 0;                     // handed out
    uint64_t dropped = 0;                     // made by the process and known not to be in the file
    uint64_t last_pass_ns = 0;                // what was recorded after this may be missing if not complete
    uint64_t read_bytes = 0;
    uint64_t left_bytes = 0;        // at the end of the file, that are no whole chunk or stand behind one that is not
    std::string left_why;           // empty: none were left
    uint64_t skipped_chunks = 0;    // of kinds or versions that this reader does not know
    uint64_t skipped_records = 0;   // the same
    uint64_t malformed_chunks = 0;  // whole, and yet not as they should be: the writer was wrong
    uint64_t missing_records = 0;   // that should have stood between others of a thread: the same
    uint64_t late_records = 0;      // handed out after a later one
  };
  const End& end() const { return end_; }

 private:
  class Payload;
  struct Waiting {
    uint64_t key;  // end_ns, but never less than that of the record before it from the same thread
    SpoolRecord record;
  };
  struct Progress {
    uint64_t next = 0;  // number of its next record
    uint64_t key = 0;
  };

  SpoolReader(int fd, uint64_t start_unix_ns, uint64_t offset) : fd_(fd), start_unix_ns_(start_unix_ns) {
    end_.read_bytes = offset;
  }

  bool ReadChunk();
  bool Wait();
  void Stop(const std::string& why);
  void Release(uint64_t up_to);
  void ReleaseHalf();
  bool Take(const ChunkHeader& header, Payload* payload);
  bool TakeFacts(Payload* payload);
  bool TakeNames(Payload* payload);
  bool TakeSites(Payload* payload);
  bool TakeStacks(Payload* payload);
  bool IsStackOf(uint32_t stack, bool native) const;
  bool TakeModules(Payload* payload);
  bool TakeAddresses(Payload* payload);
  bool TakeThread(Payload* payload);
  bool TakeRecords(Payload* payload, uint64_t pass_ns);
  bool TakeThreadEnd(Payload* payload);
  bool TakeEnd(Payload* payload);

  const int fd_;
  const uint64_t start_unix_ns_;
  std::vector<char> payload_;
  bool stopped_ = false;
  bool follow_ = false;
  bool seen_end_ = false;
  uint64_t next_chunk_ = 0;

  std::map<std::string, std::string> facts_;
  std::unordered_map<uint64_t, std::string> names_;  // by table and number
  std::unordered_map<uint32_t, SpoolSite> sites_;
  std::unordered_map<uint32_t, SpoolStack> stacks_;
  std::unordered_map<uint32_t, SpoolModule> modules_;
  std::unordered_map<uint32_t, SpoolAddress> addresses_;
  std::map<uint32_t, SpoolThread> threads_;
  std::unordered_map<uint32_t, Progress> progress_;  // by thread

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
