// Kernels, host functions, and their arguments.
#include "tests/sim/driver/launch.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "tests/sim/driver/use_context.h"

namespace simcuda {

static Kernel* FindKernel(World& world, const void* handle_or_host_function) {
  const auto found = world.kernels.find(handle_or_host_function);
  if (found != world.kernels.end()) {
    return found->second.get();
  }
  for (const auto& [function, kernel] : world.kernels) {
    if (kernel.get() == handle_or_host_function) {
      return kernel.get();
    }
  }
  return nullptr;
}

CUresult UseKernel(World& world, const void* handle_or_host_function, Kernel** kernel) {
  if (handle_or_host_function == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *kernel = FindKernel(world, handle_or_host_function);
  if (*kernel == nullptr) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return (*kernel)->body == nullptr && !world.settings.empty_kernels ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS;
}

CUresult MakeKernelWork(Context* context, Kernel* kernel, const simLaunch& shape, void** args, void** extra,
                        Work* work) {
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.block[i] == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (uint64_t{shape.block[0]} * shape.block[1] * shape.block[2] > 1024) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t count = kernel->arg_sizes.size();
  auto arguments = std::make_shared<KernelArguments>();
  size_t total = 0;
  for (const size_t size : kernel->arg_sizes) {
    arguments->offsets.push_back(total);
    total += (size + 15) / 16 * 16;
  }
  arguments->bytes.resize(total);
  if (count > 0) {
    const std::byte* packed = nullptr;
    if (args == nullptr) {
      // CU_LAUNCH_PARAM_BUFFER_POINTER: all arguments in one buffer, each at its natural alignment.
      for (void** word = extra; word != nullptr && *word != CU_LAUNCH_PARAM_END; word += 2) {
        if (*word == CU_LAUNCH_PARAM_BUFFER_POINTER) {
          packed = static_cast<const std::byte*>(word[1]);
        }
      }
      if (packed == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    size_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t size = kernel->arg_sizes[i];
      const void* from = nullptr;
      if (packed != nullptr) {
        const size_t alignment = size % 8 == 0 ? 8 : (size % 4 == 0 ? 4 : (size % 2 == 0 ? 2 : 1));
        offset = (offset + alignment - 1) / alignment * alignment;
        from = packed + offset;
        offset += size;
      } else {
        from = args[i];
      }
      if (from == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      std::memcpy(arguments->bytes.data() + arguments->offsets[i], from, size);
    }
  }
  (void)context;
  work->kind = Work::Kind::kKernel;
  work->engine = Engine::kCompute;
  work->duration_ns = kernel->duration_ns;
  work->body = [kernel, shape, arguments](Op& op) {
    simLaunch launch = shape;
    launch.device = op.device;
    launch.function = kernel->host_function;
    launch.operation = &op;
    std::vector<std::byte> copy = arguments->bytes;  // a graph may run the same work again
    std::vector<void*> pointers;
    for (const size_t offset : arguments->offsets) {
      pointers.push_back(copy.data() + offset);
    }
    if (kernel->body != nullptr) {
      kernel->body(&launch, pointers.data());
    }
  };
  work->kernel = kernel;
  work->shape = shape;
  work->arguments = arguments;
  return CUDA_SUCCESS;
}

Work MakeHostWork(CUhostFn function, void* user_data) {
  Work work;
  work.kind = Work::Kind::kHost;
  work.engine = Engine::kHost;
  work.body = [function, user_data](Op&) { function(user_data); };
  work.host_function = function;
  work.host_data = user_data;
  return work;
}

}  // namespace simcuda

using namespace simcuda;

void simcuda::WriteOutPrinted(World& world) {
  if (world.printed.empty()) return;
  (void)std::fwrite(world.printed.data(), 1, world.printed.size(), stdout);
  world.printed.clear();
}

static CUresult Launch(CUfunction f, const simLaunch& shape, CUstream hStream, void** args, void** extra) {
  SIM_USE_STREAM(hStream)
  WriteOutPrinted(world);
  Kernel* kernel = nullptr;
  SIM_TRY(UseKernel(world, f, &kernel))
  Work work;
  SIM_TRY(MakeKernelWork(stream->context, kernel, shape, args, extra, &work))
  return Enqueue(world, stream, std::move(work), nullptr);
}

static simLaunch Shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared) {
  simLaunch shape = {};
  const unsigned grid[3] = {gx, gy, gz};
  const unsigned block[3] = {bx, by, bz};
  std::memcpy(shape.grid, grid, sizeof grid);
  std::memcpy(shape.block, block, sizeof block);
  shape.shared_bytes = shared;
  return shape;
}

SIM_DRIVER_PT(cuLaunchKernel, 4000, cuLaunchKernel, _ptsz,
              (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
               unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
               CUstream hStream, void** kernelParams, void** extra),
              (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams,
               extra)) {
  return Launch(f, Shape(gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes), hStream,
                kernelParams, extra);
}

SIM_DRIVER_PT(cuLaunchKernelEx, 11060, cuLaunchKernelEx, _ptsz,
              (const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra),
              (config, f, kernelParams, extra)) {
  if (config == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Launch(f,
                Shape(config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
                      config->blockDimZ, config->sharedMemBytes),
                config->hStream, kernelParams, extra);
}

SIM_DRIVER_PT(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel, _ptsz,
              (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
               unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
               CUstream hStream, void** kernelParams),
              (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
               kernelParams)) {
  return Launch(f, Shape(gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes), hStream,
                kernelParams, nullptr);
}

SIM_DRIVER_PT(cuLaunchHostFunc, 10000, cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void* userData),
              (hStream, fn, userData)) {
  SIM_USE_STREAM(hStream)
  if (fn == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Enqueue(world, stream, MakeHostWork(fn, userData), nullptr);
}

SIM_DRIVER_PT(cuStreamAddCallback, 5000, cuStreamAddCallback, _ptsz,
              (CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags),
              (hStream, callback, userData, flags)) {
  SIM_USE_STREAM(hStream)
  if (callback == nullptr || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_TRY(CheckNotCapturing(world, stream))
  Work work;
  work.kind = Work::Kind::kHost;
  work.engine = Engine::kHost;
  work.body = [hStream, callback, userData](Op& op) { callback(hStream, op.context->sticky, userData); };
  return Enqueue(world, stream, std::move(work), nullptr);
}

SIM_DRIVER(cuFuncGetAttribute, 2020, cuFuncGetAttribute, (int* pi, CUfunction_attribute attrib, CUfunction hfunc),
           (pi, attrib, hfunc)) {
  SIM_USE_CONTEXT()
  Kernel* kernel = nullptr;
  SIM_TRY(UseKernel(world, hfunc, &kernel))
  const auto set = kernel->attributes.find(attrib);
  const bool is_limit = attrib == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
  *pi = set != kernel->attributes.end() ? set->second : (is_limit ? 1024 : 0);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuFuncSetAttribute, 9000, cuFuncSetAttribute, (CUfunction hfunc, CUfunction_attribute attrib, int value),
           (hfunc, attrib, value)) {
  SIM_USE_CONTEXT()
  Kernel* kernel = nullptr;
  SIM_TRY(UseKernel(world, hfunc, &kernel))
  kernel->attributes[attrib] = value;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuFuncGetName, 12030, cuFuncGetName, (const char** name, CUfunction hfunc), (name, hfunc)) {
  SIM_USE_CONTEXT()
  Kernel* kernel = nullptr;
  SIM_TRY(UseKernel(world, hfunc, &kernel))
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

// Registers are not looked at: kernels here have none.
static CUresult ActiveBlocks(int* blocks, CUfunction function, int block_size, size_t dynamic_shared) {
  SIM_USE_CONTEXT()
  if (blocks == nullptr || block_size <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Kernel* kernel = nullptr;
  SIM_TRY(UseKernel(world, function, &kernel))
  const Device& device = *context->device;
  const auto limit = [&device](CUdevice_attribute attribute) { return AttributeOf(device, attribute); };
  const int warp = limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  const int threads = (block_size + warp - 1) / warp * warp;
  int count = threads > limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
                  ? 0
                  : limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / threads;
  count = std::min(count, limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
  if (dynamic_shared != 0) {
    const auto shared = static_cast<size_t>(limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
    count = std::min(count, static_cast<int>(std::min<size_t>(shared / dynamic_shared, INT_MAX)));
  }
  *blocks = count;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor,
           (int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize),
           (numBlocks, func, blockSize, dynamicSMemSize)) {
  return ActiveBlocks(numBlocks, func, blockSize, dynamicSMemSize);
}

SIM_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000,
           cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
           (int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags),
           (numBlocks, func, blockSize, dynamicSMemSize, flags)) {
  if ((flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return ActiveBlocks(numBlocks, func, blockSize, dynamicSMemSize);
}

// ---- control
SIM_EXPORT int simRegisterKernel(const void* host_function, const char* name, simKernelBody body,
                                 const size_t* arg_sizes, int arg_count, uint64_t duration_ns) {
  if (host_function == nullptr || body == nullptr || arg_count < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  World& world = TheWorld();
  Lock lock(world.mutex);
  auto kernel = std::make_unique<Kernel>();
  kernel->name = name != nullptr ? name : "unnamed";
  kernel->host_function = host_function;
  kernel->body = body;
  kernel->arg_sizes.assign(arg_sizes, arg_sizes + arg_count);
  kernel->duration_ns = duration_ns;
  std::unique_ptr<Kernel>& place = world.kernels[host_function];
  if (place) {
    world.retired_kernels.push_back(std::move(place));  // submitted launches still run the old one
  }
  place = std::move(kernel);
  return CUDA_SUCCESS;
}

// For the simulated libcudart: what the start-up code of a library says of its kernels, and that they are gone.
SIM_EXPORT void simRegisterCompiled(const void* binary, const void* host_function, const char* name) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.compiled[host_function] = name != nullptr ? name : "unnamed";
  world.compiled_in[binary].push_back(host_function);
}
SIM_EXPORT void simUnregisterCompiled(const void* binary) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  for (const void* host_function : world.compiled_in[binary]) {
    world.compiled.erase(host_function);
    const auto found = world.kernels.find(host_function);
    if (found != world.kernels.end() && found->second->body == nullptr) {
      world.retired_kernels.push_back(std::move(found->second));
      world.kernels.erase(found);
    }
  }
  world.compiled_in.erase(binary);
}

// For the simulated libcudart: the driver handle of a host function. Of one that is only in a fat binary too: a launch
// finds out that there is nothing for this device, not the question for the kernel.
SIM_EXPORT int simFindFunction(const void* host_function, void** function) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  auto found = world.kernels.find(host_function);
  if (found == world.kernels.end()) {
    const auto compiled = world.compiled.find(host_function);
    if (compiled == world.compiled.end()) {
      *function = nullptr;
      return CUDA_ERROR_NOT_FOUND;
    }
    auto kernel = std::make_unique<Kernel>();
    kernel->name = compiled->second;
    kernel->host_function = host_function;
    kernel->duration_ns = 5000;
    found = world.kernels.emplace(host_function, std::move(kernel)).first;
  }
  *function = found->second.get();
  return CUDA_SUCCESS;
}

SIM_EXPORT int simLaunchUnseen(const void* host_function, unsigned int grid, unsigned int block, void** args,
                               void* stream) {
  void* function = nullptr;
  if (simFindFunction(host_function, &function) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  ThreadState& thread = ThisThread();
  const bool before = thread.per_thread_default;
  thread.per_thread_default = false;
  const CUresult result = Launch(static_cast<CUfunction>(function), Shape(grid, 1, 1, block, 1, 1, 0),
                                 static_cast<CUstream>(stream), args, nullptr);
  thread.per_thread_default = before;
  return result;
}

SIM_EXPORT void simFault(const simLaunch* launch, int error) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  Fault(static_cast<Op*>(launch->operation)->context, static_cast<CUresult>(error));
}

SIM_EXPORT void simPrint(const simLaunch*, const char* text) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  world.printed += text;
}

SIM_EXPORT uint64_t simKernelCount(void) {
  World& world = TheWorld();
  Lock lock(world.mutex);
  return world.kernels_submitted;
}
