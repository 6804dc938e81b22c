#include "transfer/verifier.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda/mutant.h"
#include "cuda/own_work.h"

namespace slipstream::transfer {

uint64_t Verifier::SumOf(const char* memory, size_t bytes, uint64_t before) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: every bit of a word reaches many of the sum
  uint64_t sum = before;
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, memory + at, std::min(sizeof(word), bytes - at));
    sum = std::rotl((sum ^ word) * kOdd, 29);
  }
  return sum;
}

bool Verifier::Expect(const Delivery::To& to, uint64_t sum, uint32_t site) {
  Copy copy = {to.destination, to.bytes, sum, site, {}, {}};
  bool enqueued = true;
  for (size_t at = 0; at < to.bytes && enqueued; at += Ring::kSlotBytes) {
    char* const slot = ring_.Take(at == 0);
    if (slot == nullptr) break;
    copy.slots.push_back(slot);
    const size_t bytes = std::min(Ring::kSlotBytes, to.bytes - at);
    enqueued = cuda::CopyDtoH(driver_, slot, to.destination + at, bytes, to.stream) == CUDA_SUCCESS;
  }
  if (copy.slots.empty()) return false;
  copy.back = fences_.Record(to.context, to.stream);
  if (!copy.back) return false;  // and the slots are lost: nobody can say when they have been written
  if (!enqueued || copy.slots.size() * Ring::kSlotBytes < to.bytes) {
    ring_.Commit(copy.slots, copy.back);
    return false;
  }
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(copy));
  return true;
}

Verifier::Finding Verifier::Look() {
  Finding finding;
  for (;;) {
    Copy copy = {};
    {
      const std::lock_guard lock(mutex_);
      const auto back = std::find_if(copies_.begin(), copies_.end(), [](const Copy& c) { return c.back.Done(); });
      if (back == copies_.end()) return finding;
      copy = std::move(*back);
      copies_.erase(back);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < copy.slots.size(); ++i) {
      const size_t bytes = std::min(Ring::kSlotBytes, copy.bytes - i * Ring::kSlotBytes);
      sum = SumOf(copy.slots[i], bytes, sum);
    }
    ring_.Commit(copy.slots, cuda::FenceRef());
    ++finding.compared;
    if (sum == copy.sum || finding.wrong || Broken(Mutant::kVerify)) continue;
    finding.wrong = true;
    finding.destination = copy.destination;
    finding.bytes = copy.bytes;
    finding.site = copy.site;
  }
}

}  // namespace slipstream::transfer
