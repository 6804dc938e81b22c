#include "tests/sim/driver/copy.h"

#include <algorithm>
#include <cstring>

#include "tests/sim/driver/use_context.h"
#include "tests/sim/simobserve.h"

namespace simcuda {
namespace {

using Side = CopyRequest::Side;

enum class Place { kPageable, kPinned, kManaged, kDevice };

Place PlaceOf(World& world, uintptr_t address, int* device) {
  const Allocation* allocation = FindAllocation(world, address);
  if (allocation == nullptr) {
    bool known = false;
    Translate(world, address, 0, &known);
    if (known) {
      return Place::kDevice;
    }
    // With ATS a copy engine reads ordinary memory where it lies, when it gets there: like pinned memory (not
    // measured).
    return DeviceUsesHostPageTables(world) ? Place::kPinned : Place::kPageable;
  }
  *device = allocation->device;
  switch (allocation->kind) {
    case Allocation::Kind::kPinned:
    case Allocation::Kind::kRegistered:
      return Place::kPinned;
    case Allocation::Kind::kManaged:
      return Place::kManaged;
    default:
      return Place::kDevice;
  }
}

CUresult CheckSide(World& world, uintptr_t address, size_t span, Side side) {
  int device = 0;
  const Place place = PlaceOf(world, address, &device);
  // With unified addressing a "host" side may be device memory and the reverse (measured); only pageable memory cannot
  // be named as device memory.
  if (side == Side::kDevice && place == Place::kPageable && !DeviceReadsPageable(world)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  bool known = false;
  if (Translate(world, address, span, &known) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;  // NULL, freed, or longer than its allocation
  }
  return CUDA_SUCCESS;
}

void MoveRows(const CopyRequest& request, std::byte* dst, const std::byte* src) {
  for (size_t z = 0; z < request.depth; ++z) {
    for (size_t y = 0; y < request.height; ++y) {
      std::memmove(dst + z * request.dst_slice + y * request.dst_pitch,
                   src + z * request.src_slice + y * request.src_pitch, request.width);
    }
  }
}

// Of a pageable source this much is read when an asynchronous copy is submitted, even behind a busy stream; the rest
// only when the stream gets there. Measured: of 8 MiB behind a 10 ms kernel and a host function that rewrote the
// source, the first byte was old, the last one new, and the call took 11.7 ms; 1 MiB behind the same was all old, after
// 0.1 ms.
constexpr size_t kReadAtCall = size_t{2} << 20;

// Reads the source now, row by row, densely packed; the request then reads from the copy.
std::shared_ptr<std::vector<std::byte>> Snapshot(CopyRequest* request) {
  auto staged = std::make_shared<std::vector<std::byte>>(request->width * request->height * request->depth);
  CopyRequest to_stage = *request;
  to_stage.dst_pitch = request->width;
  to_stage.dst_slice = request->width * request->height;
  MoveRows(to_stage, staged->data(), reinterpret_cast<const std::byte*>(request->src));
  request->src_pitch = to_stage.dst_pitch;
  request->src_slice = to_stage.dst_slice;
  return staged;
}

int ObservedPlace(Place place) {
  switch (place) {
    case Place::kPageable:
      return SIM_PLACE_PAGEABLE;
    case Place::kPinned:
      return SIM_PLACE_PINNED;
    case Place::kManaged:
      return SIM_PLACE_MANAGED;
    case Place::kDevice:
      break;
  }
  return SIM_PLACE_DEVICE;
}

Work CopyWork(World& world, const CopyRequest& request, const std::shared_ptr<std::vector<std::byte>>& staged) {
  int device = 0;
  const bool from_host = staged != nullptr || PlaceOf(world, request.src, &device) <= Place::kPinned;
  const bool to_host = PlaceOf(world, request.dst, &device) <= Place::kPinned;
  Work work;
  work.kind = Work::Kind::kCopy;
  work.engine = to_host ? Engine::kCopyToHost : (from_host ? Engine::kCopyToDevice : Engine::kCompute);
  const double rate = world.settings.bytes_per_ns[to_host ? 1 : (from_host ? 0 : 2)];
  work.duration_ns =
      static_cast<uint64_t>(static_cast<double>(request.width * request.height * request.depth) / rate) + 1000;
  work.copy = std::make_shared<CopyRequest>(request);
  work.from = staged != nullptr ? SIM_PLACE_PAGEABLE : ObservedPlace(PlaceOf(world, request.src, &device));
  work.to = ObservedPlace(PlaceOf(world, request.dst, &device));
  if (!to_host) {
    work.to_device = device;
  }
  if (!from_host) {
    PlaceOf(world, request.src, &work.from_device);
  }
  work.body = [request, staged](Op& op) {
    World& owner = TheWorld();
    std::byte* dst = nullptr;
    const std::byte* src = nullptr;
    {
      Lock lock(owner.mutex);
      bool known = false;
      dst = Translate(owner, request.dst, request.DstSpan(), &known);
      src = staged != nullptr ? staged->data() : Translate(owner, request.src, request.SrcSpan(), &known);
      if (dst == nullptr || src == nullptr) {
        Fault(op.context, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
      }
    }
    MoveRows(request, dst, src);
  };
  return work;
}

bool SynchronousByAttribute(World& world, uintptr_t address) {
  const Allocation* allocation = FindAllocation(world, address);
  return allocation != nullptr && allocation->sync_memops;
}

}  // namespace

CopyRequest Linear(uintptr_t dst, uintptr_t src, size_t bytes, Side dst_side, Side src_side) {
  CopyRequest request;
  request.dst = dst;
  request.src = src;
  request.width = bytes;
  request.dst_pitch = request.src_pitch = request.dst_slice = request.src_slice = bytes;
  request.dst_side = dst_side;
  request.src_side = src_side;
  return request;
}

CUresult CheckCopy(World& world, const CopyRequest& request) {
  if (request.height > 1 && (request.dst_pitch < request.width || request.src_pitch < request.width)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_TRY(CheckSide(world, request.dst, request.DstSpan(), request.dst_side))
  return CheckSide(world, request.src, request.SrcSpan(), request.src_side);
}

OpPtr PendingCopyBetweenDevices(World& world, Context* context, const Allocation& allocation) {
  const auto touches = [&](uintptr_t address) { return FindAllocation(world, address) == &allocation; };
  for (const OpPtr& op : PendingOf(world, context)) {
    if (op->work.copy == nullptr) continue;
    const CopyRequest& copy = *op->work.copy;
    int to = 0;
    int from = 0;
    const bool between = PlaceOf(world, copy.dst, &to) == Place::kDevice &&
                         PlaceOf(world, copy.src, &from) == Place::kDevice && to != from;
    if (between && (touches(copy.dst) || touches(copy.src))) return op;
  }
  return nullptr;
}

CUresult MakeCopyWork(World& world, const CopyRequest& request, Work* work) {
  SIM_TRY(CheckCopy(world, request))
  *work = CopyWork(world, request, nullptr);
  return CUDA_SUCCESS;
}

CUresult MakeBatchedCopyWork(World& world, Lock& lock, CopyRequest request, Work* work) {
  SIM_TRY(CheckCopy(world, request))
  std::shared_ptr<std::vector<std::byte>> staged;
  int device = 0;
  if (request.snapshot_at_call && PlaceOf(world, request.src, &device) <= Place::kPinned) {
    lock.unlock();
    staged = Snapshot(&request);
    lock.lock();
  }
  *work = CopyWork(world, request, staged);
  return CUDA_SUCCESS;
}

CUresult Copy(World& world, Lock& lock, const StreamPtr& stream, const CopyRequest& original, bool blocking) {
  if (blocking) {
    // A copy without a stream uses the legacy or per-thread one. A capture in a non-blocking stream survives it
    // (measured).
    SIM_TRY(CheckNotCapturing(world, stream))
  }
  if (original.width == 0 || original.height == 0 || original.depth == 0) {
    return CUDA_SUCCESS;
  }
  SIM_TRY(CheckCopy(world, original))
  CopyRequest request = original;
  int device = 0;
  const Place src = PlaceOf(world, request.src, &device);
  const Place dst = PlaceOf(world, request.dst, &device);
  const bool src_host = src <= Place::kPinned;
  const bool dst_host = dst <= Place::kPinned;
  std::shared_ptr<std::vector<std::byte>> staged;
  // Nothing says when an asynchronous copy reads pageable memory that the device reaches by itself: it "might be
  // synchronous" (not measured). The latest moment forgives least.
  const bool reads_late = !blocking && DeviceReadsPageable(world);
  if (src == Place::kPageable && !dst_host && !stream->capture && !reads_late) {
    if (blocking) {
      // "A stream sync is performed before the copy is initiated."
      std::vector<OpPtr> before;
      StreamDependencies(stream, &before);
      RunUntilDone(world, lock, before);
      WriteOutPrinted(world);
      SIM_TRY(stream->context->sticky)
    }
    // The program's memory may fault; not with the lock held.
    lock.unlock();
    staged = Snapshot(&request);
    lock.lock();
    const bool linear = original.height == 1 && original.depth == 1;
    if (!blocking && linear && original.width > kReadAtCall) {
      std::vector<OpPtr> before;
      StreamDependencies(stream, &before);
      RunUntilDone(world, lock, before);
      SIM_TRY(stream->context->sticky)
      lock.unlock();
      std::memcpy(staged->data() + kReadAtCall, reinterpret_cast<const std::byte*>(original.src) + kReadAtCall,
                  original.width - kReadAtCall);
      lock.lock();
    }
  }
  OpPtr op;
  SIM_TRY(Enqueue(world, stream, CopyWork(world, request, staged), &op))
  if (!op) {
    return CUDA_SUCCESS;  // captured
  }
  bool wait = false;
  if (staged != nullptr) {
    wait = false;  // the source is free again; the destination may still be unwritten
  } else if (src_host && dst_host) {
    wait = true;
  } else if (dst == Place::kPageable) {
    wait = true;
  } else if (src_host || dst_host) {
    wait = blocking;
  }
  if (wait || SynchronousByAttribute(world, request.src) || SynchronousByAttribute(world, request.dst)) {
    RunUntilDone(world, lock, {op});
    if (blocking) WriteOutPrinted(world);
    return stream->context->sticky;
  }
  return CUDA_SUCCESS;
}

CUresult MakeSetWork(World& world, const SetRequest& request, Work* work) {
  const size_t row = request.width * request.element;
  if (request.height > 1 && request.pitch < row) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (request.dst % request.element != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t span = request.height == 0 || row == 0 ? 0 : (request.height - 1) * request.pitch + row;
  SIM_TRY(CheckSide(world, request.dst, span, Side::kDevice))
  work->kind = Work::Kind::kSet;
  work->engine = Engine::kCompute;
  work->duration_ns =
      static_cast<uint64_t>(static_cast<double>(row * request.height) / world.settings.bytes_per_ns[2]) + 1000;
  work->set = std::make_shared<SetRequest>(request);
  work->body = [request, row, span](Op& op) {
    World& owner = TheWorld();
    std::byte* dst = nullptr;
    {
      Lock lock(owner.mutex);
      bool known = false;
      dst = Translate(owner, request.dst, span, &known);
      if (dst == nullptr) {
        Fault(op.context, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
      }
    }
    for (size_t y = 0; y < request.height; ++y) {
      std::byte* line = dst + y * request.pitch;
      if (request.element == 1) {
        std::memset(line, static_cast<int>(request.value & 0xff), row);
      } else {
        for (size_t x = 0; x < request.width; ++x) {
          std::memcpy(line + x * request.element, &request.value, request.element);  // little endian
        }
      }
    }
  };
  return CUDA_SUCCESS;
}

CUresult Set(World& world, Lock& lock, const StreamPtr& stream, const SetRequest& request, bool blocking) {
  if (blocking) {
    SIM_TRY(CheckNotCapturing(world, stream))
  }
  if (request.width == 0 || request.height == 0) {
    return CUDA_SUCCESS;
  }
  Work work;
  SIM_TRY(MakeSetWork(world, request, &work))
  OpPtr op;
  SIM_TRY(Enqueue(world, stream, std::move(work), &op))
  int device = 0;
  // Asynchronous to the host, except on pinned host memory.
  if (op && blocking && PlaceOf(world, request.dst, &device) == Place::kPinned) {
    RunUntilDone(world, lock, {op});
    return stream->context->sticky;
  }
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using namespace simcuda;

namespace {

uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

CUresult LinearCopy(uintptr_t dst, uintptr_t src, size_t bytes, Side dst_side, Side src_side, CUstream handle,
                    bool blocking) {
  SIM_USE_STREAM(handle)
  return Copy(world, lock, stream, Linear(dst, src, bytes, dst_side, src_side), blocking);
}

// One side of a 2D or 3D description.
CUresult SideOf(CUmemorytype type, const void* host, CUdeviceptr device, uintptr_t* address, Side* side) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      *address = Address(host);
      *side = Side::kHost;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
      *address = device;
      *side = Side::kDevice;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      *address = device;
      *side = Side::kUnified;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// What CUDA_MEMCPY2D, CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have in common; they name their fields alike.
template <typename Description>
CUresult From2D(const Description* copy, CopyRequest* request) {
  if (copy == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_TRY(SideOf(copy->srcMemoryType, copy->srcHost, copy->srcDevice, &request->src, &request->src_side))
  SIM_TRY(SideOf(copy->dstMemoryType, copy->dstHost, copy->dstDevice, &request->dst, &request->dst_side))
  request->width = copy->WidthInBytes;
  request->height = copy->Height;
  request->src_pitch = copy->srcPitch != 0 ? copy->srcPitch : copy->WidthInBytes;
  request->dst_pitch = copy->dstPitch != 0 ? copy->dstPitch : copy->WidthInBytes;
  request->src += copy->srcY * request->src_pitch + copy->srcXInBytes;
  request->dst += copy->dstY * request->dst_pitch + copy->dstXInBytes;
  return CUDA_SUCCESS;
}

template <typename Description>
CUresult From3D(const Description* copy, CopyRequest* request) {
  SIM_TRY(From2D(copy, request))
  request->depth = copy->Depth;
  request->src_slice = request->src_pitch * (copy->srcHeight != 0 ? copy->srcHeight : copy->Height);
  request->dst_slice = request->dst_pitch * (copy->dstHeight != 0 ? copy->dstHeight : copy->Height);
  request->src += copy->srcZ * request->src_slice;
  request->dst += copy->dstZ * request->dst_slice;
  return CUDA_SUCCESS;
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream handle, bool blocking) {
  SIM_USE_STREAM(handle)
  CopyRequest request;
  SIM_TRY(From2D(copy, &request))
  return Copy(world, lock, stream, request, blocking);
}

}  // namespace

CUresult simcuda::RequestFrom3D(const CUDA_MEMCPY3D* copy, CopyRequest* request) { return From3D(copy, request); }

namespace {

template <typename Description>
CUresult Copy3D(const Description* copy, CUstream handle, bool blocking) {
  SIM_USE_STREAM(handle)
  CopyRequest request;
  SIM_TRY(From3D(copy, &request))
  return Copy(world, lock, stream, request, blocking);
}

CUresult SetMemory(CUdeviceptr dst, size_t pitch, uint32_t value, size_t element, size_t width, size_t height,
                   CUstream handle, bool blocking) {
  SIM_USE_STREAM(handle)
  SetRequest request;
  request.dst = dst;
  request.value = value;
  request.element = element;
  request.width = width;
  request.height = height;
  request.pitch = pitch;
  return Set(world, lock, stream, request, blocking);
}

// A copy between contexts is "serialized with respect to all pending and future asynchronous work" of both (cuda.h).
CUresult PeerCopy(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes,
                  CUstream handle, bool blocking) {
  SIM_USE_STREAM(handle)
  auto* to = reinterpret_cast<Context*>(dst_context);
  auto* from = reinterpret_cast<Context*>(src_context);
  if (!IsContext(world, to) || !IsContext(world, from)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const CopyRequest request = Linear(dst, src, bytes, Side::kDevice, Side::kDevice);
  if (bytes == 0 || stream->capture || !blocking) {
    return Copy(world, lock, stream, request, blocking);
  }
  SIM_TRY(CheckNotCapturing(world, stream))
  Work work;
  SIM_TRY(MakeCopyWork(world, request, &work))
  std::vector<OpPtr> before = PendingOf(world, to);
  for (const OpPtr& op : PendingOf(world, from)) {
    before.push_back(op);
  }
  StreamDependencies(stream, &before);
  const OpPtr op = SubmitAfter(world, stream->context, stream, std::move(work), before, true);
  for (Context* side : {to, from}) {
    Work barrier;
    barrier.kind = Work::Kind::kEventWait;
    side->barrier = SubmitAfter(world, side, nullptr, std::move(barrier), {op, side->barrier}, false);
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_DRIVER_PT(cuMemcpy, 4000, cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
              (dst, src, ByteCount)) {
  return LinearCopy(dst, src, ByteCount, Side::kUnified, Side::kUnified, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpyAsync, 4000, cuMemcpyAsync, _ptsz,
              (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), (dst, src, ByteCount, hStream)) {
  return LinearCopy(dst, src, ByteCount, Side::kUnified, Side::kUnified, hStream, false);
}
SIM_DRIVER_PT(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2, _ptds,
              (CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount), (dstDevice, srcHost, ByteCount)) {
  return LinearCopy(dstDevice, Address(srcHost), ByteCount, Side::kDevice, Side::kHost, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2, _ptsz,
              (CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream),
              (dstDevice, srcHost, ByteCount, hStream)) {
  return LinearCopy(dstDevice, Address(srcHost), ByteCount, Side::kDevice, Side::kHost, hStream, false);
}
SIM_DRIVER_PT(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2, _ptds, (void* dstHost, CUdeviceptr srcDevice, size_t ByteCount),
              (dstHost, srcDevice, ByteCount)) {
  return LinearCopy(Address(dstHost), srcDevice, ByteCount, Side::kHost, Side::kDevice, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2, _ptsz,
              (void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
              (dstHost, srcDevice, ByteCount, hStream)) {
  return LinearCopy(Address(dstHost), srcDevice, ByteCount, Side::kHost, Side::kDevice, hStream, false);
}
SIM_DRIVER_PT(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2, _ptds,
              (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount), (dstDevice, srcDevice, ByteCount)) {
  return LinearCopy(dstDevice, srcDevice, ByteCount, Side::kDevice, Side::kDevice, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2, _ptsz,
              (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
              (dstDevice, srcDevice, ByteCount, hStream)) {
  return LinearCopy(dstDevice, srcDevice, ByteCount, Side::kDevice, Side::kDevice, hStream, false);
}
SIM_DRIVER_PT(cuMemcpyPeer, 4000, cuMemcpyPeer, _ptds,
              (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
               size_t ByteCount),
              (dstDevice, dstContext, srcDevice, srcContext, ByteCount)) {
  return PeerCopy(dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync, _ptsz,
              (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
               size_t ByteCount, CUstream hStream),
              (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream)) {
  return PeerCopy(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, false);
}
SIM_DRIVER_PT(cuMemcpy2D, 3020, cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* pCopy), (pCopy)) {
  return Copy2D(pCopy, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* pCopy), (pCopy)) {
  return Copy2D(pCopy, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* pCopy, CUstream hStream),
              (pCopy, hStream)) {
  return Copy2D(pCopy, hStream, false);
}
SIM_DRIVER_PT(cuMemcpy3D, 3020, cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* pCopy), (pCopy)) {
  return Copy3D(pCopy, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* pCopy, CUstream hStream),
              (pCopy, hStream)) {
  return Copy3D(pCopy, hStream, false);
}
SIM_DRIVER_PT(cuMemcpy3DPeer, 4000, cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER* pCopy), (pCopy)) {
  return Copy3D(pCopy, nullptr, true);
}
SIM_DRIVER_PT(cuMemcpy3DPeerAsync, 4000, cuMemcpy3DPeerAsync, _ptsz,
              (const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream), (pCopy, hStream)) {
  return Copy3D(pCopy, hStream, false);
}

// ---- memset
SIM_DRIVER_PT(cuMemsetD8, 3020, cuMemsetD8_v2, _ptds, (CUdeviceptr dstDevice, unsigned char uc, size_t N),
              (dstDevice, uc, N)) {
  return SetMemory(dstDevice, 0, uc, 1, N, 1, nullptr, true);
}
SIM_DRIVER_PT(cuMemsetD16, 3020, cuMemsetD16_v2, _ptds, (CUdeviceptr dstDevice, unsigned short us, size_t N),
              (dstDevice, us, N)) {
  return SetMemory(dstDevice, 0, us, 2, N, 1, nullptr, true);
}
SIM_DRIVER_PT(cuMemsetD32, 3020, cuMemsetD32_v2, _ptds, (CUdeviceptr dstDevice, unsigned int ui, size_t N),
              (dstDevice, ui, N)) {
  return SetMemory(dstDevice, 0, ui, 4, N, 1, nullptr, true);
}
SIM_DRIVER_PT(cuMemsetD2D8, 3020, cuMemsetD2D8_v2, _ptds,
              (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height),
              (dstDevice, dstPitch, uc, Width, Height)) {
  return SetMemory(dstDevice, dstPitch, uc, 1, Width, Height, nullptr, true);
}
SIM_DRIVER_PT(cuMemsetD2D16, 3020, cuMemsetD2D16_v2, _ptds,
              (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height),
              (dstDevice, dstPitch, us, Width, Height)) {
  return SetMemory(dstDevice, dstPitch, us, 2, Width, Height, nullptr, true);
}
SIM_DRIVER_PT(cuMemsetD2D32, 3020, cuMemsetD2D32_v2, _ptds,
              (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height),
              (dstDevice, dstPitch, ui, Width, Height)) {
  return SetMemory(dstDevice, dstPitch, ui, 4, Width, Height, nullptr, true);
}
SIM_DRIVER_PT(cuMemsetD8Async, 3020, cuMemsetD8Async, _ptsz,
              (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream), (dstDevice, uc, N, hStream)) {
  return SetMemory(dstDevice, 0, uc, 1, N, 1, hStream, false);
}
SIM_DRIVER_PT(cuMemsetD16Async, 3020, cuMemsetD16Async, _ptsz,
              (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream), (dstDevice, us, N, hStream)) {
  return SetMemory(dstDevice, 0, us, 2, N, 1, hStream, false);
}
SIM_DRIVER_PT(cuMemsetD32Async, 3020, cuMemsetD32Async, _ptsz,
              (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream), (dstDevice, ui, N, hStream)) {
  return SetMemory(dstDevice, 0, ui, 4, N, 1, hStream, false);
}
SIM_DRIVER_PT(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async, _ptsz,
              (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream),
              (dstDevice, dstPitch, uc, Width, Height, hStream)) {
  return SetMemory(dstDevice, dstPitch, uc, 1, Width, Height, hStream, false);
}
SIM_DRIVER_PT(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async, _ptsz,
              (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
               CUstream hStream),
              (dstDevice, dstPitch, us, Width, Height, hStream)) {
  return SetMemory(dstDevice, dstPitch, us, 2, Width, Height, hStream, false);
}
SIM_DRIVER_PT(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async, _ptsz,
              (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream),
              (dstDevice, dstPitch, ui, Width, Height, hStream)) {
  return SetMemory(dstDevice, dstPitch, ui, 4, Width, Height, hStream, false);
}
