// Another library that is preloaded, in front of slipstream or behind it: it serves cudaMalloc by memory that it maps
// by the driver's functions, as a memory saver does, and keeps every promise of CUDA's.
//
// Threading: any thread.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <map>
#include <mutex>

#define OTHER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// The next one of that name, whoever it is.
template <typename Function>
Function* Next(const char* name) {
  void* volatile const found = dlsym(RTLD_NEXT, name);  // not the last thing: this library asks
  return reinterpret_cast<Function*>(found);
}
#define NEXT(function) Next<decltype(function)>(#function)

struct Block {
  size_t bytes;
  CUmemGenericAllocationHandle handle;
};
std::mutex blocks_mutex;
std::map<CUdeviceptr, Block> blocks;

constexpr size_t kGranularity = size_t{2} << 20;

bool Map(CUdeviceptr* address, size_t bytes, Block* block) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  *block = {(bytes + kGranularity - 1) / kGranularity * kGranularity, 0};
  if (cuMemCreate(&block->handle, block->bytes, &properties, 0) != CUDA_SUCCESS) return false;
  const bool reserved = cuMemAddressReserve(address, block->bytes, 0, 0, 0) == CUDA_SUCCESS;
  const bool mapped = reserved && cuMemMap(*address, block->bytes, 0, block->handle, 0) == CUDA_SUCCESS;
  if (mapped && cuMemSetAccess(*address, block->bytes, &access, 1) == CUDA_SUCCESS) return true;
  if (mapped) cuMemUnmap(*address, block->bytes);
  if (reserved) cuMemAddressFree(*address, block->bytes);
  cuMemRelease(block->handle);
  return false;
}

}  // namespace

OTHER_EXPORT cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  CUdeviceptr address = 0;
  Block block = {};
  // What is smaller than a granule has an end that the runtime knows, and this library would not.
  const bool takes = pointer != nullptr && bytes >= kGranularity;
  if (!takes || !Map(&address, bytes, &block)) return NEXT(cudaMalloc)(pointer, bytes);
  *pointer = reinterpret_cast<void*>(address);
  const std::lock_guard lock(blocks_mutex);
  blocks.emplace(address, block);
  return cudaSuccess;
}

// A wait for the device, as cudaFree is.
OTHER_EXPORT cudaError_t cudaFree(void* pointer) {
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  Block block = {};
  {
    const std::lock_guard lock(blocks_mutex);
    const auto found = blocks.find(address);
    if (found != blocks.end()) block = found->second;
    if (found != blocks.end()) blocks.erase(found);
  }
  if (block.bytes == 0) return NEXT(cudaFree)(pointer);
  const cudaError_t result = cudaDeviceSynchronize();
  cuMemUnmap(address, block.bytes);
  cuMemRelease(block.handle);
  cuMemAddressFree(address, block.bytes);
  return result;
}
