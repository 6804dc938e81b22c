// What torch's profiler calls beside callbacks and records: external correlation, single functions, texts of results.
#include <array>
#include <vector>

#include "tests/sim/cupti/cupti.h"

namespace simcupti {
namespace {

struct Result {
  int code;
  const char* name;
};
constexpr Result kResults[] = {
#include "generated/cupti_results.inc"
};

bool IsKind(CUpti_ExternalCorrelationKind kind) {
  return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

std::vector<uint64_t>& Stack(CUpti_ExternalCorrelationKind kind) {
  static thread_local std::array<std::vector<uint64_t>, CUPTI_EXTERNAL_CORRELATION_KIND_SIZE> stacks;
  return stacks[kind];
}

// Records of calls there are none, so there are none to choose either.
CUptiResult Choose() {
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  return Listen() ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_INITIALIZED;
}

}  // namespace
}  // namespace simcupti

using namespace simcupti;

// The records that stand before those of the work are not made.
SIM_CUPTI_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (!IsKind(kind)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  Stack(kind).push_back(id);
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                                   uint64_t* lastId) {
  if (!IsKind(kind)) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  std::vector<uint64_t>& stack = Stack(kind);
  if (stack.empty()) {
    return CUPTI_ERROR_QUEUE_EMPTY;
  }
  if (lastId != nullptr) {
    *lastId = stack.back();
  }
  stack.pop_back();
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) { return Choose(); }
SIM_CUPTI_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, uint8_t) { return Choose(); }
SIM_CUPTI_EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) { return Choose(); }

SIM_CUPTI_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** str) {
  for (const Result& each : kResults) {
    if (str != nullptr && each.code == static_cast<int>(result)) {
      *str = each.name;
      return CUPTI_SUCCESS;
    }
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}
