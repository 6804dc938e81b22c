// shim/: the hooks and what they are wired to. Start reading in hooks.def (the list), entry.h (the path of
// one call), then here.
//
// Uses cuda/, allocator/, transfer/, tracer/ and policy/; nothing uses it. Runtime is the composition root: it is built
// at the first hooked call of a process, is never destroyed, and makes no CUDA call and takes no lock once the process
// is exiting (S53). A process that never calls CUDA never builds it: no thread, no file, no allocation (S50).
#pragma once

#include <cstdint>

#include "shim/gate.h"
#include "shim/resolver.h"
#include "tracer/base/hook_id.h"

namespace slipstream::tracer {
class Tracer;
}
namespace slipstream::cuda {
class Ledger;
}
namespace slipstream::transfer {
class BackgroundUnmap;
class KeptBlocks;
}  // namespace slipstream::transfer
namespace slipstream::allocator {
class Segments;
}

namespace slipstream::shim {

struct Engines;

// What a hook is to do with its call.
struct Route {
  void* function;      // the real function; null: no libcudart in the process has it
  uint32_t recording;  // tracer::Recording bits and kRouteEngines; 0: nothing but the call
};

// Beside the tracer's bits. The ledger knows what the process has in flight, for every engine: it is told of every call
// where one is on.
inline constexpr uint32_t kRouteLedger = 1u << 8;
inline constexpr uint32_t kRouteAllocator = 1u << 9;
inline constexpr uint32_t kRouteUnmap = 1u << 10;
// Of a call of the driver's alone: it is watched, and not intercepted (DriverLevel::kWatched).
inline constexpr uint32_t kRouteWatched = 1u << 11;
// No call of CUDA's: PyTorch's large blocks of host memory.
inline constexpr uint32_t kRouteHostMemory = 1u << 12;
inline constexpr uint32_t kRouteEngines =
    kRouteLedger | kRouteAllocator | kRouteUnmap | kRouteWatched | kRouteHostMemory;

class Runtime {
 public:
  // The way of a call that found the gate closed: the first one, one of a forked child, one among several
  // libcudarts. Builds what is to be built. Never waits: a thread that comes while another one builds goes straight
  // to the real function.
  static Route Enter(tracer::HookId id, const void* caller) noexcept;

  // For functions whose signature depends on the CUDA version: always the libcudart that `caller` is linked to.
  static Route EnterByCaller(tracer::HookId id, const void* caller) noexcept;

  // The way of a call of the driver's, whenever the straight one is not open. Builds what is to be built, where the
  // policy has the driver intercepted. A watched function (IsWatched) passes the engines that are there.
  static Route EnterDriver(tracer::HookId id) noexcept;
  // What is done around a call of the driver's that is not straight, of what is done around the runtime's.
  static constexpr uint32_t RecordingOfDriver(DriverLevel level, uint32_t recording) {
    if (level == DriverLevel::kIntercepted) return recording;
    const uint32_t engines = recording & kRouteEngines;
    return level == DriverLevel::kWatched && engines != 0 ? engines | kRouteWatched : 0;
  }

  // Which of the driver's functions the policy has seen; never kUnknown. Reads it where nobody has yet; builds nothing,
  // and makes no CUDA call.
  static DriverLevel LevelOfDriver() noexcept;
  static bool InterceptsDriver() noexcept { return LevelOfDriver() == DriverLevel::kIntercepted; }

  // Whether the policy has the devices traced, whether or not a trace is there. As above.
  static bool TracesDevices() noexcept;

  // Whether the policy lets slipstream do anything. As above.
  static bool IsEnabled() noexcept;

  // A function that `caller` is about to use, of a libcudart that we may not have seen: a library with kernels
  // registers itself, or somebody looks the function up by name. Builds nothing (S50).
  static void* EnterUnseen(tracer::HookId id, const void* caller) noexcept;

  // The library that `caller` is in has variables in managed memory (S11).
  static void HasManagedVariables(const void* caller) noexcept;

  // Valid once a Route with recording bits was handed out.
  static tracer::Tracer& tracer() noexcept;

  // Valid once a Route with kRouteLedger was handed out.
  static cuda::Ledger& ledger() noexcept;
  static Engines engines() noexcept;

  // Valid once a Route with kRouteAllocator was handed out.
  static allocator::Segments& allocator() noexcept;

  // Valid once the gate shows kRouteUnmap.
  static transfer::BackgroundUnmap& unmap() noexcept;

  // Valid once the gate shows kRouteHostMemory.
  static transfer::KeptBlocks& kept_blocks() noexcept;

  // From here on a file system may read device memory and write it by itself (S22).
  static void SharesMemoryWithFiles() noexcept;

 private:
  static void Build() noexcept;
  static void StandAside() noexcept;
};

}  // namespace slipstream::shim
