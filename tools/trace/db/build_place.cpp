#include "tools/trace/db/build_place.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>

namespace slipstream::trace_db {
namespace {

// Of the tables themselves, and what a short run's names and devices take.
constexpr uint64_t kLeastBytes = uint64_t{1} << 20;

}  // namespace

RoomNeeded RoomNeededFor(uint64_t spool_bytes) {
  return {.database = kLeastBytes + spool_bytes / 5 * 13, .sorting = spool_bytes / 2};
}

// Blocks on the disk would not do: some file systems compress.
uint64_t BytesToRead(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return 0;
  uint64_t bytes = 0;
  for (off_t at = 0;;) {
    const off_t data = lseek(fd, at, SEEK_DATA);
    const off_t hole = data >= 0 ? lseek(fd, data, SEEK_HOLE) : -1;
    if (hole <= data) break;
    bytes += static_cast<uint64_t>(hole - data);
    at = hole;
  }
  close(fd);
  return bytes;
}

Place PlaceOf(const std::string& folder, const struct statfs& facts) {
  Place place = {.folder = folder};
  // A file system that counts no blocks at all (some of FUSE's) does not say how full it is.
  place.free_bytes = facts.f_blocks == 0 ? std::numeric_limits<uint64_t>::max()
                                         : static_cast<uint64_t>(facts.f_bavail) * static_cast<uint64_t>(facts.f_bsize);
  const auto type = static_cast<uint32_t>(facts.f_type);  // with a sign on some machines
  place.in_memory = type == TMPFS_MAGIC || type == RAMFS_MAGIC;
  return place;
}

std::optional<Place> LookAtPlace(const std::string& folder) {
  struct statfs facts {};
  if (access(folder.c_str(), W_OK | X_OK) != 0 || statfs(folder.c_str(), &facts) != 0) return std::nullopt;
  return PlaceOf(folder, facts);
}

Choice ChoosePlace(std::span<const Place> places, const RoomNeeded& needed) {
  std::optional<size_t> with_room;
  size_t most = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    const bool has_room = place.free_bytes >= needed.all();
    if (has_room && (!place.in_memory || needed.all() <= kLittleBytes)) return {i, Fit::kWell};
    if (has_room && !with_room) with_room = i;
    const Place& before = places[most];
    const bool is_better =
        place.in_memory == before.in_memory ? place.free_bytes > before.free_bytes : before.in_memory;
    if (is_better) most = i;
  }
  if (with_room) return {*with_room, Fit::kInMemory};
  return {most, Fit::kTight};
}

}  // namespace slipstream::trace_db
