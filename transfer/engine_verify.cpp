// What the engine does with the findings of transfer.verify.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cuda/own_work.h"
#include "policy/log.h"
#include "transfer/engine.h"

namespace slipstream::transfer {

// Where another thread uses the stream too, its work may have written the destination between the copy and the reading,
// rightly: then there is nothing to compare.
void Engine::ExpectToFind(const Request& request, uint64_t sum) {
  const cuda::RelaxedCapture relaxed(driver_);
  WantStaging(Ring::kSlotBytes);
  const bool may_change = ledger_.OthersUse(request.stream);
  if (may_change || !verifier_.Expect(ToOf(request), sum, sites_.Current())) {
    Count(Decision::kUnverified, request.bytes);
  }
}

void Engine::LookAtVerified() {
  if (!policy_.verify || !Serving()) return;
  OrTurnOff([&] {
    const cuda::RelaxedCapture relaxed(driver_);
    const Verifier::Finding finding = verifier_.Look();
    for (size_t i = 0; i < finding.compared; ++i) Count(Decision::kVerified);
    if (!finding.wrong) return;
    SayWrong(
        finding.bytes, "to", finding.destination, finding.site,
        "did not arrive as its source was; no copy is promoted from here on. Results of this process may be wrong");
  });
}

void Engine::SayWrong(size_t bytes, const char* direction, CUdeviceptr address, uint32_t site, const char* meaning) {
  Count(Decision::kVerifiedWrong, bytes);
  TurnOff(Decision::kH2dDeclinedVerify);
  char text[128];
  std::snprintf(text, sizeof(text), "transfer.verify: a copy of %zu bytes %s device address 0x%llx, made at ", bytes,
                direction, static_cast<unsigned long long>(address));
  policy::LogOnceToStderr((text + sites_.TextOf(site) + ", " + meaning).c_str());
}

bool Engine::ArrivedRight(const Request& request, CUdeviceptr from, char* slot) {
  CUstream const stream = device_staging_.fetch_stream();
  for (size_t at = 0; at < request.bytes; at += Ring::kSlotBytes) {
    const size_t bytes = std::min(Ring::kSlotBytes, request.bytes - at);
    if (cuda::CopyDtoH(driver_, slot, from + at, bytes, stream) != CUDA_SUCCESS) return false;
    const cuda::FenceRef fence = fences_.Record(request.in.context, stream);
    if (!fence || fence.Wait() != CUDA_SUCCESS) return false;
    if (std::memcmp(slot, request.destination + at, bytes) == 0 || Broken(Mutant::kVerify)) continue;
    SayWrong(request.bytes, "from", reinterpret_cast<CUdeviceptr>(request.source), sites_.Current(),
             "did not arrive as its source was, and was made again by the program's own call; no copy is promoted from "
             "here on. Results of this process up to here may be wrong");
    return false;
  }
  Count(Decision::kVerified);
  return true;
}

}  // namespace slipstream::transfer
