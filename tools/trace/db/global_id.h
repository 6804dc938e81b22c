// Process and thread identifiers as Nsight Systems packs them: hardware 8 bits, virtual machine 8, process 24, thread
// 24, so that pid = (globalTid >> 24) & 0xFFFFFF and tid = globalTid & 0xFFFFFF.
// Source: Post-Collection Analysis Guide, "Common SQLite Examples", Serialized Process and Thread Identifiers.
//
// Here the hardware is the host. A host may have had two processes of one number (after exec, or when the system gives
// numbers anew); the second one is put into a virtual machine of its own, so that no two processes share a globalPid.
//
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace slipstream::trace_db {

inline constexpr int64_t kIdMask = 0xFFFFFF;

constexpr int64_t GlobalTid(int64_t global_pid, uint32_t thread) {
  return global_pid | (static_cast<int64_t>(thread) & kIdMask);
}

// Of a host as a whole, by its place among the hosts: its first virtual machine.
constexpr int64_t GlobalVid(uint64_t host) { return static_cast<int64_t>(host % 128 << 56 | uint64_t{1} << 48); }

class GlobalPids {
 public:
  // One that nobody has got before, as long as there are any. The top bit stays 0, because SQLite's numbers have a
  // sign: from the 129th host on, hosts share numbers.
  int64_t Give(uint64_t host, int64_t pid) {
    constexpr uint64_t kPlaces = uint64_t{1} << 15;  // of hardware and virtual machine
    const uint64_t first = (host % 128) << 8 | 1;
    const auto id = [pid](uint64_t place) { return static_cast<int64_t>(place << 48) | (pid & kIdMask) << 24; };
    // Places are looked at once each, however often a number comes.
    for (uint64_t& tried = tried_[id(first)]; tried < kPlaces; ++tried) {
      const int64_t next = id((first + tried) % kPlaces);
      if (given_.insert(next).second) return next;
    }
    return id(first);
  }

 private:
  std::set<int64_t> given_;
  std::map<int64_t, uint64_t> tried_;  // by the place that a host and a number begin at
};

}  // namespace slipstream::trace_db
