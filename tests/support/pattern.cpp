#include "tests/support/pattern.h"

namespace slipstream::test {

void FillPattern(void* target, size_t bytes, uint64_t value) {
  uint64_t word = Mixed(0x5115, value);
  auto* const to = static_cast<unsigned char*>(target);
  ForWords(bytes, [&word, to](size_t offset, size_t count) {
    word += 0x9E3779B97F4A7C15u;
    const uint64_t out = word ^ (word >> 29);
    std::memcpy(to + offset, &out, count);
  });
}

std::vector<uint8_t> Pattern(size_t bytes, uint64_t value) {
  std::vector<uint8_t> pattern(bytes);
  FillPattern(pattern.data(), bytes, value);
  return pattern;
}

}  // namespace slipstream::test
