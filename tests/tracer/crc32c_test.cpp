// The checksum: the published values, both ways of computing it.

#include "tracer/base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace slipstream::tracer {
namespace {

TEST(Crc32cTest, ThePublishedValues) {  // RFC 3720, B.4, and the usual check value
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  for (const auto crc : {Crc32c, Crc32cPortable}) {
    EXPECT_EQ(crc(0, "", 0), 0U);
    EXPECT_EQ(crc(0, "123456789", 9), 0xe3069283U);
    EXPECT_EQ(crc(0, std::string(32, '\0').data(), 32), 0x8a9136aaU);
    EXPECT_EQ(crc(0, std::string(32, '\xff').data(), 32), 0x62a8ab43U);
    EXPECT_EQ(crc(0, ascending.data(), 32), 0x46dd794eU);
  }
}

TEST(Crc32cTest, WithAndWithoutTheInstructionInPartsOfAnySize) {
  std::mt19937 random(1);
  std::string bytes(300, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t from = 0; from < 9; ++from) {
    for (size_t size = 0; size + from < bytes.size(); ++size) {
      const uint32_t whole = Crc32c(0, bytes.data() + from, size);
      ASSERT_EQ(Crc32cPortable(0, bytes.data() + from, size), whole);
      const size_t part = size == 0 ? 0 : random() % size;
      ASSERT_EQ(Crc32c(Crc32cPortable(0, bytes.data() + from, part), bytes.data() + from + part, size - part), whole);
    }
  }
}

}  // namespace
}  // namespace slipstream::tracer
