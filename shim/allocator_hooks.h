// What the allocator does around a hooked call, one kind of call each: which calls its pool answers, and which it has
// to know of. The rules are the pools' (allocator/segments.h); here is only who calls what. Which function is of which
// kind is a table (hook_rows.h).
//
// Kind<id>::Call(pool, engines, real, next, arguments...) stands in front of what the ledger and the transfer engine
// do, which `next` makes: a call that the pool answers never gets there, and counts for the transfer engine as some
// other call. Its `WithoutPool`, if it has one, stands there where no pool is on, its `Watched` where the driver's
// function is not intercepted (IsWatched).
// Threading: any thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "allocator/segments.h"
#include "shim/driver_library.h"
#include "shim/engines.h"
#include "shim/resolver.h"
#include "shim/transfer_hooks.h"
#include "tracer/base/hook_id.h"

namespace slipstream::shim {

namespace pooled {

template <tracer::HookId kId>
struct None {
  static constexpr bool kHasRow = false;
};
struct Row {
  static constexpr bool kHasRow = true;
};

// Whether an allocation that found no memory is to be made once more: what was idle has gone back to the driver (S36).
// `Pool`: Segments, or NoPool.
template <tracer::HookId kId, typename Pool>
bool AgainAfter(cudaError_t result, Pool& pool, const Engines& engines, const void* real,
                CUdevice device = cuda::kCurrentDevice) {
  if (result != cudaErrorMemoryAllocation) return false;
  const bool pool_had_some = pool.GiveBack(device);
  if (!engines.GiveBackDeviceStaging(device) && !pool_had_some) return false;
  ForgetLastError<kId>(real);
  return true;
}

// Where no pool answers: the transfer engine's staging memory is still nobody's loss.
struct NoPool {
  static bool GiveBack(CUdevice) { return false; }
  static void AddIdle(size_t*, const size_t*) {}
};

// As `Kind`, and what the call has left is looked at.
template <typename Kind>
struct Unpooled : Row {
  template <typename Next, typename... Arguments>
  static cudaError_t Call(const Engines& engines, const void* real, const Next& next, Arguments... arguments) {
    NoPool none;
    const cudaError_t result = Kind::Call(none, engines, real, next, arguments...);
    engines.AfterAllocation();
    return result;
  }
};

// Device memory that does not come from the pool, but is not to be missing because of it.
template <tracer::HookId kId>
struct AllocatesBeside : Row {
  using WithoutPool = Unpooled<AllocatesBeside>;
  template <typename Pool, typename Next, typename... Arguments>
  static cudaError_t Call(Pool& pool, const Engines& engines, const void* real, const Next& next,
                          Arguments... arguments) {
    const cudaError_t result = next(arguments...);
    return AgainAfter<kId>(result, pool, engines, real) ? next(arguments...) : result;
  }
};

// A device address is a number for the driver, and a pointer for the runtime.
template <tracer::HookId kId>
struct Allocates : Row {
  using WithoutPool = Unpooled<AllocatesBeside<kId>>;
  using Watched = AllocatesBeside<kId>;
  template <typename Next, typename Address>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void* real, const Next& next,
                          Address* memory, size_t bytes) {
    static_assert(sizeof(Address) == sizeof(void*));
    const auto by_pointer = [&next](void** address, size_t size) {
      return next(reinterpret_cast<Address*>(address), size);
    };
    auto** const address = reinterpret_cast<void**>(memory);
    Engines::OtherCall();
    bool by_driver = false;
    cudaError_t result = pool.Allocate(by_pointer, address, bytes, &by_driver);
    // A thread's first call has no context that the pool could be asked for, and a capture keeps the pool out.
    if (AgainAfter<kId>(result, pool, engines, real)) {
      result = pool.Allocate(by_pointer, address, bytes, &by_driver);
    }
    if (by_driver) engines.AfterAllocation();
    return result;
  }
};

// Physical memory, on the device that the call names: the thread may have no context, or another device's.
template <tracer::HookId kId>
struct CreatesMemory : Row {
  using WithoutPool = Unpooled<CreatesMemory>;
  template <typename Pool, typename Next>
  static cudaError_t Call(Pool& pool, const Engines& engines, const void* real, const Next& next,
                          CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                          unsigned long long flags) {
    const cudaError_t result = next(handle, bytes, properties, flags);
    if (result != cudaErrorMemoryAllocation || properties == nullptr ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
      return result;
    }
    const CUdevice device = properties->location.id;
    return AgainAfter<kId>(result, pool, engines, real, device) ? next(handle, bytes, properties, flags) : result;
  }
};

// A graph that may take memory of its own. A launch that found none leaves the graph broken: it is not made again.
template <tracer::HookId kId>
struct LaunchesGraph : Row {
  template <typename Next, typename Stream>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void*, const Next& next,
                          cudaGraphExec_t executable, Stream stream) {
    if (engines.ledger.GraphOwnsMemory(executable)) pool.MakeRoom();
    return next(executable, stream);
  }
};

// The size of a heap, or of a buffer, that the driver takes at a launch to come, where nobody could give memory back:
// what is idle goes back now, and as much stays free.
template <tracer::HookId kId>
struct SetsLimit : Row {
  template <typename Next, typename Limit>
  static cudaError_t Call(allocator::Segments& pool, const Engines& engines, const void*, const Next& next, Limit limit,
                          size_t value) {
    const cudaError_t result = next(limit, value);
    if (result != cudaSuccess) return result;
    switch (static_cast<int>(limit)) {  // the two enumerations have the same numbers
      case cudaLimitMallocHeapSize:
      case cudaLimitPrintfFifoSize:
        pool.SetAside(static_cast<int>(limit), value);
        [[fallthrough]];
      case cudaLimitStackSize:
        pool.MakeRoom();
        (void)engines.GiveBackDeviceStaging(cuda::kCurrentDevice);
        break;
      default:
        break;
    }
    return result;
  }
};

template <tracer::HookId kId>
struct Frees : Row {
  using Watched = None<kId>;
  template <typename Next, typename Address>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, Address memory) {
    Engines::OtherCall();
    const auto by_pointer = [&next](void* address) { return next(reinterpret_cast<Address>(address)); };
    return pool.Free(by_pointer, reinterpret_cast<void*>(memory));
  }
};

template <tracer::HookId kId>
struct CountsMemory : Row {
  // Nothing was taken that would be looked at.
  struct WithoutPool : Row {
    template <typename Next>
    static cudaError_t Call(const Engines& engines, const void* real, const Next& next, size_t* free, size_t* total) {
      NoPool none;
      return CountsMemory::Call(none, engines, real, next, free, total);
    }
  };
  template <typename Pool, typename Next>
  static cudaError_t Call(Pool& pool, const Engines& engines, const void*, const Next& next, size_t* free,
                          size_t* total) {
    const cudaError_t result = next(free, total);
    if (result == cudaSuccess) {
      pool.AddIdle(free, total);
      engines.AddDeviceStaging(free, total);
    }
    return result;
  }
};

// A handle for the memory, or a descriptor for a range of it, by which another process or device reaches it.
template <tracer::HookId kId>
struct Exports : Row {
  template <typename Next, typename Handle, typename Address, typename... Arguments>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, Handle* handle,
                          Address memory, Arguments... arguments) {
    pool.Exports(reinterpret_cast<void*>(memory));
    return next(handle, memory, arguments...);
  }
};

template <tracer::HookId kId>
struct Resets : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next) {
    return pool.DeviceReset(next);
  }
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, CUdevice device) {
    if (device < 0) return next(device);  // which the driver refuses
    return pool.DeviceReset([&] { return next(device); }, device);
  }
};

// Where the context was gone with this user, its blocks are too. Before the call nobody can tell.
template <tracer::HookId kId>
struct ReleasesPrimary : Row {
  template <typename Next>
  static cudaError_t Call(allocator::Segments& pool, const Engines&, const void*, const Next& next, CUdevice device) {
    const cudaError_t result = next(device);
    if (result != cudaSuccess || DriverLibrary::HasPrimaryContext(device)) return result;
    return pool.DeviceReset([result] { return result; }, device);
  }
};

}  // namespace pooled

}  // namespace slipstream::shim
