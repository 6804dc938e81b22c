// Events: what a record waits for, what a wait waits for, and events that two processes share (ipc_event.cpp).
#ifndef TESTS_SIM_DRIVER_EVENT_H_
#define TESTS_SIM_DRIVER_EVENT_H_

#include "tests/sim/driver/world.h"

namespace simcuda {

Event* FindEvent(World& world, CUevent handle);
CUresult RecordEvent(World& world, const StreamPtr& stream, Event* event, CUevent handle, unsigned flags);
CUresult WaitEvent(World& world, const StreamPtr& stream, Event* event, CUevent handle, unsigned flags);
// 907 (and an invalid capture) if the event's last record was captured.
CUresult CheckEventNotCaptured(World& world, const Event* event);

// What an operation that waits for the event must depend on. False: nothing, it is complete or was never recorded.
bool PrepareWait(Event* event, Work* work, std::vector<OpPtr>* dependencies);
// An event shared between processes: a record by this one is announced to the others, and its completion too. Nothing
// happens for an event that is not shared. AttachShared before the submission, NoteSharedRecord after it.
void AttachShared(Event* event, Work* work);
void NoteSharedRecord(Event* event);
// Asks the process that recorded it to get on with it.
void DemandShared(Event* event);
bool SharedComplete(const Event* event);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_EVENT_H_
