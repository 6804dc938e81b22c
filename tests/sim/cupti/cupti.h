// The simulated libcupti.so: one process's callbacks and activity records, as strict as NVIDIA's before driver r610.
//
// Purpose: callbacks.cpp has the one subscriber, activity.cpp the one pair of buffer callbacks and the records.
// Threading: any thread. Client callbacks run with no lock of this library's held; buffers are filled and completed on
// a thread of its own, and asked for on the thread that submits work, or on its own.
// Hazard: what a client may not do from its buffer callbacks (call CUPTI, but to read records) is refused, and counted.
// Source: CUPTI documentation, "Callback API", "Activity API", "Limitations"; what torch's profiler was seen to meet.
#ifndef TESTS_SIM_CUPTI_CUPTI_H_
#define TESTS_SIM_CUPTI_CUPTI_H_

#include <cupti.h>

#include <cstdint>

#include "tests/sim/simobserve.h"

#define SIM_CUPTI_EXPORT extern "C" __attribute__((visibility("default")))

// First in an exported function: counts its calls, and fails where a test wants it.
#define SIM_CUPTI_ENTER()                                                                      \
  do {                                                                                         \
    if (const int code = ::simcupti::RefusedOnDemand(__func__, __builtin_return_address(0))) { \
      return static_cast<CUptiResult>(code);                                                   \
    }                                                                                          \
  } while (false)

namespace simcupti {

// SIMCUPTI_VERSION: what cuptiGetVersion answers, and the age of the records. 130001 by default; 26 is CUDA 12.8's.
uint32_t Version();

// SIMCUPTI_FAULT: words with commas between them, for a CUPTI that misbehaves.
//   unknown   each record has one of another kind behind it
//   broken    a buffer's last record has a kind that CUPTI cannot read
//   zero      the records of every fourth call have no end
//   starved   no buffer is asked for: all records are dropped
//   stuck     a flush never returns
//   late      a flush returns at once, and buffers come back when the library is unloaded, at the process's end
bool HasFault(const char* word);

// Of a process whose driver is listened to; nothing is submitted there.
bool IsForkedChild();

// CUPTI's clock: another beginning than CLOCK_MONOTONIC's, and faster by SIMCUPTI_FASTER_PPM, by default 400: within
// the 500 by which the system may correct its own (adjtimex(2)).
uint64_t ClockNs(uint64_t monotonic_ns);
uint64_t ClockNow();

// The code that the call returns instead of working (SIMCUDA_FAIL), or 0.
int RefusedOnDemand(const char* function, const void* caller);

// Starts to listen to the driver; false: there is none that is simulated.
bool Listen();

// The calling thread is in a buffer callback of the client's: CUPTI_ERROR_INVALID_OPERATION, and a violation.
bool RefusedHere();

// callbacks.cpp, on the thread of a driver call
void Entered(const char* function, uint32_t correlation);
void Left(const char* function, uint32_t correlation, int result);
void ForgetSubscriber();

// activity.cpp
void Submitted();  // on the thread of a driver call
void Finished(const simWork* work);

}  // namespace simcupti

#endif  // TESTS_SIM_CUPTI_CUPTI_H_
