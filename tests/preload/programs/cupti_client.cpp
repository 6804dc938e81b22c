// A program with a profiler of its own: linked to libcupti as PyTorch's is, and unaware of slipstream. It profiles some
// of its rounds and prints what CUPTI told it, which must be the same bare and under slipstream.
//
//   cupti_client HOW [with-another]
//                       unsubscribe, finalize: how a profile ends
//                       keep: without a subscription; the buffer callbacks are registered once, for two profiles
//                       first: a subscription before anything else, which stays
//                       early: without one, and what it wants is enabled before anything else
//                       stays: as unsubscribe, and does not
//                       rests: as PyTorch's does: it stays subscribed, to streams that are made, has a clock of its
//                       own, and profiles again when somebody else records
//                       watches: no profile; rounds until somebody records, and until nobody does any more
//                       until: as unsubscribe, then rounds until somebody else has subscribed again, and a second
//                       profile without another registration
//
// With LOOKS_CUPTI_UP (its path) it is linked to no libcupti, and looks every function up, as XLA and TensorFlow do.

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/sim/simcuda.h"

namespace {

using Subscribing = CUptiResult(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*);
using Unsubscribing = CUptiResult(CUpti_SubscriberHandle);

#ifdef LOOKS_CUPTI_UP
template <typename Function>
Function* LookUp(const char* name) {
  static void* const library = dlopen(LOOKS_CUPTI_UP, RTLD_NOW | RTLD_LOCAL);
  static_cast<void>(dlerror());
  void* const function = library != nullptr ? dlsym(library, name) : nullptr;
  const char* const error = dlerror();
  if (function == nullptr || error != nullptr) std::printf("%s: %s\n", name, error != nullptr ? error : "not found");
  return reinterpret_cast<Function*>(function);
}
// NOLINTBEGIN(readability-identifier-naming)
#define cuptiSubscribe (*LookUp<Subscribing>("cuptiSubscribe"))
#define cuptiUnsubscribe (*LookUp<Unsubscribing>("cuptiUnsubscribe"))
#define cuptiEnableCallback (*LookUp<decltype(::cuptiEnableCallback)>("cuptiEnableCallback"))
#define cuptiActivityEnable (*LookUp<decltype(::cuptiActivityEnable)>("cuptiActivityEnable"))
#define cuptiActivityDisable (*LookUp<decltype(::cuptiActivityDisable)>("cuptiActivityDisable"))
#define cuptiActivityFlushAll (*LookUp<decltype(::cuptiActivityFlushAll)>("cuptiActivityFlushAll"))
#define cuptiActivityGetNextRecord (*LookUp<decltype(::cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord"))
#define cuptiActivityRegisterCallbacks \
  (*LookUp<decltype(::cuptiActivityRegisterCallbacks)>("cuptiActivityRegisterCallbacks"))
#define cuptiActivityRegisterTimestampCallback \
  (*LookUp<decltype(::cuptiActivityRegisterTimestampCallback)>("cuptiActivityRegisterTimestampCallback"))
#define cuptiFinalize (*LookUp<decltype(::cuptiFinalize)>("cuptiFinalize"))
// NOLINTEND(readability-identifier-naming)
#endif

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};
constexpr size_t kBufferBytes = 8192;

void Before() {}
void Profiled() {}
void After() {}

struct Seen {
  std::mutex mutex;
  std::map<std::string, int> works;
  int calls = 0;
  int streams = 0;      // made
  int out_of_time = 0;  // works that its own clock did not see
  uint64_t begin = 0;   // of the profile
  int foreign_buffers = 0;
  std::map<const uint8_t*, bool> mine;
};
Seen g_seen;

// Its own: years from CUPTI's and from slipstream's.
uint64_t CUPTIAPI Clock() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) + 77'000'000'000'000'000u;
}

template <typename Record>
uint64_t Start(const CUpti_Activity* record) {
  return reinterpret_cast<const Record*>(record)->start;
}

uint64_t StartOf(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) return Start<CUpti_ActivityKernel10>(record);
  if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) return Start<CUpti_ActivityMemcpy6>(record);
  return Start<CUpti_ActivityMemset4>(record);
}

void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  std::memset(*buffer, 0xee, kBufferBytes);  // CUPTI is to zero it: nothing else was promised
  *size = kBufferBytes;
  *most = 0;
  const std::lock_guard guard(g_seen.mutex);
  g_seen.mine[*buffer] = true;
}

void CUPTIAPI Complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard guard(g_seen.mutex);
  if (g_seen.mine.erase(buffer) == 0) {
    ++g_seen.foreign_buffers;
    return;
  }
  CUpti_Activity* record = nullptr;
  const uint64_t now = g_seen.begin != 0 ? Clock() : UINT64_MAX;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (const uint64_t start = StartOf(record); start < g_seen.begin || start > now) ++g_seen.out_of_time;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      ++g_seen.works[reinterpret_cast<const CUpti_ActivityKernel10*>(record)->name];
    } else {
      ++g_seen.works[record->kind == CUPTI_ACTIVITY_KIND_MEMCPY ? "copy" : "set"];
    }
  }
  std::free(buffer);
}

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* data) {
  const std::lock_guard guard(g_seen.mutex);
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    ++g_seen.streams;
    return;
  }
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER) ++g_seen.calls;
}

void Say(const char* what, CUptiResult result) { std::printf("%s: %d\n", what, static_cast<int>(result)); }

void Round(void (*kernel)(), void* device) {
  char host[100] = {};
  cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice);
  cudaMemset(device, 1, 50);
  cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), nullptr, 0, nullptr);
  cudaDeviceSynchronize();
}

void Subscribe(CUpti_SubscriberHandle* subscriber) {
  Say("subscribe", cuptiSubscribe(subscriber, OnCall, nullptr));
  Say("callback",
      cuptiEnableCallback(1, *subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
}

void Enable(bool registers) {
  if (registers) Say("register", cuptiActivityRegisterCallbacks(Request, Complete));
  for (const CUpti_ActivityKind kind : kKinds) Say("enable", cuptiActivityEnable(kind));
}

// A client that rests hears of streams; all hear of them everywhere, whoever else is there.
void MakeStream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamDestroy(stream);
}

// Rounds while kernels are recorded (1) or not (0), for 60 s at most.
void RoundsWhile(void (*kernel)(), void* device, int recorded) {
  void* const library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  const auto is_enabled = reinterpret_cast<int (*)(CUpti_ActivityKind)>(dlsym(library, "simCuptiIsEnabled"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (is_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == recorded && std::chrono::steady_clock::now() < end) {
    Round(kernel, device);
  }
}

// Rounds until somebody else records, or 60 s. Bare nobody does.
void RoundsUntilSomebodyRecords(void* device, bool expected) {
  if (expected) RoundsWhile(After, device, 0);
  for (int i = 0; i < 10; ++i) Round(After, device);
}

void Profile(void* device, bool registers) {
  Enable(registers);
  for (int i = 0; i < 50; ++i) Round(Profiled, device);
  for (const CUpti_ActivityKind kind : kKinds) Say("disable", cuptiActivityDisable(kind));
  Say("flush", cuptiActivityFlushAll(1));
}

void RestingProfile(void* device, bool is_first) {
  if (is_first) Say("clock", cuptiActivityRegisterTimestampCallback(Clock));
  {
    const std::lock_guard guard(g_seen.mutex);
    g_seen.begin = Clock();
  }
  Profile(device, true);
  MakeStream();
}

// Rounds until a subscription is refused, as it is to whoever finds CUPTI's functions past slipstream (by their
// version, which no program asks for), and until whoever is there records.
void RoundsUntilSomebodyIsThere(void* device) {
  void* const library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  constexpr char kVersion[] = "libcupti.so.13";
  auto* const subscribe = reinterpret_cast<Subscribing*>(dlvsym(library, "cuptiSubscribe", kVersion));
  auto* const unsubscribe = reinterpret_cast<Unsubscribing*>(dlvsym(library, "cuptiUnsubscribe", kVersion));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool there = false;
  while (!there && std::chrono::steady_clock::now() < end) {
    CUpti_SubscriberHandle subscriber = nullptr;
    there = subscribe(&subscriber, OnCall, nullptr) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    if (subscriber != nullptr) unsubscribe(subscriber);
    Round(After, device);
  }
  if (there) RoundsWhile(After, device, 0);
  for (int i = 0; i < 10; ++i) Round(After, device);
  std::printf("%s\n", there ? "somebody is there" : "nobody came");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const auto body = [](const simLaunch*, void**) {};
  simRegisterKernel(reinterpret_cast<const void*>(&Before), "before", body, nullptr, 0, 1000);
  simRegisterKernel(reinterpret_cast<const void*>(&Profiled), "profiled", body, nullptr, 0, 1000);
  simRegisterKernel(reinterpret_cast<const void*>(&After), "after", body, nullptr, 0, 1000);
#ifdef LOOKS_CUPTI_UP
  // Nobody has loaded it for all.
  std::printf("for all: %s\n", dlsym(RTLD_DEFAULT, "cuptiSubscribe") != nullptr ? "there" : "not there");
#endif
  CUpti_SubscriberHandle subscriber = nullptr;
  if (how == "first") Subscribe(&subscriber);
  if (how == "early") Enable(true);
  void* device = nullptr;
  cudaMalloc(&device, 4096);
  for (int i = 0; i < 30; ++i) Round(Before, device);
  if (how == "unsubscribe" || how == "finalize" || how == "until" || how == "stays") Subscribe(&subscriber);
  if (how == "watches") {
    RoundsWhile(Profiled, device, 0);
    RoundsWhile(Profiled, device, 1);
    for (int i = 0; i < 10; ++i) Round(After, device);
  } else if (how == "rests") {
    Say("subscribe", cuptiSubscribe(&subscriber, OnCall, nullptr));
    Say("callback", cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED));
    for (int i = 0; i < 3; ++i) {
      RestingProfile(device, i == 0);
      RoundsUntilSomebodyRecords(device, argc > 2);
      MakeStream();
    }
  } else {
    Profile(device, true);
  }
  if (how == "keep") Profile(device, false);
  if (how == "unsubscribe" || how == "until") Say("unsubscribe", cuptiUnsubscribe(subscriber));
  if (how == "finalize") Say("finalize", cuptiFinalize());
  if (how == "until") {
    RoundsUntilSomebodyIsThere(device);
    Subscribe(&subscriber);
    Profile(device, false);
  }
  if (how != "until" && how != "watches") {
    for (int i = 0; i < 20; ++i) Round(After, device);
  }
  cudaFree(device);
  const std::lock_guard guard(g_seen.mutex);
  for (const auto& [name, count] : g_seen.works) std::printf("%s %d\n", name.c_str(), count);
  std::printf("%d calls, %d buffers of somebody else's\n", g_seen.calls, g_seen.foreign_buffers);
  std::printf("%d streams, %d times that are not its own\n", g_seen.streams, g_seen.out_of_time);
  void* const cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  const auto violations = reinterpret_cast<uint64_t (*)()>(dlsym(cupti, "simCuptiViolations"));
  std::printf("%llu violations\n", static_cast<unsigned long long>(violations()));
  return 0;
}
