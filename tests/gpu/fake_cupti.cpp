// A stand-in for libcupti.so.13 with the four functions that cupti_count.cpp uses, so that the counting can be tested
// without a GPU. FakeCuptiDeliver plays the runtime's part of reporting a call.
// Threading: none; one subscriber, one test thread.

#include <cupti.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
CUpti_CallbackFunc g_callback = nullptr;
bool g_enabled = false;
}  // namespace

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) {
  *subscriber = nullptr;
  g_callback = callback;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
  g_enabled = enable != 0 && domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t id, const char** name) {
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
EXPORT int FakeCuptiDeliver(uint32_t id, const char* function_name) {
  if (!g_callback || !g_enabled) return 0;
  CUpti_CallbackData data{};
  data.functionName = function_name;
  data.callbackSite = CUPTI_API_ENTER;
  g_callback(nullptr, CUPTI_CB_DOMAIN_RUNTIME_API, id, &data);
  data.callbackSite = CUPTI_API_EXIT;
  g_callback(nullptr, CUPTI_CB_DOMAIN_RUNTIME_API, id, &data);
  return 1;
}
