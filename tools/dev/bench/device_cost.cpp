// What recording the work of devices costs a program, part by part: a library that a program loads and switches, for
// device_cost.py, and for tests/gpu/paced_blocks.py as CUPTI alone. Each level does all that the one below does, as the
// tracer does it (tracer/device/device_tracer.cpp):
//
//   0 nothing    1 kernels are recorded    2 copies, sets and synchronizations too    3 and the driver's functions that
//   make work or wait for it are listened to    4 and records are read    5 and a thread fetches them four times a
//   second
//
// And beside them, to know what listening costs:
//
//   6 as 5, with CUPTI's own records of these functions in place of callbacks
//
// Threading: one thread switches; CUPTI's callbacks come from any.
// Errors: a switch that CUPTI refuses answers with CUPTI's number.
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr size_t kBytes = size_t{4} << 20;
constexpr int kFunctionsRecorded = 6;

void* g_library = nullptr;

template <typename Function>
Function* Find(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(g_library, name));
}
#define CUPTI_FUNCTION(name) Find(static_cast<decltype(&name)>(nullptr), #name)

std::mutex g_mutex;
std::vector<uint8_t*> g_idle;
std::atomic<int> g_level{0};
std::atomic<uint64_t> g_records{0};
std::atomic<uint64_t> g_bytes{0};
std::atomic<uint64_t> g_calls{0};
CUpti_SubscriberHandle g_subscriber = nullptr;

void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* most) {
  *most = 0;
  *size = kBytes;
  {
    const std::lock_guard guard(g_mutex);
    if (!g_idle.empty()) {
      *buffer = g_idle.back();
      g_idle.pop_back();
      return;
    }
  }
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(4096, kBytes));
  std::memset(*buffer, 0, kBytes);
}

void CUPTIAPI OnComplete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (g_level.load() >= 4) {
    auto* const next_record = CUPTI_FUNCTION(cuptiActivityGetNextRecord);
    CUpti_Activity* record = nullptr;
    while (next_record(buffer, valid, &record) == CUPTI_SUCCESS) g_records.fetch_add(1, std::memory_order_relaxed);
  }
  g_bytes.fetch_add(valid, std::memory_order_relaxed);
  std::memset(buffer, 0, valid);
  const std::lock_guard guard(g_mutex);
  g_idle.push_back(buffer);
}

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
  g_calls.fetch_add(1, std::memory_order_relaxed);
}

bool IsListenedTo(std::string_view function) {
  constexpr std::array<std::string_view, 8> kBegin = {"cuLaunch",         "cuGraphLaunch",       "cuMemcpy",
                                                      "cuMemset",         "cuStreamSynchronize", "cuEventSynchronize",
                                                      "cuCtxSynchronize", "cuStreamWaitEvent"};
  return !function.starts_with("cuLaunchHostFunc") &&
         std::any_of(kBegin.begin(), kBegin.end(), [&](std::string_view begin) { return function.starts_with(begin); });
}

const std::vector<uint32_t>& ListenedTo() {
  static const std::vector<uint32_t> found = [] {
    std::vector<uint32_t> ids;
    for (uint32_t id = 1; id < 2048; ++id) {
      const char* name = nullptr;
      CUPTI_FUNCTION(cuptiGetCallbackName)(CUPTI_CB_DOMAIN_DRIVER_API, id, &name);
      if (name != nullptr && IsListenedTo(name)) ids.push_back(id);
    }
    return ids;
  }();
  return found;
}

class Fetcher {
 public:
  void Start() {
    ends_ = false;
    thread_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, std::chrono::milliseconds(250), [this] { return ends_; })) {
        CUPTI_FUNCTION(cuptiActivityFlushAll)(0);
      }
    });
  }
  void Stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard guard(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};
Fetcher g_fetcher;

constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
                               CUPTI_ACTIVITY_KIND_SYNCHRONIZATION};

}  // namespace

extern "C" {

// The library by that name. 0: it is there.
[[gnu::visibility("default")]] int device_cost_open(const char* path) {
  g_library = dlopen(path, RTLD_NOW);
  return g_library != nullptr ? 0 : 1;
}

[[gnu::visibility("default")]] int device_cost_switch(int level) {
  for (const CUpti_ActivityKind kind : kKinds) CUPTI_FUNCTION(cuptiActivityDisable)(kind);
  g_fetcher.Stop();
  CUPTI_FUNCTION(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (g_subscriber != nullptr) CUPTI_FUNCTION(cuptiUnsubscribe)(g_subscriber);
  g_subscriber = nullptr;
  if (g_level == kFunctionsRecorded) {
    for (const uint32_t id : ListenedTo()) CUPTI_FUNCTION(cuptiActivityEnableDriverApi)(id, 0);
  }
  g_level = level;
  if (level == 0) return 0;
  uint8_t zeroed = 1;
  size_t size = sizeof zeroed;
  CUPTI_FUNCTION(cuptiActivitySetAttribute)(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
  CUptiResult result = CUPTI_FUNCTION(cuptiActivityRegisterCallbacks)(OnRequest, OnComplete);
  if (result != CUPTI_SUCCESS) return result;
  const bool records_functions = level == kFunctionsRecorded;
  if (level >= 3 && !records_functions) {
    result = CUPTI_FUNCTION(cuptiSubscribe)(&g_subscriber, OnCall, nullptr);
    if (result != CUPTI_SUCCESS) return result;
    for (const uint32_t id : ListenedTo()) {
      CUPTI_FUNCTION(cuptiEnableCallback)(1, g_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
    }
  }
  if (records_functions) {
    for (const uint32_t id : ListenedTo()) CUPTI_FUNCTION(cuptiActivityEnableDriverApi)(id, 1);
  }
  for (size_t i = 0; i < (level == 1 ? 1 : kKinds.size()); ++i) {
    result = CUPTI_FUNCTION(cuptiActivityEnable)(kKinds.at(i));
    if (result != CUPTI_SUCCESS) return result;
  }
  if (level >= 5) g_fetcher.Start();
  return 0;
}

[[gnu::visibility("default")]] uint64_t device_cost_records() { return g_records.load(); }
// Bytes of records, those that are complete by now among them.
[[gnu::visibility("default")]] uint64_t device_cost_delivered() {
  CUPTI_FUNCTION(cuptiActivityFlushAll)(0);
  return g_bytes.load();
}
[[gnu::visibility("default")]] uint64_t device_cost_calls() { return g_calls.load(); }

}  // extern "C"
