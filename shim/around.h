// What the ledger and the transfer engine do around a call, one kind of call each: which of their functions stands
// before or after the real one. The rules are theirs (cuda/ledger.h, transfer/engine.h); here is only who calls what.
// Which function is of which kind is a table (transfer_hooks.h, driver_transfer_hooks.h).
//
// A kind is a template: Kind<per_thread>::Call(engines, real, arguments...) makes the call.
// Threading: any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "shim/caller.h"
#include "shim/device_code.h"
#include "shim/engines.h"
#include "shim/resolver.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

using cuda::AddressRange;
using cuda::Before;
using cuda::HostEffectKind;

namespace around {

// Nothing but: some call was made.
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
template <bool kPerThread>
struct Nothing : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    return Plain::Call(engines, real, arguments...);
  }
};

// Not even a call between a copy and its synchronization: it only reads the thread's last error.
template <bool kPerThread>
struct Silent : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines&, Real real, Arguments... arguments) {
    return real(arguments...);
  }
};

// What the calling thread has deferred is settled first.
template <Before kWhat>
struct Settles {
  template <bool kPerThread>
  struct Family : Row {
    template <typename Real, typename... Arguments>
    static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
      Engines::OtherCall();
      engines.Settle(kWhat);
      return real(arguments...);
    }
  };
};
template <bool kPerThread>
using BlockingCopy = Settles<Before::kCopy>::Family<kPerThread>;
template <bool kPerThread>
using Waits = Settles<Before::kSynchronization>::Family<kPerThread>;
template <bool kPerThread>
using Frees = Settles<Before::kFree>::Family<kPerThread>;
template <bool kPerThread>
struct FreesDeviceMemory : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, void* memory) {
    Engines::OtherCall();
    engines.Settle(Before::kFree);
    if (memory != nullptr) engines.ledger.BeforeFree();
    return real(memory);
  }
};
template <bool kPerThread>
using StopsProfiler = Settles<Before::kProfilerStop>::Family<kPerThread>;

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
  template <bool kPerThread>
  struct Family : Row {
    template <typename Real, typename... Arguments>
    static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
      Engines::OtherCall();
      // The description of the copy is read where it has to be: it may be a bad pointer, which the real call refuses.
      if (cuda::Ledger::Defers()) engines.ledger.BeforeCopyTo(kWhat(arguments...).touched.destination);
      const cudaError_t result = real(arguments...);
      if (result != cudaSuccess) return result;
      const Enqueued enqueued = kWhat(arguments...);
      engines.ledger.Touches(enqueued.touched, enqueued.stream, kPerThread);
      return result;
    }
  };
};

// Enqueues what may write any host memory, on a stream whose place among the arguments depends on the CUDA version.
template <bool kPerThread>
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

template <bool kPerThread>
struct CopyAsync : Row {
  static cudaError_t Call(const Engines& engines, transfer::RealCopyAsync* real, void* dst, const void* src,
                          size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
    if (engines.transfer != nullptr)
      return engines.transfer->CopyAsync(real, dst, src, count, kind, stream, kPerThread);
    return Touches<kCopy>::Family<kPerThread>::Call(engines, real, dst, src, count, kind, stream);
  }
};

template <bool kPerThread>
struct Copy : Row {
  static cudaError_t Call(const Engines& engines, transfer::RealCopy* real, void* dst, const void* src, size_t count,
                          cudaMemcpyKind kind) {
    if (engines.transfer != nullptr) return engines.transfer->Copy(real, dst, src, count, kind, kPerThread);
    return BlockingCopy<kPerThread>::Call(engines, real, dst, src, count, kind);
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

template <bool kPerThread>
struct HostFunction : Row {
  template <typename Real, typename Stream, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Stream stream, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, arguments...);
    if (result == cudaSuccess) {
      engines.ledger.HostEffect(HostEffectKind::kHostCode, AddressRange::All(), AsStream(stream), kPerThread);
    }
    return result;
  }
};

template <bool kPerThread>
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

template <bool kPerThread>
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
template <bool kPerThread>
struct ForgetsGraph : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, cudaGraphExec_t executable, Arguments... arguments) {
    Engines::OtherCall();
    engines.ledger.GraphForgotten(executable);
    return real(executable, arguments...);
  }
};

template <bool kPerThread>
struct LaunchesGraph : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaGraphExec_t executable, cudaStream_t stream) {
    Engines::OtherCall();
    const cudaError_t result = real(executable, stream);
    if (result == cudaSuccess) engines.ledger.GraphLaunched(executable, stream, kPerThread);
    return result;
  }
};

template <bool kPerThread>
struct BeginsCapture : Row {
  template <typename Real, typename Stream, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Stream stream, Arguments... arguments) {
    Engines::OtherCall();
    return engines.ledger.BeginCapture(AsStream(stream), kPerThread, [&] { return real(stream, arguments...); });
  }
};

template <bool kPerThread>
struct EndsCapture : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaStream_t stream, cudaGraph_t* graph) {
    Engines::OtherCall();
    const cudaError_t result = real(stream, graph);
    engines.ledger.CaptureMayHaveEnded(stream, kPerThread);
    return result;
  }
};

// ---- synchronizations and queries

template <bool kPerThread>
struct SynchronizesStream : Row {
  using Watched = Waits<kPerThread>;
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaStream_t stream) {
    if (engines.transfer != nullptr && engines.transfer->SkipStreamSynchronize(stream, kPerThread)) return cudaSuccess;
    engines.Settle(Before::kSynchronization);
    return real(stream);
  }
};

// kBefore lets the engine settle what the answer would show.
template <auto kBefore>
struct Asks {
  template <bool kPerThread>
  struct Family : Row {
    template <typename Real, typename... Arguments>
    static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
      Engines::OtherCall();
      // The mutant of S15: the runtime is asked first, and remembers that it answered "not ready".
      if (Broken(Mutant::kS15)) (void)real(arguments...);
      kBefore(engines, kPerThread, arguments...);
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

template <bool kPerThread>
struct RecordsEvent : Row {
  template <typename Real, typename... Flags>
  static cudaError_t Call(const Engines& engines, Real real, cudaEvent_t event, cudaStream_t stream, Flags... flags) {
    Engines::OtherCall();
    const cudaError_t result = real(event, stream, flags...);
    if (result == cudaSuccess) engines.ledger.EventRecorded(event, stream, kPerThread);
    return result;
  }
};

// In all streams of a context.
template <bool kPerThread>
struct RecordsEventInAll : Row {
  template <typename Real, typename Context, typename Event>
  static cudaError_t Call(const Engines& engines, Real real, Context context, Event event) {
    Engines::OtherCall();
    const cudaError_t result = real(context, event);
    if (result == cudaSuccess) engines.ledger.EventRecordedInAll(AsEvent(event));
    return result;
  }
};

template <bool kPerThread>
struct DestroysEvent : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaEvent_t event) {
    Engines::OtherCall();
    engines.ledger.EventDestroyed(event);
    return real(event);
  }
};

template <bool kPerThread>
struct DestroysStream : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, cudaStream_t stream) {
    Engines::OtherCall();
    engines.StreamDestroyed(stream);
    return real(stream);
  }
};

// ---- memory, sharing, the device

template <bool kPerThread>
struct UsesMappedMemory : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    Engines::OtherCall();
    if (OrderIsTheProgramsCare()) engines.ledger.UsesMappedMemory();
    return real(arguments...);
  }
};

// Who sizes the buffer that printf in device code fills has kernels that print.
template <bool kPerThread>
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
template <bool kPerThread>
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
template <bool kPerThread>
struct EndsWhatKernelsUse : Row {
  template <typename Real, typename Handle>
  static cudaError_t Call(const Engines& engines, Real real, Handle handle) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kFree);
    return real(handle);
  }
};

// Memory that is pinned for the program. Where there is no more, it is made once more behind what the engine has idle
// (S36); the first attempt is nobody's error then (S15), and the runtime that failed forgets it.
template <tracer::HookId kId, typename Real, typename... Arguments>
cudaError_t Pins(const Engines& engines, Real real, Arguments... arguments) {
  const cudaError_t result = real(arguments...);
  if (result != cudaErrorMemoryAllocation || !engines.GiveBackHostStaging()) return result;
  if constexpr (!tracer::IsOfDriver(kId)) {
    using LastError = cudaError_t();
    void* const forget = Resolver::Beside(kId, reinterpret_cast<const void*>(real), tracer::HookId::cudaGetLastError);
    if (forget != nullptr) (void)reinterpret_cast<LastError*>(forget)();
  }
  return real(arguments...);
}

template <tracer::HookId kId>
struct AllocatesHost {
  template <bool kPerThread>
  struct Family : Row {
    template <typename Real, typename... Flags>
    static cudaError_t Call(const Engines& engines, Real real, void** memory, size_t size, Flags... flags) {
      Engines::OtherCall();
      if (((flags & cudaHostAllocMapped) | ... | 0) != 0 && OrderIsTheProgramsCare()) engines.ledger.UsesMappedMemory();
      return Pins<kId>(engines, real, memory, size, flags...);
    }
  };
};

template <tracer::HookId kId>
struct RegistersHost {
  template <bool kPerThread>
  struct Family : Row {
    template <typename Real>
    static cudaError_t Call(const Engines& engines, Real real, void* memory, size_t size, unsigned int flags) {
      Engines::OtherCall();
      const cudaError_t result = Pins<kId>(engines, real, memory, size, flags);
      const bool mapped = (flags & cudaHostRegisterMapped) != 0 && OrderIsTheProgramsCare();
      if (result == cudaSuccess) engines.ledger.HostRegistered(memory, size, mapped);
      return result;
    }
  };
};

template <bool kPerThread>
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

template <bool kPerThread>
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

template <bool kPerThread>
struct Advises : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, uintptr_t memory, Arguments... arguments) {
    Engines::OtherCall();
    const cudaError_t result = real(memory, arguments...);
    if (result == cudaSuccess) engines.ledger.AdvisesMemory(reinterpret_cast<const void*>(memory));
    return result;
  }
};

template <bool kPerThread>
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

template <bool kPerThread>
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
template <bool kPerThread>
struct SharesWork : Row {
  template <typename Real, typename... Arguments>
  static cudaError_t Call(const Engines& engines, Real real, Arguments... arguments) {
    if (OrderIsTheProgramsCare()) engines.ledger.SharesWork();
    return Shares<kPerThread>::Call(engines, real, arguments...);
  }
};

template <bool kPerThread>
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

template <bool kPerThread>
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
template <bool kPerThread>
struct CopiesPeer : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, void* dst, int dst_device, const void* src, int src_device,
                          size_t count, cudaStream_t stream) {
    engines.ledger.UsesDevice(dst_device);
    engines.ledger.UsesDevice(src_device);
    return Touches<kCopyPeer>::Family<kPerThread>::Call(engines, real, dst, dst_device, src, src_device, count, stream);
  }
};
template <bool kPerThread>
struct CopiesPeer3D : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real, const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
    if (cuda::Ledger::Defers() && p != nullptr) {
      engines.ledger.UsesDevice(p->dstDevice);
      engines.ledger.UsesDevice(p->srcDevice);
    }
    return Touches<kCopy3D>::Family<kPerThread>::Call(engines, real, p, stream);
  }
};

template <bool kPerThread>
struct ResetsDevice : Row {
  template <typename Real>
  static cudaError_t Call(const Engines& engines, Real real) {
    Engines::OtherCall();
    engines.SettleForAll(Before::kReset);
    engines.DeviceReset(-1);
    return real();
  }
};

}  // namespace around

}  // namespace slipstream::shim
