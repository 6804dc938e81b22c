// simcuda.h: seed, mode, reset, and the view into the queues.
#include <algorithm>

#include "tests/sim/driver/entry.h"
#include "tests/sim/driver/graph.h"
#include "tests/sim/driver/pool.h"
#include "tests/sim/driver/world.h"

using namespace simcuda;

SIM_EXPORT int simQuiesce(void) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  // Ends of every stream of every context, and what is on no stream (context-wide records and waits, graph nodes).
  while (world.pending > 0) {
    std::vector<OpPtr> targets = PendingOf(world, nullptr);
    targets.insert(targets.end(), world.ready.begin(), world.ready.end());
    if (targets.empty()) {
      world.changed.wait(lock);
      continue;
    }
    RunUntilDone(world, lock, targets);
  }
  return CUDA_SUCCESS;
}

SIM_EXPORT int simSetSeed(uint64_t seed) {
  simQuiesce();
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.settings.seed = seed;
  world.random_state = seed * 0x9E3779B97F4A7C15u + 1;
  return CUDA_SUCCESS;
}

SIM_EXPORT int simSetMode(int mode) {
  if (mode != SIM_ADVERSARIAL && mode != SIM_TIMED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  simQuiesce();
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.settings.timed = mode == SIM_TIMED;
  for (Device& device : world.devices) {
    std::fill(std::begin(device.engine_free_ns), std::end(device.engine_free_ns), 0);
  }
  StartExecutors(world);
  return CUDA_SUCCESS;
}

SIM_EXPORT int simReset(void) {
  simQuiesce();
  simClearFailures();
  simResetCounts();
  World& world = TheWorld();
  Lock lock(world.mutex);
  for (const auto& context : world.contexts) {
    if (context->alive) {
      DestroyContext(world, lock, context.get());
    }
  }
  world.graph_execs.clear();
  world.graphs.clear();
  for (Device& device : world.devices) {
    device.default_pool = device.current_pool = nullptr;
  }
  world.pools.clear();
  while (!world.allocations.empty()) {
    ReleaseAllocation(world, world.allocations.begin()->first);
  }
  ForgetVirtualMemory(world);
  world.kernels_submitted = 0;
  world.clock_ns = 0;
  world.random_state = world.settings.seed * 0x9E3779B97F4A7C15u + 1;
  for (Device& device : world.devices) {
    device.arena.top = 0;
    device.arena.free_ranges.clear();
    device.arena.recently_freed.clear();
    device.used_bytes = 0;
    std::fill(std::begin(device.engine_free_ns), std::end(device.engine_free_ns), 0);
  }
  return CUDA_SUCCESS;
}

SIM_EXPORT int simSynchronizeUnseen(void* handle) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  StreamPtr stream;
  if (const CUresult result = FindStream(world, static_cast<CUstream>(handle), &stream); result != CUDA_SUCCESS) {
    return result;
  }
  if (stream->tail) RunUntilDone(world, lock, {stream->tail});
  return CUDA_SUCCESS;
}

SIM_EXPORT int simStuckWaits(void) {
  World& world = TheWorld();
  const Lock lock(world.mutex);
  return world.stuck_waits;
}

SIM_EXPORT int simPendingOperations(void* handle) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  if (handle == nullptr) {
    return static_cast<int>(world.pending);
  }
  StreamPtr stream;
  if (FindStream(world, static_cast<CUstream>(handle), &stream) != CUDA_SUCCESS) {
    return -1;
  }
  // Walks back from the stream's end over what is not complete.
  std::unordered_set<Op*> seen;
  std::vector<Op*> work;
  if (stream->tail && !stream->tail->done()) {
    work.push_back(stream->tail.get());
  }
  int count = 0;
  while (!work.empty()) {
    Op* op = work.back();
    work.pop_back();
    if (!seen.insert(op).second) {
      continue;
    }
    count += op->stream == stream ? 1 : 0;
    for (const OpPtr& dependency : op->dependencies) {
      if (!dependency->done()) {
        work.push_back(dependency.get());
      }
    }
  }
  return count;
}

SIM_EXPORT int simSetEmptyKernels(int empty) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.settings.empty_kernels = empty != 0;
  return CUDA_SUCCESS;
}

SIM_EXPORT int simSetDeviceAttribute(int device, int attribute, int value) {
  if (device < 0 || device >= kDeviceCount) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.devices[device].attributes[attribute] = value;
  return CUDA_SUCCESS;
}

SIM_EXPORT int simSetDeviceMemory(int device, size_t bytes) {
  if (device < 0 || device >= kDeviceCount) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  World& world = TheWorld();
  Lock lock(world.mutex);
  Device& target = world.devices[device];
  if (bytes < target.used_bytes || (target.arena.bytes != 0 && bytes > target.arena.bytes / 2)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  target.total_bytes = bytes;
  return CUDA_SUCCESS;
}

SIM_EXPORT size_t simFreeMemory(int device) {
  if (device < 0 || device >= kDeviceCount) {
    return 0;
  }
  World& world = TheWorld();
  Lock lock(world.mutex);
  const Device& target = world.devices[device];
  return target.total_bytes - std::min(target.total_bytes, target.used_bytes);
}

SIM_EXPORT int simSetPinnedMemory(size_t bytes) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.settings.pinnable_bytes = bytes;
  return CUDA_SUCCESS;
}

SIM_EXPORT int simSetBandwidth(double host_to_device, double device_to_host, double device_to_device) {
  if (host_to_device <= 0 || device_to_host <= 0 || device_to_device <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.settings.bytes_per_ns[0] = host_to_device * 1e-9;
  world.settings.bytes_per_ns[1] = device_to_host * 1e-9;
  world.settings.bytes_per_ns[2] = device_to_device * 1e-9;
  return CUDA_SUCCESS;
}

// ---- for the simulated libcudart, not in simcuda.h
SIM_EXPORT void* simFindCounter(const char* library, const char* function) { return FindCounter(library, function); }
// Returns the code an exported runtime function must answer at once, or 0. While it is inside, calls of the driver are
// the runtime's own.
SIM_EXPORT int simEnterRuntime(void* counter) {
  bool injected = false;
  const int code = EnterCounted(static_cast<Counter*>(counter), &injected, nullptr);
  ++ThisThread().runtime_depth;
  return code;
}
// The same for the simulated libcupti.
SIM_EXPORT int simEnterCupti(void* counter, const void* caller) {
  return EnterOutsideDriver(static_cast<Counter*>(counter), caller);
}
SIM_EXPORT void simLeaveRuntime(void) { --ThisThread().runtime_depth; }
