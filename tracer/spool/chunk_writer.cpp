#include "tracer/spool/chunk_writer.h"

#include <array>
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
  sections_ = {{.at = sizeof(header)}};
}

bool ChunkWriter::BeginSection(uint64_t own_records, uint64_t now_ns) {
  sections_.reserve(sections_.size() + 1);
  Begin(ChunkKind::kSection);
  const SpoolSection section = {
      .records = written_records_ + buffered_records_, .own_records = own_records, .made_ns = now_ns};
  PutBytes(&section, sizeof(section));
  if (!End()) return false;
  sections_.push_back({.at = file_->size() + used_ - sizeof(ChunkHeader) - sizeof(section),
                       .chunk = next_number_ - 1,
                       .records = section.records});
  section_records_bytes_ = 0;
  return true;
}

// What the file takes on the disk with what is in the buffer, at most. The first block, which has the header, and the
// one in which the oldest section begins are never given back as a whole.
uint64_t ChunkWriter::BytesThere() const {
  const uint64_t first_block = sections_.empty() ? 0 : sections_.front().at / kBlockBytes;
  const uint64_t hole = first_block > 1 ? (first_block - 1) * kBlockBytes : 0;
  return file_->size() + used_ - hole;
}

// There is an open chunk, which stays. The notice is in the file before anything is taken away: whoever finds the hole,
// at whatever moment the process was killed, finds the notice behind it. The other way round, a hole would be damage
// for as long as the notice takes. A notice without its hole does no harm: what is there is read.
bool ChunkWriter::GiveUpOldest() {
  if (!keep_newest_ || cannot_give_up_ || sections_.size() < 2) return false;
  const size_t open_at = used_;
  if (!Flush()) return false;
  std::memmove(buffer_.get() + sizeof(ChunkHeader), buffer_.get() + open_at + sizeof(ChunkHeader), payload_);
  const Section& next = sections_[1];
  const GivenUp given_up = {.before_chunk = next.chunk};
  error_ = AppendAlone(ChunkKind::kGivenUp, &given_up, sizeof(given_up));
  if (error_ != 0) {
    stopped_ = EndReason::kError;
    return false;
  }
  // From the beginning of the block, which the last time left because it was needed.
  const uint64_t oldest = sections_.front().at;
  const uint64_t from = oldest < kBlockBytes ? oldest : oldest / kBlockBytes * kBlockBytes;
  if (file_->GiveBack(from, next.at) != 0) {
    cannot_give_up_ = true;
    return false;
  }
  sections_.erase(sections_.begin());
  gave_up_ = true;
  return true;
}

void ChunkWriter::Begin(ChunkKind kind) {
  if (kBufferBytes - used_ < sizeof(ChunkHeader) + kMaxPayloadBytes) Flush();
  open_ = stopped_ == EndReason::kFinished;
  header_ = {.kind = static_cast<uint16_t>(kind), .pass_ns = pass_ns_};
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
  header_.number = next_number_;
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
  const uint64_t size = sizeof(ChunkHeader) + PaddedBytes(payload_);
  while (BytesThere() + size + kReservedBytes > limit_) {
    if (GiveUpOldest()) continue;
    if (stopped_ == EndReason::kFinished) stopped_ = EndReason::kLimit;
    open_ = false;
    return false;
  }
  Seal();
  buffered_records_ += records;
  if (records != 0) section_records_bytes_ += size;
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
  return AppendAlone(kind, &end, sizeof(end)) == 0;
}

// A small one, at once; there is none in the buffer that would have to come before it. 0, or an errno.
int ChunkWriter::AppendAlone(ChunkKind kind, const void* payload, size_t size) {
  ChunkHeader header = {.payload_bytes = static_cast<uint32_t>(size),
                        .kind = static_cast<uint16_t>(kind),
                        .number = next_number_,
                        .pass_ns = pass_ns_};
  std::array<char, kEndBytes> bytes{};
  std::memcpy(bytes.data() + sizeof(header), payload, size);
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.checksum = Crc32c(0, bytes.data() + kChecksumFrom, sizeof(header) - kChecksumFrom + size);
  std::memcpy(bytes.data(), &header, sizeof(header));
  const int error = file_->Append(bytes.data(), sizeof(header) + PaddedBytes(size));
  if (error == 0) {
    written_number_ = ++next_number_;
  } else {
    next_number_ = written_number_;
  }
  return error;
}

}  // namespace slipstream::tracer
