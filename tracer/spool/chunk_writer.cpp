#include "tracer/spool/chunk_writer.h"

#include <cstring>
#include <new>

#include "tracer/base/crc32c.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {
namespace {

bool HoldsRecords(const ChunkHeader& header) {
  return header.kind == static_cast<uint16_t>(ChunkKind::kRecords) ||
         header.kind == static_cast<uint16_t>(ChunkKind::kActivities);
}

}  // namespace

ChunkWriter::ChunkWriter(SpoolFile* file, uint64_t limit)
    : file_(file), limit_(limit), buffer_(new (std::nothrow) char[kBufferBytes]) {}

void ChunkWriter::Start(uint64_t start_unix_ns) {
  SpoolHeader header{.start_unix_ns = start_unix_ns};
  header.checksum = Crc32c(0, &header, offsetof(SpoolHeader, checksum));
  error_ = file_->Append(&header, sizeof(header));
  if (error_ != 0) stopped_ = EndReason::kError;
}

void ChunkWriter::Begin(ChunkKind kind) {
  if (kBufferBytes - used_ < sizeof(ChunkHeader) + kMaxPayloadBytes) Flush();
  open_ = stopped_ == EndReason::kFinished;
  header_ = {.kind = static_cast<uint16_t>(kind), .number = next_number_, .pass_ns = pass_ns_};
  payload_ = 0;
}

char* ChunkWriter::PutSpace(size_t size) {
  if (!open_ || size > room()) return nullptr;
  char* const to = buffer_.get() + used_ + sizeof(ChunkHeader) + payload_;
  payload_ += size;
  return to;
}

void ChunkWriter::PutBytes(const void* bytes, size_t size) {
  char* const to = PutSpace(size);
  if (to != nullptr && size != 0) std::memcpy(to, bytes, size);
}

void ChunkWriter::PutText(std::string_view text) {
  text = text.substr(0, kMaxSpoolText);
  PutNumber(static_cast<uint32_t>(text.size()));
  PutBytes(text.data(), text.size());
}

void ChunkWriter::Replace(size_t at, uint32_t number) {
  if (!open_ || at + sizeof(number) > payload_) return;
  std::memcpy(buffer_.get() + used_ + sizeof(ChunkHeader) + at, &number, sizeof(number));
}

// Behind it the buffer may hold another chunk.
void ChunkWriter::Seal() {
  char* const at = buffer_.get() + used_;
  header_.payload_bytes = static_cast<uint32_t>(payload_);
  std::memcpy(at, &header_, sizeof(header_));
  header_.checksum = Crc32c(0, at + kChecksumFrom, sizeof(header_) - kChecksumFrom + payload_);
  std::memcpy(at, &header_, sizeof(header_));
  std::memset(at + sizeof(header_) + payload_, 0, PaddedBytes(payload_) - payload_);
  used_ += sizeof(header_) + PaddedBytes(payload_);
  ++next_number_;
  open_ = false;
}

bool ChunkWriter::End(uint64_t records) {
  if (!open_) return false;
  const uint64_t with_it = file_->size() + used_ + sizeof(ChunkHeader) + PaddedBytes(payload_);
  if (with_it + kReservedBytes > limit_) {
    stopped_ = EndReason::kLimit;
    open_ = false;
    return false;
  }
  Seal();
  buffered_records_ += records;
  return true;
}

bool ChunkWriter::Flush() {
  if (stopped_ == EndReason::kError) return false;
  if (used_ == 0) return true;
  error_ = file_->Append(buffer_.get(), used_);
  if (error_ != 0) {
    stopped_ = EndReason::kError;
    WriteWhatFits();
  } else {
    written_number_ = next_number_;
    written_records_ += buffered_records_;
  }
  used_ = 0;
  buffered_records_ = 0;
  return error_ == 0;
}

// There may be room for some of the chunks, one after the other.
void ChunkWriter::WriteWhatFits() {
  size_t first_lost = 0;
  for (size_t at = 0; at < used_;) {
    ChunkHeader header;
    std::memcpy(static_cast<void*>(&header), buffer_.get() + at, sizeof(header));
    const size_t size = sizeof(header) + PaddedBytes(header.payload_bytes);
    if (file_->Append(buffer_.get() + at, size) != 0) break;
    ++written_number_;
    if (HoldsRecords(header)) {
      RecordsHead head;
      std::memcpy(static_cast<void*>(&head), buffer_.get() + at + sizeof(header), sizeof(head));
      written_records_ += head.count;
    }
    at += size;
    first_lost = at;
  }
  CountLost(first_lost);
}

// From `at` on, chunks that are not in the file.
void ChunkWriter::CountLost(size_t at) {
  while (at < used_) {
    ChunkHeader header;
    std::memcpy(static_cast<void*>(&header), buffer_.get() + at, sizeof(header));
    if (HoldsRecords(header)) {
      const char* next = buffer_.get() + at + sizeof(header);
      RecordsHead head;
      std::memcpy(static_cast<void*>(&head), next, sizeof(head));
      next += sizeof(head);
      const bool are_activities = header.kind == static_cast<uint16_t>(ChunkKind::kActivities);
      if (are_activities) lost_records_ += head.count;
      for (uint32_t i = 0; i < head.count && !are_activities; ++i, next += sizeof(TraceRecord)) {
        TraceRecord record;
        std::memcpy(static_cast<void*>(&record), next, sizeof(record));
        lost_records_ += IsTold(record.kind) ? 1 : 0;
      }
    }
    at += sizeof(header) + PaddedBytes(header.payload_bytes);
  }
}

bool ChunkWriter::WriteEnd(ChunkKind kind, const SpoolEnd& end) {
  // What was cut off again may have made room for this one.
  if (!Flush()) next_number_ = written_number_;
  header_ = {.kind = static_cast<uint16_t>(kind), .number = next_number_, .pass_ns = pass_ns_};
  std::memcpy(buffer_.get() + sizeof(ChunkHeader), &end, sizeof(end));
  payload_ = sizeof(end);
  Seal();
  const size_t size = used_;
  used_ = 0;
  const bool written = file_->Append(buffer_.get(), size) == 0;
  if (written) {
    written_number_ = next_number_;
  } else {
    next_number_ = written_number_;
  }
  return written;
}

}  // namespace slipstream::tracer
