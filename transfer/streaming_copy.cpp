#include "transfer/streaming_copy.h"

#include <emmintrin.h>

#include <cstdint>
#include <cstring>

namespace slipstream::transfer {
namespace {

constexpr size_t kLine = 64;  // a store buffer takes a line, and writes it at once when it is full
constexpr size_t kWord = sizeof(__m128i);

__m128i Load(const char* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void Stream(char* to, __m128i word) { _mm_stream_si128(reinterpret_cast<__m128i*>(to), word); }

}  // namespace

void CopyStreaming(char* to, const char* from, size_t bytes) {
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  if (bytes < head + kLine) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const __m128i words[] = {Load(from + at), Load(from + at + kWord), Load(from + at + 2 * kWord),
                             Load(from + at + 3 * kWord)};
    for (size_t i = 0; i < kLine / kWord; ++i) Stream(to + at + i * kWord, words[i]);
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();
}

}  // namespace slipstream::transfer
