// The fingerprint of what a copy carries: which bytes it depends on, and that it reads no others.

#include "transfer/fingerprint.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace slipstream::transfer {
namespace {

constexpr size_t kPage = 4096;
constexpr std::array<size_t, 9> kSizes = {1, 7, 64, 1023, 1024, 1025, 4096, 65537, (size_t{1} << 20) + 13};

std::vector<char> Pattern(size_t bytes) {
  std::vector<char> memory(bytes);
  for (size_t i = 0; i < bytes; ++i) memory[i] = static_cast<char>(i * 37 + i / 251);
  return memory;
}

// Where its pieces are: computed here by itself, as the header says it.
std::vector<size_t> PiecesOf(size_t bytes) {
  std::vector<size_t> at;
  for (size_t piece = 0; piece < 15; ++piece) at.push_back((bytes - 64) / 15 * piece);
  at.push_back(bytes - 64);
  return at;
}

TEST(Fingerprint, TheSameBytesHaveTheSameOneWhereverTheyAre) {
  std::set<uint64_t> all;
  for (const size_t bytes : kSizes) {
    const std::vector<char> one = Pattern(bytes);
    std::vector<char> other(bytes + 3, 'x');
    std::copy(one.begin(), one.end(), other.begin() + 3);
    const uint64_t fingerprint = FingerprintOf(one.data(), bytes);
    EXPECT_EQ(FingerprintOf(other.data() + 3, bytes), fingerprint) << bytes;
    EXPECT_NE(fingerprint, 0U) << bytes;
    all.insert(fingerprint);
  }
  EXPECT_EQ(all.size(), kSizes.size());
}

// Zeros of different sizes are different data.
TEST(Fingerprint, DependsOnTheSize) {
  const std::vector<char> zeros(1 << 20, 0);
  std::set<uint64_t> all;
  for (const size_t bytes : {size_t{8}, size_t{64}, size_t{1024}, size_t{2048}, size_t{1} << 19, size_t{1} << 20}) {
    all.insert(FingerprintOf(zeros.data(), bytes));
  }
  EXPECT_EQ(all.size(), 6U);
}

TEST(Fingerprint, DependsOnEveryByteOfLittleMemory) {
  std::vector<char> memory = Pattern(1024);
  std::set<uint64_t> all = {FingerprintOf(memory.data(), memory.size())};
  for (char& byte : memory) {
    byte = static_cast<char>(byte ^ 1);
    all.insert(FingerprintOf(memory.data(), memory.size()));
    byte = static_cast<char>(byte ^ 1);
  }
  EXPECT_EQ(all.size(), 1U + memory.size());
}

TEST(Fingerprint, DependsOnEveryByteOfEachPiece) {
  for (const size_t bytes : {size_t{1025}, size_t{65537}, (size_t{1} << 20) + 13}) {
    std::vector<char> memory = Pattern(bytes);
    const uint64_t before = FingerprintOf(memory.data(), bytes);
    for (const size_t piece : PiecesOf(bytes)) {
      for (size_t at = piece; at < piece + 64; ++at) {
        memory[at] = static_cast<char>(memory[at] ^ 1);
        EXPECT_NE(FingerprintOf(memory.data(), bytes), before) << at << " of " << bytes;
        memory[at] = static_cast<char>(memory[at] ^ 1);
      }
    }
    EXPECT_EQ(FingerprintOf(memory.data(), bytes), before);
  }
}

// Pages that cannot be read lie before the memory, behind it, and wherever no piece does.
TEST(Fingerprint, ReadsNothingButItsPieces) {
  constexpr size_t kBytes = 300 * kPage;
  auto* const all =
      static_cast<char*>(mmap(nullptr, kBytes + 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(all), MAP_FAILED);
  char* const memory = all + kPage;
  std::set<size_t> needed;
  for (const size_t piece : PiecesOf(kBytes)) {
    needed.insert(piece / kPage);
    needed.insert((piece + 63) / kPage);
  }
  EXPECT_EQ(mprotect(all, kPage, PROT_NONE), 0);
  EXPECT_EQ(mprotect(memory + kBytes, kPage, PROT_NONE), 0);
  size_t closed = 0;
  for (size_t page = 0; page < kBytes / kPage; ++page) {
    if (needed.count(page) != 0) continue;
    EXPECT_EQ(mprotect(memory + page * kPage, kPage, PROT_NONE), 0);
    ++closed;
  }
  EXPECT_GE(closed, 268U);  // each piece is in two pages at most
  EXPECT_NE(FingerprintOf(memory, kBytes), 0U);
  munmap(all, kBytes + 2 * kPage);
}

}  // namespace
}  // namespace slipstream::transfer
