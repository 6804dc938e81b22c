// Functions of CUPTI that another client calls, which is linked to libcupti as PyTorch's profiler is, or has looked
// them up (cupti_lookup.h). CUPTI serves one client at a time. Before such a call slipstream is out of CUPTI
// (tracer/device/device_tracer.h), behind it is remembered what the client has (tracer/device/cupti_clients.h), and the
// call itself is the client's own: every one is forwarded, whatever happens.
//
// Where slipstream does not use CUPTI, as in a run that is not recorded, a call is looked up, forwarded and remembered.
//
// Threading: any thread.
// Hazard: a call waits for slipstream's last fetch of records where slipstream was in CUPTI.

// The shim is compiled with CUDA's internal names, which cupti.h does not bear.
#undef __CUDA_API_VERSION_INTERNAL

#include <cupti.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>

#include "shim/cupti_lookup.h"
#include "shim/loaded_object.h"
#include "tracer/device/cupti_clients.h"
#include "tracer/device/device_tracer.h"

namespace slipstream::shim {
namespace {

using tracer::g_cupti_clients;

struct LoadedQuestion {
  const char* name;
  void* function;
};

int AskLoaded(dl_phdr_info* info, size_t, void* data) {
  if (info->dlpi_name == nullptr || !IsLibcupti(BaseName(info->dlpi_name).data())) return 0;
  auto* const question = static_cast<LoadedQuestion*>(data);
  void* const handle = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return 0;
  question->function = dlsym(handle, question->name);
  dlclose(handle);
  return question->function != nullptr ? 1 : 0;
}

}  // namespace

void* LinkedCupti(const char* name, const void* caller) {
  Dl_info where = {};
  if (dladdr(caller, &where) == 0 || where.dli_fname == nullptr) return nullptr;
  void* const handle = dlopen(where.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return nullptr;
  void* const function = dlsym(handle, name);
  dlclose(handle);
  return function != nullptr && !IsOurs(function) ? function : nullptr;
}

// The function that the caller would have had without us: of the libcupti that it is linked to; else the one that was
// looked up; else what the dynamic linker finds behind us; else that of any libcupti in the process.
void* RealCupti(const char* name, const void* caller) {
  if (void* const linked = LinkedCupti(name, caller)) return linked;
  if (void* const looked_up = LookedUpCupti(name)) return looked_up;
  void* const next = dlsym(RTLD_NEXT, name);
  if (next != nullptr && !IsOurs(next)) return next;
  LoadedQuestion question = {name, nullptr};
  dl_iterate_phdr(AskLoaded, &question);
  return question.function;
}

namespace {

constinit std::atomic<pid_t> g_first_caller{0};

// Of a process that called CUPTI, or in which slipstream did: there another thread may have been in the middle of what
// is remembered.
bool IsForkedChild() {
  if (tracer::DeviceTracer::IsForkedChild()) return true;
  const pid_t self = getpid();
  pid_t first = 0;
  return !g_first_caller.compare_exchange_strong(first, self, std::memory_order_relaxed) && first != self;
}

enum class Before { kStepAside, kNothing };

// `expect` is told of the call before it is made, `remember` behind it, where it succeeded. `expect` may change the
// arguments.
template <typename Function, typename Expect, typename Remember, typename... Arguments>
CUptiResult Forward(const char* name, const void* caller, Before before, const Expect& expect, const Remember& remember,
                    Arguments&... arguments) {
  auto* const real = reinterpret_cast<Function*>(RealCupti(name, caller));
  if (real == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  if (tracer::DeviceTracer::IsInCupti()) return real(arguments...);
  if (IsForkedChild()) {
    g_cupti_clients.ChangedForGood();
    tracer::DeviceTracer::StepAside();
    return real(arguments...);
  }
  g_cupti_clients.Begin();
  if (before == Before::kStepAside) tracer::DeviceTracer::StepAside();
  expect();
  const CUptiResult result = real(arguments...);
  if (result == CUPTI_SUCCESS) remember();
  g_cupti_clients.End();
  return result;
}

// A callback that goes through slipstream's is one that slipstream can share.
template <typename Function, typename... More>
CUptiResult Subscribe(const char* name, const void* caller, CUpti_SubscriberHandle* subscriber,
                      CUpti_CallbackFunc callback, void* user, More... more) {
  bool shared = false;
  return Forward<Function>(
      name, caller, Before::kStepAside, [&] { shared = tracer::DeviceTracer::Share(&callback, &user); },
      [&] { g_cupti_clients.Subscribed(shared ? *subscriber : nullptr); }, subscriber, callback, user, more...);
}

}  // namespace
}  // namespace slipstream::shim

using namespace slipstream::shim;  // NOLINT(google-build-using-namespace): nothing else is in this file

// `expected`, `remembered`: what g_cupti_clients is told before the call, and where it succeeded.
#define SLIPSTREAM_CUPTI_CALL(function, parameters, arguments, before, expected, remembered) \
  extern "C" [[gnu::visibility("default")]] CUptiResult function parameters {                \
    return Forward<decltype(function)>(                                                      \
        #function, __builtin_return_address(0), Before::before, [&] { expected; },           \
        [&] { remembered; } SLIPSTREAM_PASS arguments);                                      \
  }
#define SLIPSTREAM_PASS(...) __VA_OPT__(, ) __VA_ARGS__
#define SLIPSTREAM_CUPTI_HOOK(function, parameters, arguments, before, remember) \
  SLIPSTREAM_CUPTI_CALL(function, parameters, arguments, before, static_cast<void>(0), g_cupti_clients.remember)
// Of what a subscription hears. Not at the same time as slipstream changes that (cupti_callbacks.h).
#define SLIPSTREAM_CUPTI_LISTEN(function, parameters, arguments, expect) \
  SLIPSTREAM_CUPTI_CALL(function, parameters, arguments, kStepAside, g_cupti_clients.expect, static_cast<void>(0))

extern "C" [[gnu::visibility("default")]] CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber,
                                                                     CUpti_CallbackFunc callback, void* user) {
  return Subscribe<decltype(cuptiSubscribe)>("cuptiSubscribe", __builtin_return_address(0), subscriber, callback, user);
}
extern "C" [[gnu::visibility("default")]] CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber,
                                                                        CUpti_CallbackFunc callback, void* user,
                                                                        CUpti_SubscriberParams* parameters) {
  return Subscribe<decltype(cuptiSubscribe_v2)>("cuptiSubscribe_v2", __builtin_return_address(0), subscriber, callback,
                                                user, parameters);
}
SLIPSTREAM_CUPTI_HOOK(cuptiUnsubscribe, (CUpti_SubscriberHandle subscriber), (subscriber), kStepAside, Unsubscribed())
SLIPSTREAM_CUPTI_LISTEN(cuptiEnableCallback,
                        (uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                         CUpti_CallbackId function),
                        (enable, subscriber, domain, function), Listens(domain, function, enable != 0))
SLIPSTREAM_CUPTI_LISTEN(cuptiEnableDomain,
                        (uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain),
                        (enable, subscriber, domain), ListensToDomain(domain, enable != 0))
SLIPSTREAM_CUPTI_LISTEN(cuptiEnableAllDomains, (uint32_t enable, CUpti_SubscriberHandle subscriber),
                        (enable, subscriber), ListensToAll(enable != 0))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityRegisterCallbacks,
                      (CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete),
                      (request, complete), kStepAside, Registered({request, complete}))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityRegisterTimestampCallback, (CUpti_TimestampCallbackFunc callback), (callback),
                      kStepAside, RegisteredClock(callback))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityEnable, (CUpti_ActivityKind kind), (kind), kStepAside, Enabled(kind))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityEnableAndDump, (CUpti_ActivityKind kind), (kind), kStepAside, Enabled(kind))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityEnableContext, (CUcontext context, CUpti_ActivityKind kind), (context, kind),
                      kStepAside, Enabled(kind))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityDisable, (CUpti_ActivityKind kind), (kind), kStepAside, Disabled(kind))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityDisableContext, (CUcontext context, CUpti_ActivityKind kind), (context, kind),
                      kStepAside, Disabled(kind))
SLIPSTREAM_CUPTI_HOOK(cuptiActivityFlushAll, (uint32_t flag), (flag), kNothing, Flushed())
SLIPSTREAM_CUPTI_HOOK(cuptiFinalize, (), (), kStepAside, Finalized())
