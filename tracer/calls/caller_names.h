// Numbers for the files whose code makes calls; the text of a number is the file's path. The program itself has an
// empty path, as the dynamic linker has it.
//
// Threading: any thread, lock-free, no allocation, and not the loader's lock either (base/loaded_object_at.h).
// Ownership: destroyed only where nobody has a number of it.
// Errors: RangeNames::kUnknown for an address in no file of the process, for every one with a glibc before 2.35, or if
//   there is no room for the path.
// Hazard: a library that is loaded where another one was unloaded may be taken for that one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/spool/range_names.h"

namespace slipstream::tracer {

class CallerNames {
 public:
  // Null when there is no memory.
  static CallerNames* Create();
  ~CallerNames() { delete names_; }
  CallerNames(const CallerNames&) = delete;
  CallerNames& operator=(const CallerNames&) = delete;

  uint32_t Of(const void* caller);
  const RangeNames* names() const { return names_; }

 private:
  static constexpr size_t kPlaces = 512;

  explicit CallerNames(RangeNames* names) : names_(names) {}

  RangeNames* const names_;
  // The caller above, its number below, in one word each: an address of a program's has 47 bits. Two callers that share
  // a slot are looked up again each time that they take turns.
  std::array<std::atomic<uint64_t>, kPlaces> known_{};
};

}  // namespace slipstream::tracer
