// What the engine does with the findings of transfer.verify.

#include <cstdio>

#include "policy/log.h"
#include "transfer/engine.h"

namespace slipstream::transfer {

void Engine::LookAtVerified() {
  if (!Serving()) return;
  OrTurnOff([&] {
    const RelaxedCapture relaxed(driver_);
    const Verifier::Finding finding = verifier_.Look();
    for (size_t i = 0; i < finding.compared; ++i) Count(Decision::kVerified);
    if (!finding.wrong) return;
    Count(Decision::kVerifiedWrong, finding.bytes);
    TurnOff(Decision::kAsideVerify);
    char text[256];
    std::snprintf(text, sizeof(text), "transfer.verify: a copy of %zu bytes to device address 0x%llx, made at ",
                  finding.bytes, static_cast<unsigned long long>(finding.destination));
    policy::LogOnceToStderr((text + sites_.TextOf(finding.site) +
                             ", did not arrive as its source was; no copy is promoted from here on. Results of this "
                             "process may be wrong")
                                .c_str());
  });
}

}  // namespace slipstream::transfer
