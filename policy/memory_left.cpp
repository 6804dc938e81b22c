#include "policy/memory_left.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>

#include "policy/system_file.h"

namespace slipstream::policy {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kPinnedIsOneIn = 8;

// The number in a file of one; `otherwise` where there is none, as in "max".
uint64_t NumberIn(const std::string& file, uint64_t otherwise) {
  std::istringstream stream(ReadSystemFile(file));
  uint64_t number = 0;
  return stream >> number ? number : otherwise;
}

// Of lines "name number ...", the number; 0: no such line.
uint64_t Field(const std::string& file, std::string_view name) {
  std::istringstream stream(ReadSystemFile(file));
  std::string line;
  while (std::getline(stream, line)) {
    std::istringstream words(line);
    std::string word;
    uint64_t number = 0;
    if (words >> word >> number && word == name) return number;
  }
  return 0;
}

struct Names {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // in memory.stat: pages of files that the kernel takes back first
};
constexpr Names kUnified = {"/memory.max", "/memory.current", "inactive_file"};
constexpr Names kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};

uint64_t LeftIn(const std::string& cgroup, const Names& names) {
  const uint64_t limit = NumberIn(cgroup + names.limit, kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t usage = NumberIn(cgroup + names.usage, 0);
  const uint64_t needed = usage - std::min(usage, Field(cgroup + "/memory.stat", names.reclaimable));
  return limit - std::min(limit, needed);
}

// The cgroup and all above it. In a container the path may be one that only the host knows: then what is found is the
// mount's own, which is the container's.
uint64_t LeftUpFrom(const std::string& mount, std::string path, const Names& names) {
  uint64_t left = LeftIn(mount, names);
  while (path.size() > 1 && path.front() == '/') {
    left = std::min(left, LeftIn(mount + path, names));
    path.resize(path.rfind('/'));
  }
  return left;
}

}  // namespace

uint64_t MemoryLeft(const std::string& root) {
  uint64_t left = kUnlimited;
  if (const uint64_t available = Field(root + "/proc/meminfo", "MemAvailable:"); available != 0) left = available << 10;
  // Lines "number:controllers:path"; of the unified hierarchy "0::path".
  std::istringstream cgroups(ReadSystemFile(root + "/proc/self/cgroup"));
  std::string line;
  while (std::getline(cgroups, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      left = std::min(left, LeftUpFrom(root + "/sys/fs/cgroup", path, kUnified));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, LeftUpFrom(root + "/sys/fs/cgroup/memory", path, kVersion1));
    }
  }
  return left;
}

uint64_t MostPinned(uint64_t left, uint64_t pinned, int ranks_here) {
  const uint64_t all = left > kUnlimited - pinned ? kUnlimited : left + pinned;
  return all / kPinnedIsOneIn / static_cast<uint64_t>(std::max(ranks_here, 1));
}

bool MappingsAreLimited(const std::string& root) {
  constexpr uint64_t kNeverOvercommits = 2;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit = {};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return true;
  }
  return NumberIn(root + "/proc/sys/vm/overcommit_memory", 0) == kNeverOvercommits;
}

}  // namespace slipstream::policy
