// The driver's side of simobserve.h: every exported function and every finished operation passes here.
//
// Threading: an Observed lives on the stack of the calling thread, with no lock held.
#ifndef TESTS_SIM_DRIVER_OBSERVE_H_
#define TESTS_SIM_DRIVER_OBSERVE_H_

#include "tests/sim/driver/world.h"
#include "tests/sim/simobserve.h"

namespace simcuda {

// One call of an exported function that is not refused.
class Observed {
 public:
  explicit Observed(const char* function);
  CUresult Leave(CUresult result);
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  const char* const function_;
  const simObserver* const observer_;
  const uint32_t before_;  // a function may call another one
};

// Of the call that the thread is in; of nobody's call (simLaunchUnseen) a new number.
uint32_t CorrelationOfThisCall();
uint64_t ObservedNowNs();
// Under the mutex. Nothing for work that has no record.
void ReportFinished(const Op& op);

// A call that waited: under the mutex, where it succeeded. Stream and event: null where the wait is for none.
void ReportWaited(int wait, uint64_t start_ns, const Context* context, const Stream* stream, const Event* event);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_OBSERVE_H_
