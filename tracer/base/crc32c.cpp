#include "tracer/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>

#include <atomic>
#endif

namespace slipstream::tracer {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr size_t kSlices = 8;

// Row 0 is the usual table of bytes; row n is what that byte does with n zero bytes behind it.
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t shorter = tables[slice - 1][byte];
      tables[slice][byte] = (shorter >> 8) ^ tables[0][shorter & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) uint32_t WithInstruction(uint32_t before, const uint8_t* bytes, size_t size) {
  uint64_t crc = ~before;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  auto rest = static_cast<uint32_t>(crc);
  for (; size > 0; --size, ++bytes) rest = _mm_crc32_u8(rest, *bytes);
  return ~rest;
}

// Asked once: in a virtual machine the question takes tens of microseconds.
bool HasInstruction() {
  enum : int { kNotAsked, kNo, kYes };
  static constinit std::atomic<int> known{kNotAsked};
  int answer = known.load(std::memory_order_relaxed);
  if (answer == kNotAsked) {
    unsigned int eax = 0;
    unsigned int ebx = 0;
    unsigned int ecx = 0;
    unsigned int edx = 0;
    answer = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_SSE4_2) != 0 ? kYes : kNo;
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == kYes;
}
#endif

}  // namespace

uint32_t Crc32cPortable(uint32_t before, const void* bytes, size_t size) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  uint32_t crc = ~before;
  for (; size >= kSlices; size -= kSlices, at += kSlices) {
    // Bytes, not words: the same on processors of either order.
    const uint32_t low = crc ^ (uint32_t{at[0]} | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24);
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][at[4]] ^ kTables[2][at[5]] ^ kTables[1][at[6]] ^ kTables[0][at[7]];
  }
  for (; size > 0; --size, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

uint32_t Crc32c(uint32_t before, const void* bytes, size_t size) {
#if defined(__x86_64__)
  if (HasInstruction()) return WithInstruction(before, static_cast<const uint8_t*>(bytes), size);
#endif
  return Crc32cPortable(before, bytes, size);
}

}  // namespace slipstream::tracer
