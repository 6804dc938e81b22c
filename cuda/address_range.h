// Ranges of host addresses.
//
// Threading: values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream::cuda {

struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;  // one past it

  static AddressRange Of(const void* address, size_t bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    return {begin, begin + bytes};
  }
  static constexpr AddressRange All() { return {0, UINTPTR_MAX}; }

  bool Overlaps(const AddressRange& other) const { return begin < other.end && other.begin < end; }
  bool Contains(const AddressRange& other) const { return begin <= other.begin && other.end <= end; }

  // The smallest range that holds both.
  AddressRange Cover(const AddressRange& other) const {
    return {begin < other.begin ? begin : other.begin, end > other.end ? end : other.end};
  }
};

}  // namespace slipstream::cuda
