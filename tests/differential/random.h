// The generator's random numbers: the same on every machine and compiler.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace differential {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {  // SplitMix64
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }
  // 0 to `limit` - 1.
  uint64_t Below(uint64_t limit) { return Next() % limit; }
  // From `least` to `most`.
  uint64_t Between(uint64_t least, uint64_t most) { return least + Below(most - least + 1); }
  bool Chance(unsigned percent) { return Below(100) < percent; }
  template <typename Value>
  Value Of(std::initializer_list<Value> values) {
    return values.begin()[Below(values.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace differential
