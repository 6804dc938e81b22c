// On which stream a hooked call is, as far as its row tells: found among the arguments by its type.
//
// Known: every function with a cudaStream_t among its parameters, launches that have it in their configuration, and
// those of HOOK_WORDS in which it stands at the same place in every CUDA version. Of the others 0, as for calls that
// have none.
//
// Threading: pure functions.
// Hazard: a launch's configuration is the program's; a bad pointer faults here as it would a moment later in the
//   runtime. NULL is survived.
// Source: CUDA Runtime API, stream synchronization behavior: in functions of the per-thread kind the handle 0 is
//   cudaStreamPerThread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tracer/base/hook_id.h"

namespace slipstream::shim {

// The position of the stream among the words of a row; -1: there is none, or it depends on the CUDA version.
template <tracer::HookId kId>
inline constexpr int kStreamWord = -1;

#define SLIPSTREAM_STREAM_WORD(function, word) \
  template <>                                  \
  inline constexpr int kStreamWord<tracer::HookId::function> = word;
#define SLIPSTREAM_STREAM_WORD_PTSZ(function, word) \
  SLIPSTREAM_STREAM_WORD(function, word)            \
  SLIPSTREAM_STREAM_WORD(function##_ptsz, word)

SLIPSTREAM_STREAM_WORD_PTSZ(cudaStreamGetCaptureInfo, 0)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaStreamGetCaptureInfo_v2, 0)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaStreamGetCaptureInfo_v3, 0)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaStreamUpdateCaptureDependencies, 0)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaStreamUpdateCaptureDependencies_v2, 0)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaSignalExternalSemaphoresAsync, 3)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaSignalExternalSemaphoresAsync_v2, 3)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaWaitExternalSemaphoresAsync, 3)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaWaitExternalSemaphoresAsync_v2, 3)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaMemcpyWithAttributesAsync, 4)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaMemcpy3DWithAttributesAsync, 2)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaStreamBeginRecaptureToGraph, 0)
SLIPSTREAM_STREAM_WORD_PTSZ(cudaLaunchHostFunc_v2, 0)

#undef SLIPSTREAM_STREAM_WORD
#undef SLIPSTREAM_STREAM_WORD_PTSZ

// Whether the default stream of the call is the thread's own.
constexpr bool IsPerThread(std::string_view name) { return name.ends_with("_ptsz") || name.ends_with("_ptds"); }
template <tracer::HookId kId>
inline constexpr bool kPerThread = IsPerThread(tracer::NameOf(kId));

namespace stream_of {

// The place of the first argument of this type; their number: there is none.
template <typename Wanted, typename... Arguments>
constexpr size_t PlaceOf() {
  constexpr bool kFits[] = {std::is_same_v<Wanted, Arguments>..., true};
  size_t place = 0;
  while (!kFits[place]) ++place;
  return place;
}

}  // namespace stream_of

// The handle as a number; the default stream of the per-thread kind as CUDA writes it, cudaStreamPerThread.
template <tracer::HookId kId, typename... Arguments>
uint64_t StreamOf(const Arguments&... arguments) {
  constexpr std::string_view kName = tracer::NameOf(kId);
  constexpr size_t kStream = stream_of::PlaceOf<cudaStream_t, Arguments...>();
  constexpr size_t kConfiguration = stream_of::PlaceOf<const cudaLaunchConfig_t*, Arguments...>();
  constexpr size_t kOfDriver = stream_of::PlaceOf<const CUlaunchConfig*, Arguments...>();
  [[maybe_unused]] const auto all = std::tie(arguments...);
  uint64_t stream = 0;
  bool known = true;
  if constexpr (kStream != sizeof...(Arguments)) {
    stream = reinterpret_cast<uintptr_t>(std::get<kStream>(all));
  } else if constexpr (kConfiguration != sizeof...(Arguments)) {
    const cudaLaunchConfig_t* const configuration = std::get<kConfiguration>(all);
    if (configuration != nullptr) stream = reinterpret_cast<uintptr_t>(configuration->stream);
  } else if constexpr (kOfDriver != sizeof...(Arguments)) {
    const CUlaunchConfig* const configuration = std::get<kOfDriver>(all);
    if (configuration != nullptr) stream = reinterpret_cast<uintptr_t>(configuration->hStream);
  } else if constexpr (kStreamWord<kId> >= 0) {
    stream = std::get<static_cast<size_t>(kStreamWord<kId>)>(all);
  } else {
    known = kName.ends_with("_ptds");  // those without a stream are on the default one
  }
  return kPerThread<kId> && known && stream == 0 ? reinterpret_cast<uintptr_t>(cudaStreamPerThread) : stream;
}

}  // namespace slipstream::shim
