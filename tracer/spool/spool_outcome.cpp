#include "tracer/spool/spool_outcome.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "policy/number.h"
#include "tracer/base/crc32c.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::tracer {
namespace {

// Files with fewer records are read through, so that one that holds nothing of the program's is known for what it is.
constexpr uint64_t kFewRecords = 4096;

// The last chunk of a file that was finished. Nothing else than a whole one has its checksum.
bool ReadEnd(int fd, uint64_t bytes, SpoolEnd* end) {
  char last[kEndBytes];
  if (bytes < sizeof(SpoolHeader) + kEndBytes ||
      pread(fd, last, sizeof(last), static_cast<off_t>(bytes - kEndBytes)) != static_cast<ssize_t>(sizeof(last))) {
    return false;
  }
  ChunkHeader header;
  std::memcpy(&header, last, sizeof(header));
  if (header.magic != kChunkMagic || header.kind != static_cast<uint16_t>(ChunkKind::kEnd) ||
      header.version != kChunkVersion || header.payload_bytes != sizeof(*end) ||
      header.checksum != Crc32c(0, last + kChecksumFrom, sizeof(last) - kChecksumFrom)) {
    return false;
  }
  std::memcpy(end, last + sizeof(header), sizeof(*end));
  return true;
}

}  // namespace

SpoolOutcome OutcomeOf(const std::string& path) {
  SpoolOutcome outcome;
  const std::unique_ptr<SpoolReader> reader = SpoolReader::Open(path, &outcome.problem);
  if (reader == nullptr) return outcome;
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  struct stat facts {};
  SpoolEnd end;
  uint64_t on_disk = 0;
  if (fd >= 0 && fstat(fd, &facts) == 0) {
    constexpr uint64_t kStatBlock = 512;
    outcome.bytes = static_cast<uint64_t>(facts.st_size);
    on_disk = static_cast<uint64_t>(facts.st_blocks) * kStatBlock;
  }
  const bool finished = fd >= 0 && ReadEnd(fd, outcome.bytes, &end);
  if (fd >= 0) close(fd);
  if (finished && end.records >= kFewRecords) {
    outcome.records = end.records;
    outcome.dropped = end.dropped;
    outcome.complete = true;
    outcome.reason = static_cast<EndReason>(end.reason);
    outcome.error = end.error;
    outcome.later_calls = end.later_calls;
    outcome.later_calls_known = true;
    outcome.given_up_records = end.given_up_records;
    if (outcome.given_up_records != 0) outcome.bytes = std::min(outcome.bytes, on_disk);
    return outcome;
  }
  outcome.has_calls = false;
  SpoolRecord record;
  while (reader->Next(&record)) outcome.has_calls |= record.record.kind == RecordKind::kCall;
  const auto fact = [&](const char* key) -> std::string_view {
    const auto at = reader->facts().find(key);
    return at != reader->facts().end() ? std::string_view(at->second) : std::string_view();
  };
  outcome.pid = policy::NumberIn<int64_t>(fact(kFactPid)).value_or(0);
  outcome.started_ticks = policy::NumberIn<uint64_t>(fact(kFactStartTicks)).value_or(0);
  outcome.boot = fact(kFactBootId);
  outcome.records = reader->end().records;
  outcome.dropped = reader->end().dropped;
  outcome.complete = reader->end().complete;
  outcome.reason = reader->end().reason;
  outcome.error = reader->end().error;
  outcome.later_calls = reader->end().later_calls;
  outcome.later_calls_known = reader->end().later_calls_known;
  outcome.given_up_records = reader->end().given_up_records;
  if (outcome.given_up_records != 0) outcome.bytes = std::min(outcome.bytes, on_disk);
  outcome.left_why = reader->end().left_why;
  outcome.damaged = reader->end().damaged_bytes != 0 || reader->end().missing_chunks != 0;
  return outcome;
}

}  // namespace slipstream::tracer
