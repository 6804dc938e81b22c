// Which file of the process the code that makes a call is from, as a number whose text is the file's path; the program
// itself has an empty one, as the dynamic linker calls it.
//
// Threading: any thread, lock-free, no allocation, and not the loader's lock either (_dl_find_object).
// Ownership: destroyed only where nobody has a number of it.
// Errors: an address in no file of the process's is RangeNames::kUnknown, and so is one for whose path there is no
// room.
// Hazard: what is loaded where a library was unloaded may be taken for that.
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
  // The caller above, its number below, in one word each: an address of a program's has 47 bits. A place that two
  // callers have in common is looked up anew each time that they take turns.
  std::array<std::atomic<uint64_t>, kPlaces> known_{};
};

}  // namespace slipstream::tracer
