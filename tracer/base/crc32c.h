// CRC-32C (Castagnoli, reflected, as in RFC 3720, appendix B.4), the checksum of spool chunks. It detects every change
// of up to 32 bits in a row, and x86-64 processors have an instruction for it.
//
// Threading: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream::tracer {

// Of the bytes, continuing from what was before them: Crc32c(Crc32c(0, a), b) is that of a and b together.
uint32_t Crc32c(uint32_t before, const void* bytes, size_t size);

// The same without the instruction, as on processors that lack it.
uint32_t Crc32cPortable(uint32_t before, const void* bytes, size_t size);

}  // namespace slipstream::tracer
