// Finds the functions of CUPTI that slipstream uses, in the libcupti that the process has or that is beside its
// libcudart. Nothing is linked to it.
//
// Threading: Find on one thread; what it found is constant. The library stays loaded.
// Hazard: Find takes the loader's lock, and loading the library takes milliseconds.
// Source: CUPTI documentation; where the library lies: the CUDA toolkit's folders, and those of NVIDIA's wheels.
#pragma once

#include <cupti.h>

#include <string>

namespace slipstream::tracer {

// Name in this struct, and CUPTI's.
#define SLIPSTREAM_CUPTI_FUNCTIONS(ROW)                       \
  ROW(get_version, cuptiGetVersion)                           \
  ROW(get_timestamp, cuptiGetTimestamp)                       \
  ROW(get_callback_name, cuptiGetCallbackName)                \
  ROW(subscribe, cuptiSubscribe)                              \
  ROW(unsubscribe, cuptiUnsubscribe)                          \
  ROW(enable_callback, cuptiEnableCallback)                   \
  ROW(register_callbacks, cuptiActivityRegisterCallbacks)     \
  ROW(register_clock, cuptiActivityRegisterTimestampCallback) \
  ROW(set_attribute, cuptiActivitySetAttribute)               \
  ROW(get_attribute, cuptiActivityGetAttribute)               \
  ROW(enable, cuptiActivityEnable)                            \
  ROW(disable, cuptiActivityDisable)                          \
  ROW(flush_all, cuptiActivityFlushAll)                       \
  ROW(get_next_record, cuptiActivityGetNextRecord)            \
  ROW(get_dropped_records, cuptiActivityGetNumDroppedRecords)

struct CuptiFunctions {
#define SLIPSTREAM_ROW(name, function) decltype(&::function) name = nullptr;
  SLIPSTREAM_CUPTI_FUNCTIONS(SLIPSTREAM_ROW)
#undef SLIPSTREAM_ROW

  std::string path;
  uint32_t version = 0;

  // `runtime`: the path of the process's libcudart. False, and *problem: there is none that can be used.
  bool Find(const std::string& runtime, std::string* problem);
};

}  // namespace slipstream::tracer
