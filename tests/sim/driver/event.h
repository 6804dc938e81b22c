// Events: what a record waits for, what a wait waits for.
#ifndef TESTS_SIM_DRIVER_EVENT_H_
#define TESTS_SIM_DRIVER_EVENT_H_

#include "tests/sim/driver/world.h"

namespace simcuda {

Event* FindEvent(World& world, CUevent handle);
CUresult RecordEvent(World& world, const StreamPtr& stream, Event* event, CUevent handle, unsigned flags);
CUresult WaitEvent(World& world, const StreamPtr& stream, Event* event, CUevent handle, unsigned flags);
CUresult CheckEventNotCaptured(World& world, const Event* event);
// Cross-process half of an IPC event (ipc.cpp); `shared` is never null here.
void MarkSharedRecord(SharedEvent* shared, uint64_t* ticket);
void MarkSharedDone(SharedEvent* shared, uint64_t ticket);
bool SharedIsDone(SharedEvent* shared);
uint64_t SharedTicket(SharedEvent* shared);
void WaitShared(SharedEvent* shared, uint64_t ticket);
bool SharedReached(SharedEvent* shared, uint64_t ticket);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_EVENT_H_
