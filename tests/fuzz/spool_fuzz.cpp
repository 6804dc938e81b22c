// The reader of spool files.
#include "tests/fuzz/spool_input.h"

namespace slipstream::fuzz {

namespace {

// That are read while the file grows by a third of it at a time.
uint64_t FollowedRecords(const std::string& bytes) {
  std::string error;
  const auto reader = tracer::SpoolReader::Open(FileOf(bytes, "grows.spool"), &error);
  if (reader == nullptr) return 0;
  uint64_t records = 0;
  tracer::SpoolRecord next;
  reader->Follow(true);
  for (const size_t part : {1, 2, 3}) {
    FileOf(bytes.substr(0, bytes.size() * part / 3), "grows.spool");
    while (reader->Next(&next)) ++records;
  }
  reader->Follow(false);
  while (reader->Next(&next)) ++records;
  return records;
}

}  // namespace

std::vector<std::string> Seeds() { return SpoolSeeds(); }

void OneInput(std::string_view given) {
  const std::string bytes = Repaired(given);
  std::string error;
  const auto reader = tracer::SpoolReader::Open(FileOf(bytes, "a.spool"), &error);
  if (reader == nullptr) {
    Must(!error.empty(), "it says why it is no spool");
    return;
  }
  uint64_t records = 0;
  tracer::SpoolRecord next;
  while (reader->Next(&next)) {
    ++records;
    for (uint32_t table = 0; table < 8; ++table) {
      reader->NameOf(static_cast<tracer::NameTable>(table), next.record.hook);
    }
    reader->SiteOf(next.record.site);
    const auto both = reader->BothOf(next.record.stack);
    for (uint32_t stack : {both.python, both.native}) {
      uint32_t last = stack + 1;
      while (const tracer::SpoolStack* const frame = reader->StackOf(stack)) {
        Must(stack < last, "a stack's parent has a lower number");
        last = stack;
        const uint32_t number = frame->site & ~tracer::kNativeSpoolSite;
        if (const tracer::SpoolAddress* const address = reader->AddressOf(number)) reader->ModuleOf(address->module);
        stack = frame->parent;
      }
    }
    Must(next.thread == 0 || reader->threads().count(next.thread) == 1, "a record's thread is known");
  }
  Must(reader->end().records == records, "it counts what it hands out");
  Must(reader->end().damaged_bytes <= reader->end().read_bytes, "what is passed over was read");
  Must(FollowedRecords(bytes) == records, "who follows a file that grows reads the same");
  Must(reader->end().read_bytes + reader->end().left_bytes == bytes.size(), "all bytes are read or left");
}

}  // namespace slipstream::fuzz
