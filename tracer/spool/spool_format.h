// The format of a spool file: what one process recorded, in the order in which its writer thread got it. The file is
// appended to and never changed, so whatever was written survives any end of the process (S58).
//
//   SpoolHeader
//   ChunkHeader, payload, zeros up to a multiple of 8
//   ChunkHeader, payload, ...
//
// A file needs nothing beside it to be read: names, lines of the program and facts about the process are in chunks of
// their own, always in front of the first record that refers to them. The last chunk of a file that its writer finished
// is of kind kEnd; without it the last moments are missing. A recording that ended before its process did has a
// kStopped chunk, which says the same of that moment: behind it comes at most the kEnd chunk, when the process ends.
//
// A file that keeps the newest records is made of sections. Each begins with a kSection chunk and, before its first
// record, has all names, lines, stacks, threads and facts once more; so whatever is in front of a section can be taken
// away, and the rest is whole. Taken away means a hole in the file, behind its header, up to the beginning of a
// section. A kGivenUp chunk says so before it is done: a hole that no such chunk speaks of is damage.
//
// Damage costs the chunks that it is in: behind it, the next one is found by its magic, at a multiple of 8 from the one
// that is damaged, by its checksum, and by a number that is not lower than it may be.
//
// Numbers are in the byte order of the writer, which the header's magic shows. Times are nanoseconds of
// CLOCK_MONOTONIC, sizes bytes. A text is its length (uint32_t) and its bytes; nothing is aligned within a payload but
// records, which begin at a multiple of 8.
//
// What may change: a new kind of chunk, a new kind of record, more behind the fields of a record or of a payload.
// Readers skip what they do not know. Anything else is a new kSpoolFormat, or a new version of that kind of chunk or
// record. A reader knows one kSpoolFormat, and says of any other which slipstream to read it with.
//
// Threading: constants and plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tracer/base/counted.h"
#include "tracer/base/stack_numbers.h"

namespace slipstream::tracer {

inline constexpr uint64_t kSpoolMagic = 0x314c4f4f50535353;  // "SSSPOOL1"
inline constexpr uint32_t kSpoolFormat = 2;
inline constexpr uint32_t kChunkMagic = 0x4b4e4843;  // "CHNK"
inline constexpr char kSpoolSuffix[] = ".spool";

// More is a damaged length, never a chunk.
inline constexpr uint32_t kMaxPayloadBytes = 64U << 10;
// The longest name, file or argument list; the rest is cut off.
inline constexpr size_t kMaxSpoolText = 4096;

struct SpoolHeader {
  uint64_t magic = kSpoolMagic;
  uint32_t format = kSpoolFormat;
  uint32_t header_bytes = 32;  // where the first chunk begins
  uint64_t start_unix_ns = 0;  // of the recording
  uint32_t reserved = 0;
  uint32_t checksum = 0;  // Crc32c of the 28 bytes before
};
static_assert(sizeof(SpoolHeader) == 32 && std::has_unique_object_representations_v<SpoolHeader>);

enum class ChunkKind : uint16_t {
  kFacts = 1,      // count, then so often: key, value (texts); may come again, later ones stand
  kNames = 2,      // NameTable, count, then so often: number (uint32_t), text
  kSites = 3,      // count, then so often: site (uint32_t), line (int32_t), file, function (texts)
  kThread = 4,     // number, system's number (uint32_t), name (text), how many records came from it before (uint64_t):
                   // before the thread's first record, and in each section before its first one there
  kRecords = 5,    // RecordsHead, then the records
  kThreadEnd = 6,  // ThreadEnd: nothing more comes from this thread
  kEnd = 7,        // SpoolEnd: nothing more comes at all
  kStacks = 8,     // count, then so often: stack, parent, site (uint32_t); see below
  kModules = 9,    // count, then so often: module (uint32_t), where it begins and ends in the process (uint64_t), path,
                   // build-id (texts; the latter in bytes, empty where it has none)
  kAddresses = 10,   // count, then so often: address, module (uint32_t), offset (uint64_t); see below
  kActivities = 11,  // RecordsHead of thread 0, then records of what devices did (activity_record.h)
  kStopped = 12,     // SpoolEnd: nothing more is recorded, and the process goes on
  kSection = 13,     // SpoolSection: everything behind it is whole without what is in front of it
  kGivenUp = 14,     // GivenUp: what is in front of a section has been taken away, or will be now
  kCounters = 15,  // NameTable (kHooks, kDecisions), count, then so often: CountersEntry. Behind all records of a file
                   // that its writer finished; without one nothing was counted, or not all of it was recorded
};
inline constexpr uint16_t kLastChunkKind = 15;
inline constexpr uint16_t kChunkVersion = 1;  // of each kind so far

// Numbers that records carry, and whose names a kNames chunk has.
enum class NameTable : uint32_t {
  kHooks = 1,
  kDecisions = 2,
  kKernels = 3,
  kDriverFunctions = 4,
  kRanges = 5,
  kLibraries = 6,
  kCallers = 7
};

struct ChunkHeader {
  uint32_t magic = kChunkMagic;
  uint32_t checksum = 0;  // Crc32c of the rest of this header and of the payload
  uint32_t payload_bytes = 0;
  uint16_t kind = 0;
  uint16_t version = kChunkVersion;
  uint64_t number = 0;   // counted from 0
  uint64_t pass_ns = 0;  // when the writer began its round: what was in a ring by then has been written once a chunk
                         // with a later time follows
};
static_assert(sizeof(ChunkHeader) == 32 && std::has_unique_object_representations_v<ChunkHeader>);
inline constexpr size_t kChecksumFrom = offsetof(ChunkHeader, payload_bytes);

struct RecordsHead {
  uint32_t thread = 0;        // number of a kThread chunk; 0: the writer's own
  uint32_t record_bytes = 0;  // from one to the next
  uint64_t first = 0;         // how many came from this thread before, of either kind of chunk
  uint32_t count = 0;
  uint16_t version = 0;  // kRecordVersion, or kActivityVersion
  uint16_t reserved = 0;
};
static_assert(sizeof(RecordsHead) == 24 && std::has_unique_object_representations_v<RecordsHead>);

struct ThreadEnd {
  uint32_t thread = 0;
  uint32_t reserved = 0;
  uint64_t records = 0;  // that came from it, its drop records included
  uint64_t dropped = 0;  // the thread's own count: with those that found no room for a drop record
};
static_assert(sizeof(ThreadEnd) == 24 && std::has_unique_object_representations_v<ThreadEnd>);

// Of what came before it.
struct SpoolSection {
  uint64_t records = 0;      // of all threads
  uint64_t own_records = 0;  // of thread 0
  uint64_t made_ns = 0;      // what ended later is not in front of it
};
static_assert(sizeof(SpoolSection) == 24 && std::has_unique_object_representations_v<SpoolSection>);

struct GivenUp {
  uint64_t before_chunk = 0;  // the number of a kSection chunk: chunks with a lower one are given up
};
static_assert(sizeof(GivenUp) == 8 && std::has_unique_object_representations_v<GivenUp>);

// What the process counted from the beginning of the recording on. Each call and decision is recorded before it is
// counted, so records and what is known to be missing are at least `at_least`, which was read while everything was
// recorded; and but for what a thread had recorded and not yet counted, they are at most `at_most`, which was read
// behind the last record. In between the recording ended. An entry has a name in its table; who has none counted
// nothing.
struct CountersEntry {
  uint32_t number = 0;
  uint32_t reserved = 0;
  Counted at_least;
  Counted at_most;
};
static_assert(sizeof(CountersEntry) == 72 && std::has_unique_object_representations_v<CountersEntry>);

enum class EndReason : uint32_t {
  kFinished = 1,  // asked to
  kLimit = 2,     // the file has the size that it may have
  kError = 3,     // writing failed; `error` says how
};

struct SpoolEnd {
  uint32_t reason = 0;   // EndReason
  int32_t error = 0;     // an errno, or 0
  uint64_t records = 0;  // that are in the file
  uint64_t dropped = 0;  // that are not, as far as the writer knows
  // Calls after the recording had ended by itself; they are not in `dropped`. In a kEnd chunk.
  uint64_t later_calls = 0;
  uint64_t given_up_records = 0;  // that were in the file; neither in `records` nor in `dropped`
};
static_assert(sizeof(SpoolEnd) == 40 && std::has_unique_object_representations_v<SpoolEnd>);
// Older files have no more of it.
inline constexpr size_t kLeastEndPayload = offsetof(SpoolEnd, later_calls);

constexpr size_t PaddedBytes(size_t bytes) { return (bytes + 7) / 8 * 8; }
inline constexpr size_t kEndBytes = sizeof(ChunkHeader) + sizeof(SpoolEnd);
// A file's limit leaves room for this: kGivenUp, kStopped and kEnd.
inline constexpr size_t kReservedBytes = sizeof(ChunkHeader) + sizeof(GivenUp) + 2 * kEndBytes;

}  // namespace slipstream::tracer
