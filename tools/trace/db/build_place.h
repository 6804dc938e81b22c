// Where a database of a run can be built: how large it will be, and which of several places has room for it that is no
// memory.
//
// Threading: pure functions, but for LookAtPlace, which asks the system.
#pragma once

#include <sys/vfs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace slipstream::trace_db {

// Bytes.
struct RoomNeeded {
  uint64_t database = 0;
  uint64_t sorting = 0;  // SQLite's own files while indices are made; in the same place (database.h)
  uint64_t all() const { return database + sorting; }
};

// Of a run whose spools have so many bytes; rather too much than too little.
//
// A record has 64 bytes in a spool (trace_record.h), one of device work 80 (activity_record.h). Its rows and their part
// of all indices have, on pages that are full, with times of a minute, millions of calls and all columns that a trace
// fills: a call with its line 113 bytes, with both stacks 142, the decision of a call 18 more; a kernel 84, an
// allocation 76, a copy 67, an NVTX range 56, a decision of its own 43. So a call has the most: (142 + 18) / 64 = 2.5,
// and 2.6 is for longer runs. bench/trace_build.py prints the ratio.
// What is sorted at a time is the index of calls by time, 16 bytes a call, which SQLite has twice while it merges.
RoomNeeded RoomNeededFor(uint64_t spool_bytes);

// What a file has to read: its length without its holes, of which a trace that keeps the newest (tracer.keep) has a
// long one. 0: it cannot be read.
uint64_t BytesToRead(const std::string& path);

// A directory in which this process may make files.
struct Place {
  std::string folder;
  uint64_t free_bytes = 0;  // for this user
  bool in_memory = false;   // tmpfs, ramfs: what is written takes memory away
};
Place PlaceOf(const std::string& folder, const struct statfs& facts);
// None: there is no such directory, or nothing can be written there.
std::optional<Place> LookAtPlace(const std::string& folder);

// What takes no more than this may lie in memory.
inline constexpr uint64_t kLittleBytes = uint64_t{256} << 20;

enum class Fit : uint8_t {
  kWell,
  kInMemory,  // there is room, but only in memory, and it is much
  kTight,     // there does not seem to be as much room anywhere
};
struct Choice {
  size_t place = 0;
  Fit fit = Fit::kWell;
  bool operator==(const Choice&) const = default;
};
// The first place that fits well, else the first with room, else the one with the most room, of those that are no
// memory if there are any. There must be a place.
Choice ChoosePlace(std::span<const Place> places, const RoomNeeded& needed);

}  // namespace slipstream::trace_db
