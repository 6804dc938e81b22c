// Devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/sim/driver/entry.h"
#include "tests/sim/driver/graph.h"
#include "tests/sim/driver/pool.h"
#include "tests/sim/driver/use_context.h"
#include "tests/sim/driver/world.h"

namespace simcuda {

void RegisterForkHandler();

bool IsContext(World& world, Context* context) {
  return std::any_of(world.contexts.begin(), world.contexts.end(),
                     [context](const auto& owned) { return owned.get() == context && owned->alive; });
}

CUresult CurrentContext(World& world, Context** context) {
  if (!world.initialized) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  ThreadState& thread = ThisThread();
  if (thread.context_stack.empty() || thread.context_stack.back().context == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const ThreadState::Entry& top = thread.context_stack.back();
  if (!top.context->alive || top.generation != top.context->generation) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (top.context->sticky != CUDA_SUCCESS) {
    return top.context->sticky;
  }
  *context = top.context;
  return CUDA_SUCCESS;
}

static void Activate(World& world, Context* context) {
  context->alive = true;
  context->generation = world.next_id++;
  context->sticky = CUDA_SUCCESS;
  context->barrier = nullptr;
  context->peers.clear();
  context->streams.clear();
  auto legacy = std::make_shared<Stream>();
  legacy->context = context;
  legacy->context_generation = context->generation;
  legacy->id = world.next_id++;
  legacy->legacy = true;
  context->legacy = legacy;
  context->streams.push_back(legacy);
}

Context* NewContext(World& world, Device& device, bool primary, unsigned flags) {
  CreateArenas(world);
  StartExecutors(world);
  StartIdleWatch(world);
  Context* context = nullptr;
  if (primary && device.primary != nullptr) {
    context = device.primary;
  } else {
    world.contexts.push_back(std::make_unique<Context>());
    context = world.contexts.back().get();
    if (primary) {
      device.primary = context;
    }
  }
  context->device = &device;
  context->primary = primary;
  context->flags = flags;
  Activate(world, context);
  return context;
}

void DestroyContext(World& world, Lock& lock, Context* context) {
  for (Capture* capture : std::set<Capture*>(world.captures)) {
    if (capture->origin->context == context) {
      AbandonCapture(world, capture->origin);
    }
  }
  RunUntilDone(world, lock, PendingOf(world, context));
  std::vector<uintptr_t> owned;
  for (const auto& [base, allocation] : world.allocations) {
    if (allocation.context == context) {
      owned.push_back(base);
    }
  }
  for (const uintptr_t base : owned) {
    FreeNow(world, base);
  }
  for (const auto& [symbol, variable] : world.variables) {
    variable->instances.erase(context);
  }
  std::erase_if(world.streams, [context](const auto& entry) { return entry.second->context == context; });
  std::erase_if(world.events, [context](const auto& entry) { return entry.second->context == context; });
  context->streams.clear();
  context->legacy = nullptr;
  context->alive = false;
  context->references = 0;
}

}  // namespace simcuda

using namespace simcuda;

namespace {

bool IsDevice(CUdevice device) { return device >= 0 && device < TheWorld().settings.devices; }

CUcontext Handle(Context* context) { return reinterpret_cast<CUcontext>(context); }
Context* FromHandle(CUcontext handle) { return reinterpret_cast<Context*>(handle); }

// What a small data-center GPU would answer; simSetDeviceAttribute and SIMCUDA_ATTRIBUTES override.
int DefaultAttribute(const Device& device, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 101376;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 8;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1000000;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 8;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return 0;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 2;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
      return 1;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 102400;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 4 << 20;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 1500000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 256;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return device.ordinal + 1;
    default:
      return 0;
  }
}

}  // namespace

int simcuda::AttributeOf(const Device& device, CUdevice_attribute attribute) {
  const auto set = device.attributes.find(attribute);
  return set != device.attributes.end() ? set->second : DefaultAttribute(device, attribute);
}

SIM_DRIVER(cuInit, 2000, cuInit, (unsigned int Flags), (Flags)) {
  World& world = TheWorld();
  if (world.forked.load(std::memory_order_relaxed)) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (Flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  RegisterForkHandler();
  RegisterExitHandler();
  Lock lock(world.mutex);
  world.initialized = true;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDriverGetVersion, 2020, cuDriverGetVersion, (int* driverVersion), (driverVersion)) {
  if (driverVersion == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *driverVersion = kDriverVersion;
  return CUDA_SUCCESS;
}

#define SIM_NEED_INIT()                \
  World& world = TheWorld();           \
  Lock lock(world.mutex);              \
  if (!world.initialized) {            \
    return CUDA_ERROR_NOT_INITIALIZED; \
  }

#define SIM_NEED_DEVICE(device)       \
  SIM_NEED_INIT()                     \
  if (!IsDevice(device)) {            \
    return CUDA_ERROR_INVALID_DEVICE; \
  }

SIM_DRIVER(cuDeviceGet, 2000, cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal)) {
  SIM_NEED_DEVICE(ordinal)
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetCount, 2000, cuDeviceGetCount, (int* count), (count)) {
  // Without the mutex: in a forked child its owner may be gone, and the answer is constant.
  if (!TheWorld().initialized.load(std::memory_order_acquire)) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  *count = TheWorld().settings.devices;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetName, 2000, cuDeviceGetName, (char* name, int len, CUdevice dev), (name, len, dev)) {
  SIM_NEED_DEVICE(dev)
  if (name == nullptr || len <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::snprintf(name, static_cast<size_t>(len), "Simulated CUDA device %d", dev);
  return CUDA_SUCCESS;
}

static CUresult Uuid(CUuuid* uuid, CUdevice dev) {
  SIM_NEED_DEVICE(dev)
  std::memset(uuid->bytes, 0x51, sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<char>(dev);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice dev), (uuid, dev)) {
  return Uuid(uuid, dev);
}

SIM_DRIVER(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), (bytes, dev)) {
  SIM_NEED_DEVICE(dev)
  *bytes = world.devices[dev].total_bytes;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute, (int* pi, CUdevice_attribute attrib, CUdevice dev),
           (pi, attrib, dev)) {
  SIM_NEED_DEVICE(dev)
  if (pi == nullptr || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pi = AttributeOf(world.devices[dev], attrib);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId, (char* pciBusId, int len, CUdevice dev),
           (pciBusId, len, dev)) {
  SIM_NEED_DEVICE(dev)
  if (pciBusId == nullptr || len < 13) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::snprintf(pciBusId, static_cast<size_t>(len), "0000:%02x:00.0", dev + 1);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId, (CUdevice * dev, const char* pciBusId),
           (dev, pciBusId)) {
  SIM_NEED_INIT()
  unsigned domain = 0;
  unsigned bus = 0;
  if (std::sscanf(pciBusId, "%x:%x", &domain, &bus) != 2 || bus < 1 || bus > kDeviceCount) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *dev = static_cast<CUdevice>(bus) - 1;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain, (CUcontext * pctx, CUdevice dev), (pctx, dev)) {
  SIM_NEED_DEVICE(dev)
  Device& device = world.devices[dev];
  if (device.primary == nullptr || !device.primary->alive) {
    NewContext(world, device, true, device.primary != nullptr ? device.primary->flags : 0);
  }
  ++device.primary->references;
  *pctx = Handle(device.primary);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev)) {
  SIM_NEED_DEVICE(dev)
  Context* primary = world.devices[dev].primary;
  if (primary == nullptr || primary->references == 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (--primary->references == 0) {
    DestroyContext(world, lock, primary);
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev)) {
  SIM_NEED_DEVICE(dev)
  Context* primary = world.devices[dev].primary;
  if (primary != nullptr && primary->alive) {
    DestroyContext(world, lock, primary);
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState,
           (CUdevice dev, unsigned int* flags, int* active), (dev, flags, active)) {
  SIM_NEED_DEVICE(dev)
  const Context* primary = world.devices[dev].primary;
  *flags = primary != nullptr ? primary->flags : 0;
  *active = primary != nullptr && primary->alive ? 1 : 0;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags),
           (dev, flags)) {
  SIM_NEED_DEVICE(dev)
  if (world.devices[dev].primary != nullptr) {
    world.devices[dev].primary->flags = flags;
  }
  return CUDA_SUCCESS;
}

static CUresult CreateContext(CUcontext* pctx, unsigned flags, CUdevice dev) {
  SIM_NEED_DEVICE(dev)
  if (pctx == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = NewContext(world, world.devices[dev], false, flags);
  ThisThread().context_stack.push_back({context, context->generation});
  *pctx = Handle(context);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxCreate, 3020, cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev),
           (pctx, flags, dev)) {
  return CreateContext(pctx, flags, dev);
}
SIM_DRIVER(cuCtxCreate, 12050, cuCtxCreate_v4,
           (CUcontext * pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev),
           (pctx, ctxCreateParams, flags, dev)) {
  (void)ctxCreateParams;  // execution affinity: no effect here
  return CreateContext(pctx, flags, dev);
}

SIM_DRIVER(cuCtxDestroy, 4000, cuCtxDestroy_v2, (CUcontext ctx), (ctx)) {
  SIM_NEED_INIT()
  Context* context = FromHandle(ctx);
  if (!IsContext(world, context) || context->primary) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  auto& stack = ThisThread().context_stack;
  if (!stack.empty() && stack.back().context == context) {
    stack.pop_back();
  }
  DestroyContext(world, lock, context);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2, (CUcontext ctx), (ctx)) {
  SIM_NEED_INIT()
  Context* context = FromHandle(ctx);
  if (!IsContext(world, context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  ThisThread().context_stack.push_back({context, context->generation});
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2, (CUcontext * pctx), (pctx)) {
  SIM_NEED_INIT()
  auto& stack = ThisThread().context_stack;
  if (stack.empty() || stack.back().context == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (pctx != nullptr) {
    *pctx = Handle(stack.back().context);
  }
  stack.pop_back();
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxSetCurrent, 4000, cuCtxSetCurrent, (CUcontext ctx), (ctx)) {
  SIM_NEED_INIT()
  Context* context = FromHandle(ctx);
  if (context != nullptr && !IsContext(world, context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  auto& stack = ThisThread().context_stack;
  if (!stack.empty()) {
    stack.pop_back();
  }
  if (context != nullptr) {
    stack.push_back({context, context->generation});
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxGetCurrent, 4000, cuCtxGetCurrent, (CUcontext * pctx), (pctx)) {
  SIM_NEED_INIT()
  const auto& stack = ThisThread().context_stack;
  const bool live = !stack.empty() && stack.back().context != nullptr && stack.back().context->alive &&
                    stack.back().context->generation == stack.back().generation;
  // A reset primary context is gone, so that the runtime makes a new one.
  *pctx = live ? Handle(stack.back().context) : nullptr;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxGetDevice, 2000, cuCtxGetDevice, (CUdevice * device), (device)) {
  SIM_NEED_INIT()
  const auto& stack = ThisThread().context_stack;
  if (stack.empty() || stack.back().context == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *device = stack.back().context->device->ordinal;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxGetFlags, 7000, cuCtxGetFlags, (unsigned int* flags), (flags)) {
  SIM_USE_CONTEXT()
  *flags = context->flags;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion, (CUcontext ctx, unsigned int* version), (ctx, version)) {
  SIM_NEED_INIT()
  (void)ctx;
  *version = 3020;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxGetId, 12000, cuCtxGetId, (CUcontext ctx, unsigned long long* ctxId), (ctx, ctxId)) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  Context* context = FromHandle(ctx);
  if (context == nullptr) {
    if (const CUresult result = CurrentContext(world, &context); result != CUDA_SUCCESS) {
      return result;
    }
  } else if (!IsContext(world, context)) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  *ctxId = context->generation;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange, (int* leastPriority, int* greatestPriority),
           (leastPriority, greatestPriority)) {
  SIM_NEED_INIT()
  if (leastPriority != nullptr) {
    *leastPriority = 0;
  }
  if (greatestPriority != nullptr) {
    *greatestPriority = -5;
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxSetLimit, 3010, cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value)) {
  SIM_USE_CONTEXT()
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxGetLimit, 3010, cuCtxGetLimit, (size_t * pvalue, CUlimit limit), (pvalue, limit)) {
  SIM_USE_CONTEXT()
  *pvalue = context->limits.count(limit) != 0 ? context->limits[limit] : size_t{1} << 20;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuProfilerStart, 4000, cuProfilerStart, (void), ()) { return CUDA_SUCCESS; }
SIM_DRIVER(cuProfilerStop, 4000, cuProfilerStop, (void), ()) { return CUDA_SUCCESS; }
