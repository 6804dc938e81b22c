// Numbers for texts that a program gives while it runs (the names of its NVTX ranges): the same text has the same
// number for good, and the text can be read back at any later time.
//
// Threading: any thread, lock-free: no lock can be left held by a fork or a killed thread. If two threads give a text
// at once for the first time, it may use its room twice.
// Ownership: memory is reserved once, and touched as it is needed. Only tests give it back.
// Errors: without room a text is kUnknown, and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slipstream::tracer {

class RangeNames {
 public:
  static constexpr uint32_t kUnknown = 0;
  // Longer texts are cut.
  static constexpr size_t kMaxTextBytes = 1024;

  struct Limits {
    uint32_t names = 1U << 14;  // a power of two, at least 2
    size_t bytes = size_t{2} << 20;
  };

  // Null when there is no memory.
  static RangeNames* Create(const Limits& limits);
  ~RangeNames();
  RangeNames(const RangeNames&) = delete;
  RangeNames& operator=(const RangeNames&) = delete;

  // No allocation, no lock.
  uint32_t Intern(std::string_view text);
  // False if it is not the number of a name, or if the name is still being written. The text lives as long as this
  // object.
  bool Describe(uint32_t name, std::string_view* text) const;

  // Numbers are 1 to size() - 1.
  uint32_t size() const { return count_.load(std::memory_order_acquire); }
  // How often Intern returned kUnknown.
  uint64_t unknown() const { return unknown_.load(std::memory_order_relaxed); }

 private:
  struct Name {
    std::atomic<uint32_t> is_written;
    uint32_t bytes;
    uint64_t hash;
    size_t at;
  };

  RangeNames(const Limits& limits, char* memory, size_t memory_bytes);
  uint32_t Write(std::string_view text, uint64_t hash);

  const Limits limits_;
  char* const memory_;
  const size_t memory_bytes_;
  std::atomic<uint32_t> count_{1};  // 0 is kUnknown
  std::atomic<size_t> used_bytes_{0};
  std::atomic<uint64_t> unknown_{0};
  // In memory_, which begins as zeros.
  std::atomic<uint32_t>* slots_;  // a name; 0 is free. Twice as many as names
  Name* names_;
  char* texts_;
};

}  // namespace slipstream::tracer
