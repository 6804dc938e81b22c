// Non-temporal stores: every byte, and no other, wherever it lies.

#include "transfer/streaming_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace slipstream::transfer {
namespace {

constexpr size_t kMargin = 256;
constexpr char kUntouched = 0x5a;

std::vector<char> Bytes(size_t bytes, uint32_t salt) {
  std::vector<char> all(bytes);
  for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<char>((i * 2654435761U + salt) >> 13);
  return all;
}

TEST(StreamingCopy, EveryLengthAndAlignment) {
  if (!CanStream()) GTEST_SKIP() << "no AVX here";
  for (size_t bytes = 0; bytes <= 3 * 64 + 1; ++bytes) {
    const std::vector<char> source = Bytes(bytes + kMargin, static_cast<uint32_t>(bytes));
    for (size_t to = 0; to < 64; ++to) {
      const size_t from = to * 7 % 64;
      std::vector<char> target(bytes + 2 * kMargin, kUntouched);
      CopyStreaming(target.data() + kMargin / 2 + to, source.data() + from, bytes);
      std::vector<char> expected(target.size(), kUntouched);
      std::copy_n(source.data() + from, bytes, expected.data() + kMargin / 2 + to);
      ASSERT_EQ(target, expected) << bytes << " bytes to " << to << " from " << from;
    }
  }
}

// A flag that is stored after it is enough for another thread.
TEST(StreamingCopy, IsThereForWhoeverSeesAFlag) {
  if (!CanStream()) GTEST_SKIP() << "no AVX here";
  constexpr size_t kBytes = size_t{8} << 10;
  std::vector<char> target(kBytes);
  std::atomic<uint32_t> written{0};
  std::atomic<uint32_t> seen{0};
  constexpr uint32_t kRounds = 2000;
  uint32_t wrong = 0;
  std::thread reader([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (written.load(std::memory_order_acquire) != round) __builtin_ia32_pause();
      // The last lines first: they are the latest.
      wrong +=
          std::count_if(target.rbegin(), target.rend(), [round](char c) { return c != static_cast<char>(round); }) != 0;
      seen.store(round, std::memory_order_release);
    }
  });
  for (uint32_t round = 1; round <= kRounds; ++round) {
    const std::vector<char> source(kBytes, static_cast<char>(round));
    CopyStreaming(target.data(), source.data(), kBytes);
    written.store(round, std::memory_order_release);
    while (seen.load(std::memory_order_acquire) != round) __builtin_ia32_pause();
  }
  reader.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace slipstream::transfer
