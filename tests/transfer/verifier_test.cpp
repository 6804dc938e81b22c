// The sum by which a copy is compared with its source.

#include "transfer/verifier.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace slipstream::transfer {
namespace {

TEST(Verifier, TheSumDependsOnEveryByteAndItsPlace) {
  constexpr size_t kBytes = 61;
  std::vector<char> memory(kBytes, 0);
  std::set<uint64_t> sums = {Verifier::SumOf(memory.data(), kBytes)};
  for (size_t at = 0; at < kBytes; ++at) {
    for (const char value : {'\x01', '\x80', '\xFF'}) {
      memory[at] = value;
      sums.insert(Verifier::SumOf(memory.data(), kBytes));
    }
    memory[at] = 0;
  }
  EXPECT_EQ(sums.size(), 1 + 3 * kBytes);
  EXPECT_EQ(sums.count(Verifier::SumOf(memory.data(), kBytes)), 1U);
}

TEST(Verifier, TheSumMayBeTakenInParts) {
  std::vector<char> memory(1000);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<char>(i * 37);
  const uint64_t whole = Verifier::SumOf(memory.data(), 1000);
  EXPECT_EQ(Verifier::SumOf(memory.data() + 512, 488, Verifier::SumOf(memory.data(), 512)), whole);
}

}  // namespace
}  // namespace slipstream::transfer
