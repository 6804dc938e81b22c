// Records what the devices do, through CUPTI: kernels, copies, memsets and what waits for them, while a recording runs.
//
//   buffers      CUPTI fills them and gives them back, on its threads -> device_records.h -> the spool
//   callbacks    of the driver's launches, graph launches, copies, memsets and synchronizations: their number is the
//                work's, and joins it to the hooked call that the thread is in, or makes a record of its own where no
//                hook saw a call. Not of queries, which programs make by the million
//   a thread     every period: what is complete is fetched, and both clocks are read
//
// No other kind of record is asked for: those of calls cost several times as much, and CUPTI_ACTIVITY_KIND_KERNEL lets
// kernels run one after the other.
//
// CUPTI has one subscriber, one place for buffer callbacks and one clock (until driver r610), and any other client goes
// first. slipstream steps aside before that client's call, and comes back when it is gone (cupti_clients.h). A client
// may stay subscribed and do nothing, as PyTorch's profiler does between two profiles. So that slipstream can come back
// even then, the callback that a client subscribes with is called by one of slipstream's (Share), and its subscription
// is borrowed while it rests.
//
// Threading: Start once, Finish from one thread, StepAside from any.
// Hazard: Start and StepAside call CUPTI, under a lock that none of CUPTI's callbacks takes.
// Ownership: never destroyed: callbacks may come until the process is gone.
// Errors: as texts for people.
#pragma once

#include <cupti.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tracer/calls/call_recorder.h"
#include "tracer/calls/calling_library.h"
#include "tracer/device/device_buffers.h"
#include "tracer/device/device_window.h"
#include "tracer/spool/device_records.h"
#include "tracer/spool/device_work.h"

namespace slipstream::tracer {

struct CuptiFunctions;

class DeviceTracer {
 public:
  // `runtime`: the path of the process's libcudart. Null, and *problem says why.
  static DeviceTracer* Start(CallRecorder* calls, const DeviceWindow& window, const std::string& runtime,
                             std::string* problem);
  ~DeviceTracer() = delete;

  // Before another client's call, which g_cupti_clients knows of: slipstream has left CUPTI when this returns, and
  // stays out while a client is present. Does nothing if slipstream does not use CUPTI, or in a forked child.
  static void StepAside();
  // Replaces the callback and the user data that another client subscribes with by slipstream's, which then call the
  // client's own. The arguments point to the two. False, and nothing is changed: slipstream does not use CUPTI here.
  static bool Share(CUpti_CallbackFunc* callback, void** user);
  // Whether the calling thread is in a call of CUPTI that slipstream makes.
  static bool IsInCupti();
  // Whether this is a child of a process that records its devices: whose locks its threads held at the fork, nobody
  // gives back here.
  static bool IsForkedChild();

  // When this returns, finished work is in the records, or the given time has passed. From then on nothing calls CUPTI.
  // May be called before CUDA's own exit handlers ran, or after them. Not in a forked child.
  void Finish(uint64_t timeout_ns);

 private:
  enum class State { kAside, kActive, kEnded };

  DeviceTracer(CallRecorder* calls, const DeviceWindow& window);

  bool StartThread();
  // With control_ held.
  bool Enter(std::string* problem);
  void Leave();
  void Listen(bool on);
  void PromiseZeros();
  void TakeBackPromise();
  void ReadClock(DeviceReading reading);
  void ListFunctions();
  DriverUse UseOf(uint32_t function) const { return function < uses_.size() ? uses_[function] : DriverUse::kNone; }

  static void* ThreadMain(void* self);
  void Work();
  void End();
  void Deliver(uint8_t* buffer, size_t valid);
  void CountDropped(CUcontext context, uint32_t stream);

  CallRecorder& calls_;
  const pid_t pid_;
  const DeviceWindow window_;
  const uint64_t start_ns_;
  std::unique_ptr<CuptiFunctions> cupti_;
  DeviceBuffers buffers_;
  DeviceRecords records_;
  CallingLibraries libraries_;
  uint64_t base_ns_ = 0;
  bool has_base_ = false;

  std::mutex control_;  // never taken in a callback
  State state_ = State::kAside;
  void* subscriber_ = nullptr;
  bool own_clock_ = false;                    // CUPTI's times are OwnClock's
  bool promises_zeros_ = false;               // CUPTI takes the buffers to be zero
  std::atomic<bool> borrows_{false};          // subscriber_ is another client's
  std::vector<uint32_t> functions_;           // of the driver, that are listened to
  static constexpr size_t kFunctions = 2048;  // CUDA 13.0 has 830
  std::array<DriverUse, kFunctions> uses_{};  // by CUPTI's number; written before anything is listened to

  std::atomic<uint32_t> wake_{0};  // counts
  std::atomic<uint32_t> finish_{0};
  std::atomic<uint32_t> ended_{0};

  friend struct DeviceCallbacks;  // CUPTI's, which device_tracer.cpp keeps to itself
};

}  // namespace slipstream::tracer
