// What the simulated driver tells the simulated CUPTI (tests/sim/cupti): calls of driver functions and finished work.
//
// Threading: `entered` and `left` on the calling thread, with no lock of the simulator held. `finished` on any thread,
//   with the simulator's lock held: it must neither wait nor call back.
// Units: nanoseconds of CLOCK_MONOTONIC, bytes.
#ifndef TESTS_SIM_SIMOBSERVE_H_
#define TESTS_SIM_SIMOBSERVE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SIM_WORK_KERNEL = 0, SIM_WORK_COPY = 1, SIM_WORK_SET = 2, SIM_WORK_WAIT = 3 };

// What a wait is, as CUpti_ActivitySynchronizationType counts them.
enum { SIM_WAIT_EVENT = 1, SIM_WAIT_STREAM_FOR_EVENT = 2, SIM_WAIT_STREAM = 3, SIM_WAIT_CONTEXT = 4 };

// Places that a copy is between, as CUpti_ActivityMemoryKind counts them.
enum { SIM_PLACE_PAGEABLE = 1, SIM_PLACE_PINNED = 2, SIM_PLACE_DEVICE = 3, SIM_PLACE_MANAGED = 5 };

typedef struct simWork {
  int kind;
  uint32_t correlation;  // of the call that submitted it
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint64_t start_ns;
  uint64_t end_ns;
  const char* name;  // of a kernel; stays
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  uint64_t bytes;
  int from;  // SIM_PLACE_*
  int to;
  uint32_t value;   // of a memset
  int from_device;  // of a copy; -1: the host
  int to_device;
  uint64_t graph_node;  // 0: of no graph
  int wait;             // SIM_WAIT_*, of SIM_WORK_WAIT
  uint32_t event;       // of a wait; UINT32_MAX: none
} simWork;

typedef struct simObserver {
  // `correlation` is the call's number, counted from 1 in the process.
  void (*entered)(const char* function, uint32_t correlation);
  void (*left)(const char* function, uint32_t correlation, int result);
  void (*finished)(const simWork* work);
} simObserver;

// From here on; null: nobody. The observer stays where it is for good.
void simObserve(const simObserver* observer);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TESTS_SIM_SIMOBSERVE_H_
