// Device memory between processes: the importer maps the exporter's memory file at the same bytes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/sim/driver/use_context.h"

using namespace simcuda;

namespace {

constexpr uint64_t kMemoryMagic = 0x51AC0DE033333000u;

struct MemoryHandle {
  uint64_t magic;
  int32_t pid;
  int32_t file;
  uint64_t offset;
  uint64_t bytes;
  uint64_t id;
  int32_t device;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

struct Import {
  uintptr_t base = 0;
  int opened = 0;
};
std::map<std::pair<int, uint64_t>, Import>& Imports() {
  static auto* const imports = new std::map<std::pair<int, uint64_t>, Import>;  // under World::mutex
  return *imports;
}

}  // namespace

// Of an interior pointer: the handle of its whole allocation (measured; PyTorch relies on it).
SIM_DRIVER(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle, (CUipcMemHandle * pHandle, CUdeviceptr dptr), (pHandle, dptr)) {
  SIM_USE_CONTEXT()
  Allocation* allocation = FindAllocation(world, dptr);
  if (pHandle == nullptr || allocation == nullptr || allocation->kind != Allocation::Kind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;  // not managed, pinned, pooled or mapped memory
  }
  allocation->exported = true;
  MemoryHandle handle = {};
  handle.magic = kMemoryMagic;
  handle.pid = getpid();
  handle.file = world.devices[allocation->device].arena.file;
  handle.offset = allocation->file_offset;
  handle.bytes = allocation->bytes;
  handle.id = allocation->id;
  handle.device = allocation->device;
  std::memset(pHandle, 0, sizeof *pHandle);
  std::memcpy(pHandle->reserved, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2,
           (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags), (pdptr, handle, Flags)) {
  SIM_USE_CONTEXT()
  MemoryHandle from = {};
  std::memcpy(&from, handle.reserved, sizeof from);
  if (pdptr == nullptr || from.magic != kMemoryMagic || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from.pid == getpid()) {
    return CUDA_ERROR_INVALID_CONTEXT;  // measured: a process cannot open its own
  }
  Import& import = Imports()[{from.pid, from.id}];
  if (import.opened > 0) {
    ++import.opened;
    *pdptr = import.base;
    return CUDA_SUCCESS;
  }
  const std::string path = "/proc/" + std::to_string(from.pid) + "/fd/" + std::to_string(from.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t first = from.offset / kPage * kPage;
  const size_t mapped = (from.offset + from.bytes - first + kPage - 1) / kPage * kPage;
  void* alias = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(first));
  void* base = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  close(file);
  if (alias == MAP_FAILED || base == MAP_FAILED) {
    return CUDA_ERROR_MAP_FAILED;
  }
  Allocation allocation;
  allocation.kind = Allocation::Kind::kImported;
  allocation.base = reinterpret_cast<uintptr_t>(base) + (from.offset - first);
  allocation.bytes = from.bytes;
  allocation.reserved = mapped;
  allocation.alias = static_cast<std::byte*>(alias) + (from.offset - first);
  allocation.device = from.device;
  allocation.context = context;
  allocation.id = world.next_id++;
  world.allocations[allocation.base] = allocation;
  import.base = allocation.base;
  import.opened = 1;
  *pdptr = allocation.base;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle, (CUdeviceptr dptr), (dptr)) {
  SIM_USE_CONTEXT()
  for (auto& [key, import] : Imports()) {
    if (import.opened > 0 && import.base == dptr) {
      if (--import.opened == 0) {
        RunUntilDone(world, lock, PendingOf(world, nullptr));
        ReleaseAllocation(world, dptr);
      }
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}
