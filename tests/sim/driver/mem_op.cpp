// Streams that write values to memory and wait for values in memory.
#include <cstring>

#include "tests/sim/driver/use_context.h"

using namespace simcuda;

namespace {

bool Holds(uint64_t now, uint64_t wanted, unsigned flags, size_t bytes) {
  switch (flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return bytes == 4 ? static_cast<int32_t>(static_cast<uint32_t>(now) - static_cast<uint32_t>(wanted)) >= 0
                        : static_cast<int64_t>(now - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & wanted) != 0;
    default:
      return bytes == 4 ? static_cast<uint32_t>(~(now | wanted)) != 0 : ~(now | wanted) != 0;
  }
}

// The other side may be a host thread: whole words, in order.
uint64_t Load(const std::byte* address, size_t bytes) {
  return bytes == 4 ? __atomic_load_n(reinterpret_cast<const uint32_t*>(reinterpret_cast<uintptr_t>(address)),
                                      __ATOMIC_ACQUIRE)
                    : __atomic_load_n(reinterpret_cast<const uint64_t*>(reinterpret_cast<uintptr_t>(address)),
                                      __ATOMIC_ACQUIRE);
}
void Store(std::byte* address, uint64_t value, size_t bytes) {
  if (bytes == 4) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(reinterpret_cast<uintptr_t>(address)), static_cast<uint32_t>(value),
                     __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(reinterpret_cast<uint64_t*>(reinterpret_cast<uintptr_t>(address)), value, __ATOMIC_RELEASE);
  }
}

CUresult Find(World& world, CUdeviceptr address, size_t bytes) {
  bool known = false;
  const std::byte* found = Translate(world, address, bytes, &known);
  // Plain host memory is not addressable; 4 or 8 bytes must not straddle.
  return known && found != nullptr && address % bytes == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult MakeWait(World& world, CUdeviceptr address, uint64_t value, unsigned flags, size_t bytes, Work* work) {
  SIM_TRY(Find(world, address, bytes))
  work->kind = Work::Kind::kWaitValue;
  work->condition = [address, value, flags, bytes] {
    bool known = false;
    const std::byte* found = Translate(TheWorld(), address, bytes, &known);
    return found == nullptr || Holds(Load(found, bytes), value, flags, bytes);
  };
  return CUDA_SUCCESS;
}

CUresult MakeWrite(World& world, CUdeviceptr address, uint64_t value, size_t bytes, Work* work) {
  SIM_TRY(Find(world, address, bytes))
  work->kind = Work::Kind::kWriteValue;
  work->body = [address, value, bytes](Op& op) {
    bool known = false;
    std::byte* found = Translate(TheWorld(), address, bytes, &known);
    if (found == nullptr) {
      Fault(op.context, CUDA_ERROR_ILLEGAL_ADDRESS);
      return;
    }
    Store(found, value, bytes);
  };
  return CUDA_SUCCESS;
}

CUresult WaitValue(CUstream handle, CUdeviceptr address, uint64_t value, unsigned flags, size_t bytes) {
  SIM_USE_STREAM(handle)
  Work work;
  SIM_TRY(MakeWait(world, address, value, flags, bytes, &work))
  return Enqueue(world, stream, std::move(work), nullptr);
}

CUresult WriteValue(CUstream handle, CUdeviceptr address, uint64_t value, size_t bytes) {
  SIM_USE_STREAM(handle)
  Work work;
  SIM_TRY(MakeWrite(world, address, value, bytes, &work))
  return Enqueue(world, stream, std::move(work), nullptr);
}

}  // namespace

SIM_DRIVER_PT(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2, _ptsz,
              (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), (stream, addr, value, flags)) {
  return WaitValue(stream, addr, value, flags, 4);
}
SIM_DRIVER_PT(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2, _ptsz,
              (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags), (stream, addr, value, flags)) {
  return WaitValue(stream, addr, value, flags, 8);
}
SIM_DRIVER_PT(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2, _ptsz,
              (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), (stream, addr, value, flags)) {
  (void)flags;
  return WriteValue(stream, addr, value, 4);
}
SIM_DRIVER_PT(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2, _ptsz,
              (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags), (stream, addr, value, flags)) {
  (void)flags;
  return WriteValue(stream, addr, value, 8);
}

SIM_DRIVER_PT(cuStreamBatchMemOp, 11070, cuStreamBatchMemOp_v2, _ptsz,
              (CUstream hStream, unsigned int count, CUstreamBatchMemOpParams* paramArray, unsigned int flags),
              (hStream, count, paramArray, flags)) {
  SIM_USE_STREAM(hStream)
  if (count == 0 || count > 256 || paramArray == nullptr || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Work> works(count);
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& item = paramArray[i];
    switch (item.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        SIM_TRY(MakeWait(world, item.waitValue.address, item.waitValue.value, item.waitValue.flags, 4, &works[i]))
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        SIM_TRY(MakeWait(world, item.waitValue.address, item.waitValue.value64, item.waitValue.flags, 8, &works[i]))
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        SIM_TRY(MakeWrite(world, item.writeValue.address, item.writeValue.value, 4, &works[i]))
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        SIM_TRY(MakeWrite(world, item.writeValue.address, item.writeValue.value64, 8, &works[i]))
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (Work& work : works) {
    SIM_TRY(Enqueue(world, stream, std::move(work), nullptr))
  }
  return CUDA_SUCCESS;
}
