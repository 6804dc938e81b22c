// Tracks who else uses CUPTI in this process: what other clients (PyTorch's profiler, or the program itself) have
// subscribed to and enabled, if they call it by the dynamic linker's names. A client that looks CUPTI's functions up by
// hand is not seen.
//
// A client is present from its first call until it has unsubscribed, disabled what it enabled, and fetched what that
// left behind, or has finalized CUPTI. One whose callback goes through slipstream's (device_tracer.h) may stay
// subscribed: it is gone while it listens to no calls. PyTorch's profiler rests like that between two profiles. Its
// buffer callbacks and its clock are remembered, so that they can be given back to CUPTI when slipstream has had their
// place.
//
// Threading: any thread; a lock that is never held around a call of CUPTI.
// Ownership: one for the process, never destroyed; constructed before any code of ours runs.
#pragma once

#include <cupti.h>

#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>

namespace slipstream::tracer {

// What a client hears of by its subscription: functions of the runtime and of the driver, by their numbers.
class CuptiListening {
 public:
  void Set(CUpti_CallbackDomain domain, CUpti_CallbackId function, bool on);
  void SetDomain(CUpti_CallbackDomain domain, bool on);
  void SetAll(bool on);
  bool any() const { return runtime_.any() || driver_.any(); }

 private:
  static constexpr uint32_t kMaxFunction = 4096;
  using Functions = std::bitset<kMaxFunction>;

  Functions* Of(CUpti_CallbackDomain domain);

  Functions runtime_;
  Functions driver_;
};

struct CuptiBufferCallbacks {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
};

class CuptiClients {
 public:
  constexpr CuptiClients() = default;

  // Around every call that is forwarded.
  void Begin();
  void End();
  // Before the call: a callback may come before it returns.
  void Listens(CUpti_CallbackDomain domain, CUpti_CallbackId function, bool on);
  void ListensToDomain(CUpti_CallbackDomain domain, bool on);
  void ListensToAll(bool on);
  // Of calls that succeeded. `shared`: slipstream may use the subscription while the client rests; nullptr: it may not.
  void Subscribed(CUpti_SubscriberHandle shared);
  void Unsubscribed();
  void Registered(const CuptiBufferCallbacks& callbacks);
  void RegisteredClock(CUpti_TimestampCallbackFunc theirs);
  void Enabled(uint32_t kind);
  void Disabled(uint32_t kind);
  void Flushed();
  void Finalized();
  // For what slipstream cannot share and no client takes back: from now on a client is present for good. Lock-free, and
  // from then on so are present and callbacks: for a forked child, whose parent may have been inside the lock.
  void ChangedForGood();

  bool present() const;
  // The resting client's; nullptr: no client is subscribed.
  CUpti_SubscriberHandle shared() const;
  CuptiBufferCallbacks callbacks() const;
  CUpti_TimestampCallbackFunc clock() const;  // nullptr: CUPTI's own

 private:
  static constexpr uint32_t kMaxKind = 256;

  mutable std::mutex mutex_;
  uint32_t in_calls_ = 0;
  uint32_t subscribers_ = 0;
  CUpti_SubscriberHandle shared_ = nullptr;  // the only subscriber's
  CuptiListening listening_;
  std::bitset<kMaxKind> kinds_;
  bool unfetched_ = false;  // something was disabled and may still lie in buffers
  std::atomic<bool> for_good_{false};
  CuptiBufferCallbacks callbacks_;
  CUpti_TimestampCallbackFunc clock_ = nullptr;
};

extern constinit CuptiClients g_cupti_clients;

}  // namespace slipstream::tracer
