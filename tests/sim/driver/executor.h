// The threads that carry operations out: one for host functions, and in timed mode one for every engine of every
// device.
//
// Purpose: host functions must not run on the thread that synchronizes (they run on a thread of the driver, and the
// program's thread-local state is not theirs); timed mode needs time to pass by itself.
// Threading: the threads are detached, started at first use and live as long as the process. They never exist in a
// process that has not used CUDA, nor in the child of a fork.
#ifndef TESTS_SIM_DRIVER_EXECUTOR_H_
#define TESTS_SIM_DRIVER_EXECUTOR_H_

#include "tests/sim/driver/world.h"

namespace simcuda {

// Runs the body here, marked as device work: CUDA calls from it are refused.
void RunBody(Op& op);
// Runs the body on the callback thread and waits for its end.
void RunOnCallbackThread(Op& op);

// Between scheduler and executors; the mutex is held.
OpPtr TakeFor(World& world, int device, Engine engine);
bool AnyConditionPending(World& world);
void CompleteTimed(World& world, const OpPtr& op);
void ExecuteTaken(World& world, Lock& lock, const OpPtr& op);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_EXECUTOR_H_
