#include "transfer/fingerprint.h"

#include "transfer/verifier.h"

namespace slipstream::transfer {

uint64_t FingerprintOf(const char* memory, size_t bytes) {
  uint64_t sum = bytes;
  if (bytes <= kFingerprintPieces * kFingerprintPieceBytes) {
    sum = Verifier::SumOf(memory, bytes, sum);
  } else {
    for (size_t piece = 0; piece < kFingerprintPieces; ++piece) {
      sum = Verifier::SumOf(memory + FingerprintPieceAt(bytes, piece), kFingerprintPieceBytes, sum);
    }
  }
  return sum != 0 ? sum : 1;
}

}  // namespace slipstream::transfer
