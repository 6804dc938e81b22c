// What the ledger and the transfer engine do around a call, one kind of call each: which of their functions stands
// before or after the real one. The rules are theirs (cuda/ledger.h, transfer/engine.h); here is only who calls what.
// Which function is of which kind is a table (hook_rows.h). The driver's functions are of the same kinds where they
// differ in no more than spelling: a device address is a number, a box of memory is described by a structure of the
// driver's, and a copy says its direction in its name.
//
// A kind is a template: Kind<id>::Call(engines, real, arguments...) makes the call. Its `Watched`, if it has one, does
// so where the driver's function is not intercepted (IsWatched).
// Threading: any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "shim/caller.h"
#include "shim/device_code.h"
#include "shim/driver_library.h"
#include "shim/engines.h"
#include "shim/resolver.h"
#include "shim/stream_of.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

using cuda::AddressRange;
using cuda::Before;
using cuda::HostEffectKind;

// A function of the driver's as the engines call one. The two enumerations have the same numbers.
template <typename Function>
struct DriverCall {
  Function* real;
  template <typename... Arguments>
  cudaError_t operator()(Arguments... arguments) const {
    return static_cast<cudaError_t>(real(arguments...));
  }
};

template <typename Function>
const void* AddressOf(Function* real) {
  return reinterpret_cast<const void*>(real);
}
template <typename Function>
const void* AddressOf(const DriverCall<Function>& call) {
  return reinterpret_cast<const void*>(call.real);
}

// Of an attempt that is made again: it is nobody's error (S15), and the runtime that failed, by its function `real`,
// forgets it. The driver keeps none.
template <tracer::HookId kId>
void ForgetLastError([[maybe_unused]] const void* real) {
  if constexpr (!tracer::IsOfDriver(kId)) {
    using LastError = cudaError_t();
    void* const forget = Resolver::Beside(kId, real, tracer::HookId::cudaGetLastError);
    if (forget != nullptr) (void)reinterpret_cast<LastError*>(forget)();
  }
}

namespace around {

// Nothing but: some call was made.
template <tracer::HookId kId>
struct Plain {
  static constexpr bool kHasRow = false;
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines&, Real real, Arguments... arguments) {
    Engines::OtherCall();
    return real(arguments...);
  }
};

struct Row {
  static constexpr bool kHasRow = true;
};

// As Plain, on purpose.
template <tracer::HookId kId>
struct Nothing : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    return Plain<kId>::Call(engines, real, arguments...);
  }
};

// Work in a stream besides launches, copies and memsets, which keeps its place there whatever is skipped.
template <tracer::HookId kId>
struct IsWork : Nothing<kId> {
  static constexpr bool kSubmits = true;
};

// Not even a call between a copy and its synchronization: it only reads the thread's last error.
template <tracer::HookId kId>
struct Silent : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines&, Real real, Arguments... arguments) {
    return real(arguments...);
  }
};

// What the calling thread has deferred is settled first.
template <Before kWhat>
struct Settles {
  template <tracer::HookId kId>
  struct Family : Row {
    template <typename Real, typename... Arguments>
    static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
      Engines::OtherCall();
      engines.Settle(kWhat);
      return real(arguments...);
    }
  };
};
template <tracer::HookId kId>
using BlockingCopy = Settles<Before::kCopy>::Family<kId>;
template <tracer::HookId kId>
using Waits = Settles<Before::kSynchronization>::Family<kId>;
template <tracer::HookId kId>
using Frees = Settles<Before::kFree>::Family<kId>;
template <tracer::HookId kId>
struct FreesDeviceMemory : Row {
  template <typename Real, typename Address>
  static cudaError_t Call(const Engines& engines, Real real, Address memory) {
    Engines::OtherCall();
    engines.Settle(Before::kFree);
    if (memory != Address{}) engines.ledger.BeforeFree();
    return real(memory);
  }
};
template <tracer::HookId kId>
using StopsProfiler = Settles<Before::kProfilerStop>::Family<kId>;

// ---- copies

// What an asynchronous copy or a memset touches, and where it is enqueued.
struct Enqueued {
  cuda::Ledger::Touched touched;
  cudaStream_t stream;
};

inline size_t SpanOf(size_t pitch, size_t width, size_t height) {
  return height == 0 ? 0 : pitch * (height - 1) + width;
}

// From the start of the described memory to the end of its last plane that the copy reaches.
inline size_t SpanOf(const cudaPitchedPtr& memory, const cudaPos& position, const cudaExtent& extent) {
  return memory.pitch * memory.ysize * (position.z + extent.depth);
}

// cudaMemcpy3DParms and cudaMemcpy3DPeerParms name these fields alike.
template <typename Parameters>
Enqueued Of3D(const Parameters* p, cudaStream_t stream) {
  cuda::Ledger::Touched touched;
  if (p != nullptr && p->dstArray == nullptr) {
    touched.destination = p->dstPtr.ptr;
    touched.destination_span = SpanOf(p->dstPtr, p->dstPos, p->extent);
  }
  if (p != nullptr && p->srcArray == nullptr) {
    touched.source = p->srcPtr.ptr;
    touched.source_span = SpanOf(p->srcPtr, p->srcPos, p->extent);
  }
  return {touched, stream};
}

// kWhat turns the call's arguments into an Enqueued.
template <auto kWhat>
struct Touches {
  template <tracer::HookId kId>
  struct Family : Row {
    template <typename Real, typename... Arguments>
    static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
      Engines::OtherCall();
      // The description of the copy is read where it has to be: it may be a bad pointer, which the real call refuses.
      if (cuda::Ledger::Defers()) engines.ledger.BeforeCopyTo(kWhat(arguments...).touched.destination);
      const cudaError_t result = real(arguments...);
      if (result != cudaSuccess) return result;
      const Enqueued enqueued = kWhat(arguments...);
      engines.ledger.Touches(enqueued.touched, enqueued.stream, kPerThread<kId>);
      return result;
    }
  };
};

// Enqueues what may write any host memory, on a stream whose place among the arguments depends on the CUDA version.
template <tracer::HookId kId>
struct WritesAnywhere : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(arguments...);
    if (result == cudaSuccess) engines.ledger.HostEffectAnywhere();
    return result;
  }
};

inline constexpr auto kCopy = [](void* dst, const void* src, size_t count, cudaMemcpyKind, cudaStream_t stream) {
  return Enqueued{{dst, count, src, count}, stream};
};
inline constexpr auto kCopy2D = [](void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                   size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return Enqueued{{dst, SpanOf(dpitch, width, height), src, SpanOf(spitch, width, height)}, stream};
};
inline constexpr auto kCopy3D = [](const auto* p, cudaStream_t stream) { return Of3D(p, stream); };
inline constexpr auto kCopyPeer = [](void* dst, int, const void* src, int, size_t count, cudaStream_t stream) {
  return Enqueued{{dst, count, src, count}, stream};
};
// A symbol or an array is memory of the device.
inline constexpr auto kCopyToSymbol = [](const void*, const void* src, size_t count, size_t, cudaMemcpyKind,
                                         cudaStream_t stream) {
  return Enqueued{{nullptr, 0, src, count}, stream};
};
inline constexpr auto kCopyFromSymbol = [](void* dst, const void*, size_t count, size_t, cudaMemcpyKind,
                                           cudaStream_t stream) {
  return Enqueued{{dst, count, nullptr, 0}, stream};
};
inline constexpr auto kCopyToArray = [](cudaArray_t, size_t, size_t, const void* src, size_t count, cudaMemcpyKind,
                                        cudaStream_t stream) {
  return Enqueued{{nullptr, 0, src, count}, stream};
};
inline constexpr auto kCopyFromArray = [](void* dst, cudaArray_const_t, size_t, size_t, size_t count, cudaMemcpyKind,
                                          cudaStream_t stream) {
  return Enqueued{{dst, count, nullptr, 0}, stream};
};
inline constexpr auto kCopy2DToArray = [](cudaArray_t, size_t, size_t, const void* src, size_t spitch, size_t width,
                                          size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return Enqueued{{nullptr, 0, src, SpanOf(spitch, width, height)}, stream};
};
inline constexpr auto kCopy2DFromArray = [](void* dst, size_t dpitch, cudaArray_const_t, size_t, size_t, size_t width,
                                            size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return Enqueued{{dst, SpanOf(dpitch, width, height), nullptr, 0}, stream};
};

template <tracer::HookId kId>
struct CopyAsync : Row {
  static cudaError_t Call(const Engines& engines, transfer::RealCopyAsync* real, void* dst, const void* src,
                          size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
    if (engines.transfer != nullptr)
      return engines.transfer->CopyAsync(real, dst, src, count, kind, stream, kPerThread<kId>);
    return Touches<kCopy>::Family<kId>::Call(engines, real, dst, src, count, kind, stream);
  }
};

template <tracer::HookId kId>
struct Copy : Row {
  static cudaError_t Call(const Engines& engines, transfer::RealCopy* real, void* dst, const void* src, size_t count,
                          cudaMemcpyKind kind) {
    if (engines.transfer != nullptr) return engines.transfer->Copy(real, dst, src, count, kind, kPerThread<kId>);
    return BlockingCopy<kId>::Call(engines, real, dst, src, count, kind);
  }
};

// ---- memsets

inline constexpr auto kSet = [](void* dst, int, size_t count, cudaStream_t stream) {
  return Enqueued{{dst, count, nullptr, 0}, stream};
};
inline constexpr auto kSet2D = [](void* dst, size_t pitch, int, size_t width, size_t height, cudaStream_t stream) {
  return Enqueued{{dst, SpanOf(pitch, width, height), nullptr, 0}, stream};
};
inline constexpr auto kSet3D = [](cudaPitchedPtr dst, int, cudaExtent extent, cudaStream_t stream) {
  return Enqueued{{dst.ptr, SpanOf(dst, cudaPos(), extent), nullptr, 0}, stream};
};

// ---- host code and graphs

// A stream or an event, of a row of HOOK_WORDS too.
inline cudaStream_t AsStream(cudaStream_t stream) { return stream; }
inline cudaStream_t AsStream(uintptr_t word) { return reinterpret_cast<cudaStream_t>(word); }
inline cudaEvent_t AsEvent(cudaEvent_t event) { return event; }
inline cudaEvent_t AsEvent(uintptr_t word) { return reinterpret_cast<cudaEvent_t>(word); }

template <tracer::HookId kId>
struct HostFunction : Row {
  template <typename Real, typename Stream, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Stream stream, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, arguments...);
    if (result == cudaSuccess) {
      engines.ledger.HostEffect(HostEffectKind::kHostCode, AddressRange::All(), AsStream(stream), kPerThread<kId>);
    }
    return result;
  }
};

template <tracer::HookId kId>
struct Instantiates : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, cudaGraphExec_t* executable, cudaGraph_t graph,
                          Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(executable, graph, arguments...);
    if (result == cudaSuccess) engines.ledger.GraphInstantiated(*executable, graph);
    return result;
  }
};

template <tracer::HookId kId>
struct UpdatesGraph : Row {
  template <typename Real, typename... Info>
  static cudaError_t Call(const Engines& engines, Real real, cudaGraphExec_t executable, cudaGraph_t graph,
                          Info... info) {
    Engines::OtherCall();
    engines.ledger.GraphForgotten(executable);
    const cudaError_t result = real(executable, graph, info...);
    if (result == cudaSuccess) engines.ledger.GraphInstantiated(executable, graph);
    return result;
  }
};

// Changed in a way that is not looked at, or destroyed.
template <tracer::HookId kId>
struct ForgetsGraph : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, cudaGraphExec_t executable, Arguments... arguments) {
    Engines::OtherCall();
    engines.ledger.GraphForgotten(executable);
    return real(executable, arguments...);
  }
};

template <tracer::HookId kId>
struct LaunchesGraph : Row {
  static constexpr bool kSubmits = true;
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaGraphExec_t executable, cudaStream_t stream) {
    Engines::OtherCall();
    const cudaError_t result = real(executable, stream);
    if (result == cudaSuccess) engines.ledger.GraphLaunched(executable, stream, kPerThread<kId>);
    return result;
  }
};

template <tracer::HookId kId>
struct BeginsCapture : Row {
  template <typename Real, typename Stream, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Stream stream, Arguments... arguments) {
    Engines::OtherCall();
    return engines.ledger.BeginCapture(AsStream(stream), kPerThread<kId>, [&] { return real(stream, arguments...); });
  }
};

template <tracer::HookId kId>
struct EndsCapture : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaStream_t stream, cudaGraph_t* graph) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, graph);
    engines.ledger.CaptureMayHaveEnded(stream, kPerThread<kId>);
    return result;
  }
};

// ---- synchronizations and queries

template <tracer::HookId kId>
struct SynchronizesStream : Row {
  using Watched = Waits<kId>;
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaStream_t stream) {
    if (engines.transfer != nullptr && engines.transfer->SkipStreamSynchronize(stream, kPerThread<kId>))
      return cudaSuccess;
    engines.Settle(Before::kSynchronization);
    return real(stream);
  }
};

// kBefore lets the engine settle what the answer would show.
template <auto kBefore>
struct Asks {
  template <tracer::HookId kId>
  struct Family : Row {
    template <typename Real, typename... Arguments>
    static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
      Engines::OtherCall();
      // The mutant of S15: the runtime is asked first, and remembers that it answered "not ready".
      if (Broken(Mutant::kS15)) (void)real(arguments...);
      kBefore(engines, kPerThread<kId>, arguments...);
      return real(arguments...);
    }
  };
};

inline constexpr auto kEventQuery = [](const Engines& engines, bool, cudaEvent_t event) {
  engines.ledger.BeforeEventQuery(event);
};
inline constexpr auto kStreamQuery = [](const Engines& engines, bool per_thread, cudaStream_t stream) {
  engines.ledger.BeforeStreamQuery(stream, per_thread);
};
inline constexpr auto kElapsedTime = [](const Engines& engines, bool, float*, cudaEvent_t start, cudaEvent_t end) {
  engines.ledger.BeforeElapsedTime(start, end);
};
inline constexpr auto kElapsedTimeWords = [](const Engines& engines, bool, uintptr_t, uintptr_t start, uintptr_t end) {
  engines.ledger.BeforeElapsedTime(AsEvent(start), AsEvent(end));
};

// ---- events and streams

template <tracer::HookId kId>
struct RecordsEvent : Row {
  template <typename Real, typename... Flags>
  static cudaError_t Call(const Engines& engines, Real real, cudaEvent_t event, cudaStream_t stream, Flags... flags) {
    Engines::OtherCall();
    const cudaError_t result = real(event, stream, flags...);
    if (result == cudaSuccess) engines.ledger.EventRecorded(event, stream, kPerThread<kId>);
    return result;
  }
};

// In all streams of a context.
template <tracer::HookId kId>
struct RecordsEventInAll : Row {
  template <typename Real, typename Context, typename Event>
  static cudaError_t Call(const Engines& engines, Real real, Context context, Event event) {
    Engines::OtherCall();
    const cudaError_t result = real(context, event);
    if (result == cudaSuccess) engines.ledger.EventRecordedInAll(AsEvent(event));
    return result;
  }
};

template <tracer::HookId kId>
struct DestroysEvent : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaEvent_t event) {
    Engines::OtherCall();
    engines.ledger.EventDestroyed(event);
    return real(event);
  }
};

template <tracer::HookId kId>
struct DestroysStream : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaStream_t stream) {
    Engines::OtherCall();
    engines.ledger.StreamDestroyed(stream);
    return real(stream);
  }
};

// ---- memory, sharing, the device

template <tracer::HookId kId>
struct UsesMappedMemory : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    Engines::OtherCall();
    if (OrderIsTheProgramsCare()) engines.ledger.UsesMappedMemory();
    return real(arguments...);
  }
};

// Who sizes the buffer that printf in device code fills has kernels that print.
template <tracer::HookId kId>
struct SetsLimit : Row {
  template <typename Real, typename Limit>
  static cudaError_t Call(const Engines& engines, Real real, Limit limit, size_t value) {
    static_assert(int{cudaLimitPrintfFifoSize} == int{CU_LIMIT_PRINTF_FIFO_SIZE});
    Engines::OtherCall();
    if (static_cast<int>(limit) == cudaLimitPrintfFifoSize && OrderIsTheProgramsCare()) engines.ledger.KernelsPrint();
    return real(limit, value);
  }
};

// The program's own code: not what a library brings for itself.
template <tracer::HookId kId>
struct LoadsCode : Row {
  template <typename Real, typename Handle, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Handle* loaded, const void* image,
                          Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(loaded, image, arguments...);
    if (result == cudaSuccess && OrderIsTheProgramsCare() && CallsPrintf(image)) engines.ledger.KernelsPrint();
    return result;
  }
};

// Code, textures and surfaces: a kernel that is still at it may be any thread's.
template <tracer::HookId kId>
struct EndsWhatKernelsUse : Row {
  template <typename Real, typename Handle>
  static cudaError_t Call(const Engines& engines, Real real, Handle handle) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kFree);
    return real(handle);
  }
};

// Memory that is pinned for the program. Where there is no more, it is made once more behind what the engine has idle
// (S36).
template <tracer::HookId kId, typename Real, typename... Arguments>
cudaError_t Pins(const Engines& engines, Real real, Arguments... arguments) {
  const cudaError_t result = real(arguments...);
  if (result != cudaErrorMemoryAllocation || !engines.GiveBackHostStaging()) return result;
  ForgetLastError<kId>(AddressOf(real));
  return real(arguments...);
}

template <tracer::HookId kId>
struct AllocatesHost : Row {
  template <typename Real, typename... Flags>
  static cudaError_t Call(const Engines& engines, Real real, void** memory, size_t size, Flags... flags) {
    Engines::OtherCall();
    if (((flags & cudaHostAllocMapped) | ... | 0) != 0 && OrderIsTheProgramsCare()) engines.ledger.UsesMappedMemory();
    return Pins<kId>(engines, real, memory, size, flags...);
  }
};

template <tracer::HookId kId>
struct RegistersHost : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, void* memory, size_t size, unsigned int flags) {
    Engines::OtherCall();
    const cudaError_t result = Pins<kId>(engines, real, memory, size, flags);
    const bool mapped = (flags & cudaHostRegisterMapped) != 0 && OrderIsTheProgramsCare();
    if (result == cudaSuccess) engines.ledger.HostRegistered(memory, size, mapped);
    return result;
  }
};

template <tracer::HookId kId>
struct UnregistersHost : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, void* memory) {
    Engines::OtherCall();
    engines.Settle(Before::kFree);
    const cudaError_t result = real(memory);
    if (result == cudaSuccess) engines.ledger.HostUnregistered(memory);
    return result;
  }
};

template <tracer::HookId kId>
struct FreesHostMemory : Row {
  template <typename Real, typename Memory>
  static cudaError_t Call(const Engines& engines, Real real, Memory* memory) {
    Engines::OtherCall();
    engines.Settle(Before::kFree);
    const cudaError_t result = real(memory);
    engines.ledger.HostFreed();
    return result;
  }
};

template <tracer::HookId kId>
struct Advises : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, uintptr_t memory, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(memory, arguments...);
    if (result == cudaSuccess) engines.ledger.AdvisesMemory(reinterpret_cast<const void*>(memory));
    return result;
  }
};

template <tracer::HookId kId>
struct AdvisesBatch : Row {
  template <typename Real, typename Address, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Address* memory, size_t* sizes, size_t count,
                          Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(memory, sizes, count, arguments...);
    for (size_t i = 0; result == cudaSuccess && i < count; ++i) {
      engines.ledger.AdvisesMemory(reinterpret_cast<const void*>(memory[i]));
    }
    return result;
  }
};

template <tracer::HookId kId>
struct Shares : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    Engines::OtherCall();
    if (OrderIsTheProgramsCare()) engines.ledger.SharesMemory();
    engines.SettleForAll(Before::kShare);
    return real(arguments...);
  }
};

// Events and semaphores, through which another process sees when work has run.
template <tracer::HookId kId>
struct SharesWork : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    if (OrderIsTheProgramsCare()) engines.ledger.SharesWork();
    return Shares<kId>::Call(engines, real, arguments...);
  }
};

template <tracer::HookId kId>
struct SetsDevice : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, int device) {
    Engines::OtherCall();
    engines.ledger.UsesDevice(device);
    return real(device);
  }
};

// One more on a device, whose work no hold of the primary one keeps back for sure (S12).
inline constexpr int kNoDeviceOfOurs = -1;

template <tracer::HookId kId>
struct MakesContext : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(arguments...);
    if (result == cudaSuccess) engines.ledger.UsesDevice(kNoDeviceOfOurs);
    return result;
  }
};

// Between two devices, of which either may be used for the first time.
template <tracer::HookId kId>
struct CopiesPeer : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, void* dst, int dst_device, const void* src, int src_device,
                          size_t count, cudaStream_t stream) {
    engines.ledger.UsesDevice(dst_device);
    engines.ledger.UsesDevice(src_device);
    return Touches<kCopyPeer>::Family<kId>::Call(engines, real, dst, dst_device, src, src_device, count, stream);
  }
};
template <tracer::HookId kId>
struct CopiesPeer3D : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
    if (cuda::Ledger::Defers() && p != nullptr) {
      engines.ledger.UsesDevice(p->dstDevice);
      engines.ledger.UsesDevice(p->srcDevice);
    }
    return Touches<kCopy3D>::Family<kId>::Call(engines, real, p, stream);
  }
};

template <tracer::HookId kId>
struct ResetsDevice : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kReset);
    engines.DeviceReset(-1);
    return real();
  }
};

// ---- the driver's

inline void* At(CUdeviceptr address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }
inline const void* AsPointer(const void* host) { return host; }
inline const void* AsPointer(CUdeviceptr device) { return At(device); }
inline CUdeviceptr AsNumber(const void* device) { return reinterpret_cast<uintptr_t>(device); }

// The engine may make the program's call for a part of the copy, or later, so it is given a function of the runtime's
// signature. `Destination` and `Source` are what the driver's function takes.
template <tracer::HookId kId, typename Destination, typename Source>
struct DriverCopy {
  static Destination ToDestination(void* memory) {
    if constexpr (std::is_pointer_v<Destination>)
      return memory;
    else
      return AsNumber(memory);
  }
  static Source ToSource(const void* memory) {
    if constexpr (std::is_pointer_v<Source>)
      return memory;
    else
      return AsNumber(memory);
  }
  static cudaError_t Async(void* destination, const void* source, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    using Function = CUresult(Destination, Source, size_t, CUstream);
    auto* const real = reinterpret_cast<Function*>(DriverLibrary::Known(kId));
    return static_cast<cudaError_t>(real(ToDestination(destination), ToSource(source), bytes, stream));
  }
  static cudaError_t Blocking(void* destination, const void* source, size_t bytes, cudaMemcpyKind) {
    using Function = CUresult(Destination, Source, size_t);
    auto* const real = reinterpret_cast<Function*>(DriverLibrary::Known(kId));
    return static_cast<cudaError_t>(real(ToDestination(destination), ToSource(source), bytes));
  }
};

inline constexpr auto kDriverCopy = [](auto dst, auto src, size_t count, CUstream stream) {
  return Enqueued{{AsPointer(dst), count, AsPointer(src), count}, stream};
};

// A copy that is left to the driver.
template <tracer::HookId kId>
struct CopiesUnserved : Row {
  template <typename Real, typename Destination, typename Source>
  static cudaError_t Call(const Engines& engines, const Real& real, Destination dst, Source src, size_t count,
                          CUstream stream) {
    return Touches<kDriverCopy>::Family<kId>::Call(engines, real, dst, src, count, stream);
  }
  template <typename Real, typename Destination, typename Source>
  static cudaError_t Call(const Engines& engines, const Real& real, Destination dst, Source src, size_t count) {
    return BlockingCopy<kId>::Call(engines, real, dst, src, count);
  }
};

// Of cuMemcpy it is that of the pointers.
constexpr cudaMemcpyKind DirectionOf(std::string_view name) {
  if (name.starts_with("cuMemcpyHtoD")) return cudaMemcpyHostToDevice;
  if (name.starts_with("cuMemcpyDtoH")) return cudaMemcpyDeviceToHost;
  return name.starts_with("cuMemcpyDtoD") ? cudaMemcpyDeviceToDevice : cudaMemcpyDefault;
}

template <tracer::HookId kId>
struct CopiesByDriver : Row {
  static constexpr cudaMemcpyKind kDirection = DirectionOf(tracer::NameOf(kId));
  using Watched = CopiesUnserved<kId>;
  template <typename Real, typename Destination, typename Source>
  static cudaError_t Call(const Engines& engines, const Real&, Destination dst, Source src, size_t count,
                          CUstream stream) {
    return CopyAsync<kId>::Call(engines, &DriverCopy<kId, Destination, Source>::Async,
                                const_cast<void*>(AsPointer(dst)), AsPointer(src), count, kDirection, stream);
  }
  template <typename Real, typename Destination, typename Source>
  static cudaError_t Call(const Engines& engines, const Real&, Destination dst, Source src, size_t count) {
    return Copy<kId>::Call(engines, &DriverCopy<kId, Destination, Source>::Blocking, const_cast<void*>(AsPointer(dst)),
                           AsPointer(src), count, kDirection);
  }
};

// ---- what asynchronous copies and memsets touch

// One side of a described copy: where its lines begin, and how far they reach. Nothing, where it is an array.
struct Side {
  const void* begin = nullptr;
  size_t span = 0;
};

inline Side SideOf(CUmemorytype type, const void* host, CUdeviceptr device, size_t x, size_t line, size_t pitch,
                   size_t lines, size_t width) {
  if (type == CU_MEMORYTYPE_ARRAY || lines == 0 || width == 0) return {};
  const void* const base = type == CU_MEMORYTYPE_HOST ? host : At(device);
  if (base == nullptr) return {};
  return {static_cast<const char*>(base) + line * pitch + x, SpanOf(pitch, width, lines)};
}

inline Enqueued OfBox(const CUDA_MEMCPY2D* p, CUstream stream) {
  if (p == nullptr) return {{}, stream};
  const Side to = SideOf(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, p->dstPitch, p->Height,
                         p->WidthInBytes);
  const Side from = SideOf(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, p->srcPitch, p->Height,
                           p->WidthInBytes);
  return {{to.begin, to.span, from.begin, from.span}, stream};
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER name these fields alike. From the first line to the last of the last plane.
template <typename Box>
Enqueued OfBox(const Box* p, CUstream stream) {
  if (p == nullptr || p->Depth == 0 || p->Height == 0) return {{}, stream};
  const Side to = SideOf(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstZ * p->dstHeight + p->dstY,
                         p->dstPitch, (p->Depth - 1) * p->dstHeight + p->Height, p->WidthInBytes);
  const Side from = SideOf(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcZ * p->srcHeight + p->srcY,
                           p->srcPitch, (p->Depth - 1) * p->srcHeight + p->Height, p->WidthInBytes);
  return {{to.begin, to.span, from.begin, from.span}, stream};
}

inline constexpr auto kBox = [](const auto* p, CUstream stream) { return OfBox(p, stream); };
inline constexpr auto kDriverPeer = [](CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t count,
                                       CUstream stream) {
  return Enqueued{{At(dst), count, At(src), count}, stream};
};
inline constexpr auto kHostToArray = [](CUarray, size_t, const void* src, size_t count, CUstream stream) {
  return Enqueued{{nullptr, 0, src, count}, stream};
};
inline constexpr auto kArrayToHost = [](void* dst, CUarray, size_t, size_t count, CUstream stream) {
  return Enqueued{{dst, count, nullptr, 0}, stream};
};
// The element's type is that of the value.
inline constexpr auto kFill = [](CUdeviceptr dst, auto value, size_t count, CUstream stream) {
  return Enqueued{{At(dst), count * sizeof(value), nullptr, 0}, stream};
};
inline constexpr auto kFill2D = [](CUdeviceptr dst, size_t pitch, auto value, size_t width, size_t height,
                                   CUstream stream) {
  return Enqueued{{At(dst), SpanOf(pitch, width * sizeof(value), height), nullptr, 0}, stream};
};

// A value written in the stream's order, perhaps to memory of the host (S10).
template <tracer::HookId kId>
struct WritesValue : Row {
  static constexpr bool kSubmits = true;
  template <typename Real, typename Value>
  static cudaError_t Call(const Engines& engines, Real real, CUstream stream, CUdeviceptr address, Value value,
                          unsigned flags) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, address, value, flags);
    if (result == cudaSuccess)
      engines.ledger.Touches({At(address), sizeof(value), nullptr, 0}, stream, kPerThread<kId>);
    return result;
  }
};

// A list of waits and writes, which is not read.
template <tracer::HookId kId>
struct WritesValues : Row {
  static constexpr bool kSubmits = true;
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, CUstream stream, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, arguments...);
    if (result == cudaSuccess)
      engines.ledger.HostEffect(HostEffectKind::kWrite, AddressRange::All(), stream, kPerThread<kId>);
    return result;
  }
};

// ---- contexts

// One more, perhaps; which the engine's one context is not.
template <tracer::HookId kId>
struct RetainsContext : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUcontext* context, CUdevice device) {
    Engines::OtherCall();
    engines.ledger.UsesDevice(device);
    return real(context, device);
  }
};

template <tracer::HookId kId>
struct ResetsContext : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUdevice device) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kReset);
    engines.DeviceReset(device);
    return real(device);
  }
};

// The context is gone with its last user. Whether this was the last is known behind the call.
template <tracer::HookId kId>
struct ReleasesContext : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUdevice device) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kReset);
    const cudaError_t result = real(device);
    if (result == cudaSuccess && !DriverLibrary::HasPrimaryContext(device)) engines.DeviceReset(device);
    return result;
  }
};

template <tracer::HookId kId>
struct CopiesBetweenContexts : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                          CUcontext from, size_t count, CUstream stream) {
    if (to != from) engines.ledger.UsesDevice(kNoDeviceOfOurs);
    return Touches<kDriverPeer>::Family<kId>::Call(engines, real, dst, to, src, from, count, stream);
  }
};
template <tracer::HookId kId>
struct CopiesBoxBetweenContexts : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, const CUDA_MEMCPY3D_PEER* p, CUstream stream) {
    if (cuda::Ledger::Defers() && p != nullptr && p->dstContext != p->srcContext)
      engines.ledger.UsesDevice(kNoDeviceOfOurs);
    return Touches<kBox>::Family<kId>::Call(engines, real, p, stream);
  }
};

}  // namespace around

}  // namespace slipstream::shim
