// Bytes from a number. Optimized, unlike tests: much of what they do is to fill memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace slipstream::test {

inline uint64_t Mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9FB21C651E98DF25u;
  return hash ^ (hash >> 32);
}

// Calls visit(offset, bytes) for each group of 8 bytes and for the rest.
template <typename Visit>
void ForWords(size_t bytes, const Visit& visit) {
  size_t offset = 0;
  for (; offset + 8 <= bytes; offset += 8) visit(offset, size_t{8});
  if (offset < bytes) visit(offset, bytes - offset);
}

// Bytes that differ from place to place and from one value to the other.
void FillPattern(void* target, size_t bytes, uint64_t value);
std::vector<uint8_t> Pattern(size_t bytes, uint64_t value);

}  // namespace slipstream::test
