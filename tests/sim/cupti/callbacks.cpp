// The subscriber, the functions that it wants to hear of, and what CUPTI is to the driver.
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/cupti/cupti.h"

namespace simcupti {
namespace {

struct DriverFunction {
  uint32_t id;
  std::string_view name;
};
constexpr DriverFunction kDriverFunctions[] = {
#include "generated/cupti_driver_functions.inc"
};
constexpr size_t kMaxId = 2048;

struct Subscriber {
  CUpti_CallbackFunc callback;
  void* user;
  std::array<std::atomic<bool>, kMaxId> driver{};  // by function
  std::atomic<bool> streams_created{false};        // CUPTI_CBID_RESOURCE_STREAM_CREATED
  std::atomic<bool> gone{false};
};

std::mutex g_mutex;
std::atomic<Subscriber*> g_subscriber{nullptr};  // never deleted: a callback may be running
thread_local uint64_t t_correlation_data = 0;
std::atomic<bool> g_forked{false};

// Made when the library is loaded: it is asked at every call, some of them with no memory left or in a forked child.
const auto kByName = [] {
  auto sorted = std::to_array(kDriverFunctions);
  std::sort(sorted.begin(), sorted.end(), [](const auto& one, const auto& other) { return one.name < other.name; });
  return sorted;
}();

uint32_t IdOf(std::string_view function) {
  const auto at = std::lower_bound(kByName.begin(), kByName.end(), function,
                                   [](const DriverFunction& one, std::string_view name) { return one.name < name; });
  return at != kByName.end() && at->name == function ? at->id : 0;
}

void Call(const char* function, uint32_t correlation, CUpti_ApiCallbackSite site, int result) {
  Subscriber* const subscriber = g_subscriber.load(std::memory_order_acquire);
  if (subscriber == nullptr) {
    return;
  }
  const uint32_t id = IdOf(function);
  if (id == 0 || id >= kMaxId || !subscriber->driver[id].load(std::memory_order_relaxed)) {
    return;
  }
  auto status = static_cast<CUresult>(result);
  CUpti_CallbackData data = {};
  data.callbackSite = site;
  data.functionName = function;
  data.functionReturnValue = site == CUPTI_API_EXIT ? &status : nullptr;
  data.correlationId = correlation;
  data.correlationData = &t_correlation_data;
  subscriber->callback(subscriber->user, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

// One resource of all: it shows who hears of what.
void StreamCreated() {
  Subscriber* const subscriber = g_subscriber.load(std::memory_order_acquire);
  if (subscriber == nullptr || !subscriber->streams_created.load(std::memory_order_relaxed)) {
    return;
  }
  CUpti_ResourceData data = {};
  subscriber->callback(subscriber->user, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED, &data);
}

CUptiResult Subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user) {
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  if (subscriber == nullptr || callback == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  if (!Listen()) {
    return CUPTI_ERROR_NOT_INITIALIZED;
  }
  const std::lock_guard guard(g_mutex);
  if (g_subscriber.load() != nullptr) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  static auto* const all = new std::vector<std::unique_ptr<Subscriber>>;
  Subscriber* const fresh = all->emplace_back(new Subscriber{callback, user}).get();
  g_subscriber.store(fresh, std::memory_order_release);
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(fresh);
  return CUPTI_SUCCESS;
}

bool IsSubscriber(CUpti_SubscriberHandle handle) {
  return handle != nullptr && reinterpret_cast<Subscriber*>(handle) == g_subscriber.load();
}

const simObserver kObserver = {
    .entered = Entered,
    .left = Left,
    .finished = Finished,
};

}  // namespace

uint32_t Version() {
  static const uint32_t version = [] {
    const char* const text = std::getenv("SIMCUPTI_VERSION");
    return text != nullptr ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : uint32_t{CUPTI_API_VERSION};
  }();
  return version;
}

bool HasFault(const char* word) {
  // Never destroyed: the library's own end asks too.
  static const std::string& words = *[] {
    const char* const text = std::getenv("SIMCUPTI_FAULT");
    return new std::string("," + std::string(text != nullptr ? text : "") + ",");
  }();
  return words.find("," + std::string(word) + ",") != std::string::npos;
}

uint64_t ClockNs(uint64_t monotonic_ns) {
  static const uint64_t faster = [] {
    const char* const text = std::getenv("SIMCUPTI_FASTER_PPM");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : uint64_t{400};
  }();
  return monotonic_ns + monotonic_ns / 1000 * faster / 1000 + 1'234'567'890'123'456'789u;
}

uint64_t ClockNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return ClockNs(static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec));
}

namespace {

// The simulated libcuda; null: there is none.
void* Driver() {
  static void* const driver = [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    Dl_info self = {};
    if (library == nullptr && dladdr(reinterpret_cast<void*>(&Listen), &self) != 0) {
      std::string path(self.dli_fname);
      path.replace(path.rfind('/') + 1, std::string::npos, "libcuda.so.1");
      library = dlopen(path.c_str(), RTLD_NOW);
    }
    return library;
  }();
  return driver;
}

}  // namespace

int RefusedOnDemand(const char* function, const void* caller) {
  void* const library = Driver();
  if (library == nullptr) {
    return 0;
  }
  static auto* const find = reinterpret_cast<void* (*)(const char*, const char*)>(dlsym(library, "simFindCounter"));
  static auto* const enter = reinterpret_cast<int (*)(void*, const void*)>(dlsym(library, "simEnterCupti"));
  return find != nullptr && enter != nullptr ? enter(find("libcupti.so.13", function), caller) : 0;
}

bool Listen() {
  static const bool listening = [] {
    void* const library = Driver();
    auto* const observe =
        library != nullptr ? reinterpret_cast<decltype(&simObserve)>(dlsym(library, "simObserve")) : nullptr;
    if (observe != nullptr) {
      pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });
      observe(&kObserver);
    }
    return observe != nullptr;
  }();
  return listening;
}

bool IsForkedChild() { return g_forked.load(std::memory_order_relaxed); }

void Entered(const char* function, uint32_t correlation) { Call(function, correlation, CUPTI_API_ENTER, 0); }

void Left(const char* function, uint32_t correlation, int result) {
  if (!IsForkedChild()) {
    Submitted();
  }
  Call(function, correlation, CUPTI_API_EXIT, result);
  if (result == 0 && std::strncmp(function, "cuStreamCreate", 14) == 0) {
    StreamCreated();
  }
}

void ForgetSubscriber() { g_subscriber.store(nullptr, std::memory_order_release); }

}  // namespace simcupti

using namespace simcupti;

SIM_CUPTI_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                            void* userdata) {
  SIM_CUPTI_ENTER();
  return Subscribe(subscriber, callback, userdata);
}

SIM_CUPTI_EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                               void* userdata, CUpti_SubscriberParams*) {
  SIM_CUPTI_ENTER();
  return Subscribe(subscriber, callback, userdata);
}

SIM_CUPTI_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  SIM_CUPTI_ENTER();
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  const std::lock_guard guard(g_mutex);
  if (!IsSubscriber(subscriber)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  ForgetSubscriber();
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                                 CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  SIM_CUPTI_ENTER();
  const std::lock_guard guard(g_mutex);
  if (!IsSubscriber(subscriber) || cbid == 0 || cbid >= kMaxId) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    reinterpret_cast<Subscriber*>(subscriber)->driver[cbid].store(enable != 0);
  }
  if (domain == CUPTI_CB_DOMAIN_RESOURCE && cbid == CUPTI_CBID_RESOURCE_STREAM_CREATED) {
    reinterpret_cast<Subscriber*>(subscriber)->streams_created.store(enable != 0);
  }
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                               CUpti_CallbackDomain domain) {
  SIM_CUPTI_ENTER();
  const std::lock_guard guard(g_mutex);
  if (!IsSubscriber(subscriber)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    for (std::atomic<bool>& each : reinterpret_cast<Subscriber*>(subscriber)->driver) {
      each.store(enable != 0);
    }
  }
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    reinterpret_cast<Subscriber*>(subscriber)->streams_created.store(enable != 0);
  }
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  SIM_CUPTI_ENTER();
  const CUptiResult result = cuptiEnableDomain(enable, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  return result != CUPTI_SUCCESS ? result : cuptiEnableDomain(enable, subscriber, CUPTI_CB_DOMAIN_RESOURCE);
}

SIM_CUPTI_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  SIM_CUPTI_ENTER();
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || name == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  for (const DriverFunction& each : kDriverFunctions) {
    if (each.id == cbid) {
      *name = each.name.data();
      return CUPTI_SUCCESS;
    }
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

SIM_CUPTI_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  SIM_CUPTI_ENTER();
  *version = Version();
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  SIM_CUPTI_ENTER();
  *timestamp = ClockNow();
  return CUPTI_SUCCESS;
}
