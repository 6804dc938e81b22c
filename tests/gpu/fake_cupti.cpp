// A stand-in for libcupti.so.13 with the functions that cupti_count.cpp uses, so that the counting can be tested
// without a GPU. FakeCuptiDeliver plays the runtime's part of reporting a call, during which `work` runs;
// FakeCuptiDriverCall the driver's.
// Threading: none; one subscriber, one test thread.

#include <cupti.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
CUpti_CallbackFunc g_callback = nullptr;
bool g_enabled = false;
bool g_driver_enabled = false;

int Deliver(bool enabled, CUpti_CallbackDomain domain, uint32_t id, const char* function_name, void (*work)(void*),
            void* context) {
  CUpti_CallbackData data{};
  data.functionName = function_name;
  data.callbackSite = CUPTI_API_ENTER;
  if (g_callback && enabled) g_callback(nullptr, domain, id, &data);
  if (work) work(context);
  data.callbackSite = CUPTI_API_EXIT;
  if (g_callback && enabled) g_callback(nullptr, domain, id, &data);
  return g_callback && enabled ? 1 : 0;
}
}  // namespace

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) {
  *subscriber = nullptr;
  g_callback = callback;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) g_enabled = enable != 0;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) g_driver_enabled = enable != 0;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    *name = id == CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2 ? "cuMemAlloc_v2" : nullptr;
    return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
  }
  switch (id) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020:
      *name = "cudaMalloc_v3020";
      return CUPTI_SUCCESS;
    case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000:
      *name = "cudaLaunchKernel_v7000";
      return CUPTI_SUCCESS;
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
}

// Delivers the entry and the exit of one runtime call.
EXPORT int FakeCuptiDeliver(uint32_t id, const char* function_name, void (*work)(void*), void* context) {
  return Deliver(g_enabled, CUPTI_CB_DOMAIN_RUNTIME_API, id, function_name, work, context);
}

EXPORT int FakeCuptiDriverCall(uint32_t id) {
  return Deliver(g_driver_enabled, CUPTI_CB_DOMAIN_DRIVER_API, id, "cuSomething", nullptr, nullptr);
}
