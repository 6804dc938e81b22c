// A number from bytes, and what the kernels compute. Fast: this is most of what a program does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/support/pattern.h"

namespace differential {

using slipstream::test::FillPattern;
using slipstream::test::ForWords;
using slipstream::test::Mixed;

inline uint64_t HashOf(const void* source, size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(source);
  uint64_t lanes[4] = {bytes, 1, 2, 3};
  size_t offset = 0;
  for (; offset + 32 <= bytes; offset += 32) {
    for (size_t lane = 0; lane < 4; ++lane) {
      uint64_t word = 0;
      std::memcpy(&word, from + offset + lane * 8, 8);
      lanes[lane] = Mixed(lanes[lane], word);
    }
  }
  uint64_t hash = Mixed(Mixed(lanes[0], lanes[1]), Mixed(lanes[2], lanes[3]));
  ForWords(bytes - offset, [&hash, from, offset](size_t at, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, from + offset + at, count);
    hash = Mixed(hash, word);
  });
  return hash;
}

// target = f(target, source): undone by no order but the right one.
inline void MixInto(void* target, const void* source, size_t bytes, uint64_t value) {
  auto* const to = static_cast<unsigned char*>(target);
  const auto* const from = static_cast<const unsigned char*>(source);
  ForWords(bytes, [to, from, value](size_t offset, size_t count) {
    uint64_t mine = 0;
    uint64_t theirs = 0;
    std::memcpy(&mine, to + offset, count);
    std::memcpy(&theirs, from + offset, count);
    mine = (mine ^ (theirs << 1 | theirs >> 63)) * 0x9FB21C651E98DF25u + value;
    std::memcpy(to + offset, &mine, count);
  });
}

}  // namespace differential
