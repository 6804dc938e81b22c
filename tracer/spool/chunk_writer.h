// Chunks of a spool file, put together in a buffer and written many at a time.
//
// A chunk is Begin, any number of Put and one End. A chunk that does not fit into the file is left out as a whole, and
// so is all that follows.
//
// Or the file keeps what is newest: whoever writes begins a section now and then (SectionIsFull, BeginSection), and
// where a chunk does not fit, the oldest section is given up to make room. What is on the disk stays within the limit
// at every moment, and whoever reads the file finds at least the section before the last one, or, while that is being
// written, the one before. (Sections, and not single chunks: names and stacks that lie between records would stay for
// ever, a block of the file system each, and fill a file that is written for days.)
//
// Threading: one thread, that of its SpoolFile.
// Ownership: the buffer is its own, of one size; the file is the caller's.
// Errors: kept, and asked for with stopped() and error(); every call after the first failure does nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tracer/spool/spool_file.h"
#include "tracer/spool/spool_format.h"

namespace slipstream::tracer {

class ChunkWriter {
 public:
  // The header, and what stands at the end.
  static constexpr uint64_t kMinFileBytes = sizeof(SpoolHeader) + kReservedBytes;

  // The file never takes more than `limit` bytes, which are at least kMinFileBytes; but for KeepNewest it is never
  // longer.
  ChunkWriter(SpoolFile* file, uint64_t limit);

  bool valid() const { return buffer_ != nullptr; }
  // Why nothing more is written; kFinished: it still is.
  EndReason stopped() const { return stopped_; }
  int error() const { return error_; }
  uint64_t records() const { return written_records_ - given_up_records(); }  // that are in the file
  // Whose chunks were put together and then not written; without what the recorder itself adds (IsTold).
  uint64_t lost() const { return lost_records_; }

  // Before Start.
  void KeepNewest() { keep_newest_ = true; }
  bool keeps_newest() const { return keep_newest_; }
  void Start(uint64_t start_unix_ns);

  // That it is time for a new section, into which everything has to be written that its records refer to. Never where
  // nothing is given up.
  bool SectionIsFull() const { return keep_newest_ && section_records_bytes_ >= limit_ / kSections; }
  // `own_records`: of thread 0, so far; `now_ns`: no record before it is later. False: it does not fit; then nothing
  // does.
  bool BeginSection(uint64_t own_records, uint64_t now_ns);
  // Whether records that were in the file are not any more.
  bool gave_up() const { return gave_up_; }
  uint64_t given_up_records() const { return sections_.empty() ? 0 : sections_.front().records; }
  // Of the chunks from here on.
  void SetPass(uint64_t pass_ns) { pass_ns_ = pass_ns; }

  void Begin(ChunkKind kind);
  // Of the open chunk. PutBytes leaves out more than that; a caller that asks room() first never gets there.
  size_t room() const { return kMaxPayloadBytes - payload_; }
  void PutBytes(const void* bytes, size_t size);
  void PutNumber(uint32_t number) { PutBytes(&number, sizeof(number)); }
  void PutText(std::string_view text);
  // Where `size` bytes may be written; null when they do not fit.
  char* PutSpace(size_t size);
  // Overwrites what was put at `at` in the payload, for a count that is known only at the end.
  void Replace(size_t at, uint32_t number);
  size_t payload() const { return payload_; }
  // `records`: how many records are in it. False: it was left out.
  bool End(uint64_t records = 0);

  // Writes what is in the buffer. False: that failed.
  bool Flush();
  // There is always room for these two by the limit, and they are written at once. That nothing more is recorded, once,
  // where stopped() has a reason. False: it could not be written.
  bool Stop(const SpoolEnd& end) { return WriteEnd(ChunkKind::kStopped, end); }
  // The last chunk.
  bool Finish(const SpoolEnd& end) { return WriteEnd(ChunkKind::kEnd, end); }

 private:
  static constexpr size_t kBufferBytes = size_t{4} * (sizeof(ChunkHeader) + kMaxPayloadBytes);
  // A file holds about as many, of which one is given up at a time.
  static constexpr uint64_t kSections = 8;
  // File systems give back no less. Where their blocks are larger, more stays on the disk.
  static constexpr uint64_t kBlockBytes = 4096;

  struct Section {
    uint64_t at = 0;       // in the file
    uint64_t chunk = 0;    // the number of its first one
    uint64_t records = 0;  // before it
  };

  uint64_t BytesThere() const;
  bool GiveUpOldest();
  int AppendAlone(ChunkKind kind, const void* payload, size_t size);
  void Seal();
  bool WriteEnd(ChunkKind kind, const SpoolEnd& end);
  void WriteWhatFits();
  void CountLost(size_t at);

  SpoolFile* const file_;
  const uint64_t limit_;
  const std::unique_ptr<char[]> buffer_;
  size_t used_ = 0;  // whole chunks
  bool open_ = false;
  ChunkHeader header_;
  size_t payload_ = 0;  // of the open chunk, behind used_
  uint64_t next_number_ = 0;
  uint64_t written_number_ = 0;  // of these are in the file
  uint64_t pass_ns_ = 0;
  uint64_t buffered_records_ = 0;
  uint64_t written_records_ = 0;
  uint64_t lost_records_ = 0;
  bool keep_newest_ = false;
  std::vector<Section> sections_;  // that are there, the oldest first
  uint64_t section_records_bytes_ = 0;
  bool cannot_give_up_ = false;
  bool gave_up_ = false;
  EndReason stopped_ = EndReason::kFinished;
  int error_ = 0;
};

}  // namespace slipstream::tracer
