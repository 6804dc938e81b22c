// Batches: copies without an order among each other, behind the stream's earlier work.
#include "tests/sim/driver/copy.h"
#include "tests/sim/driver/use_context.h"

using namespace simcuda;

namespace {

// Submits all of them, or none if one is invalid.
CUresult SubmitBatch(World& world, Lock& lock, const StreamPtr& stream, const std::vector<CopyRequest>& requests) {
  std::vector<Work> works(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    SIM_TRY(MakeBatchedCopyWork(world, lock, requests[i], &works[i]))
  }
  std::vector<OpPtr> before;
  StreamDependencies(stream, &before);
  std::vector<OpPtr> copies;
  for (Work& work : works) {
    copies.push_back(SubmitAfter(world, stream->context, stream, std::move(work), before, false));
  }
  SubmitAfter(world, stream->context, stream, Work(), copies, true);
  return CUDA_SUCCESS;
}

CUresult LinearBatch(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attributes,
                     size_t* attribute_starts, size_t attribute_count, CUstream handle) {
  SIM_USE_STREAM(handle)
  if (stream->legacy || count == 0 || dsts == nullptr || srcs == nullptr || sizes == nullptr || attribute_count == 0 ||
      attribute_count > count || attributes == nullptr || attribute_starts == nullptr || attribute_starts[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->capture) {
    return CheckNotCapturing(world, stream);
  }
  std::vector<CopyRequest> requests;
  size_t attribute = 0;
  for (size_t i = 0; i < count; ++i) {
    while (attribute + 1 < attribute_count && attribute_starts[attribute + 1] <= i) {
      ++attribute;
    }
    requests.push_back(Linear(dsts[i], srcs[i], sizes[i], CopyRequest::Side::kUnified, CopyRequest::Side::kUnified));
    requests.back().snapshot_at_call =
        attributes[attribute].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  }
  return SubmitBatch(world, lock, stream, requests);
}

CUresult Batch3D(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags, CUstream handle) {
  SIM_USE_STREAM(handle)
  if (stream->legacy || count == 0 || operations == nullptr || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->capture) {
    return CheckNotCapturing(world, stream);
  }
  std::vector<CopyRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    const CUDA_MEMCPY3D_BATCH_OP& operation = operations[i];
    if (operation.src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || operation.dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER) {
      return CUDA_ERROR_NOT_SUPPORTED;  // arrays
    }
    CopyRequest request;
    request.width = operation.extent.width;
    request.height = operation.extent.height;
    request.depth = operation.extent.depth;
    const auto side = [&request](const auto& operand, uintptr_t* address, size_t* pitch, size_t* slice) {
      *address = operand.op.ptr.ptr;
      *pitch = operand.op.ptr.rowLength != 0 ? operand.op.ptr.rowLength : request.width;
      *slice = *pitch * (operand.op.ptr.layerHeight != 0 ? operand.op.ptr.layerHeight : request.height);
    };
    side(operation.src, &request.src, &request.src_pitch, &request.src_slice);
    side(operation.dst, &request.dst, &request.dst_pitch, &request.dst_slice);
    request.snapshot_at_call = operation.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    requests.push_back(request);
  }
  return SubmitBatch(world, lock, stream, requests);
}

CUresult WithFailIndex(CUresult result, size_t* index) {
  if (result != CUDA_SUCCESS && index != nullptr) {
    *index = SIZE_MAX;  // not about one of them
  }
  return result;
}

}  // namespace

SIM_DRIVER_PT(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync, _ptsz,
              (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs,
               size_t* attrsIdxs, size_t numAttrs, size_t* failIdx, CUstream hStream),
              (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream)) {
  return WithFailIndex(LinearBatch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream), failIdx);
}
SIM_DRIVER_PT(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2, _ptsz,
              (CUdeviceptr * dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs,
               size_t* attrsIdxs, size_t numAttrs, CUstream hStream),
              (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream)) {
  return LinearBatch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}
SIM_DRIVER_PT(cuMemcpy3DBatchAsync, 12080, cuMemcpy3DBatchAsync, _ptsz,
              (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx, unsigned long long flags,
               CUstream hStream),
              (numOps, opList, failIdx, flags, hStream)) {
  return WithFailIndex(Batch3D(numOps, opList, flags, hStream), failIdx);
}
SIM_DRIVER_PT(cuMemcpy3DBatchAsync, 13000, cuMemcpy3DBatchAsync_v2, _ptsz,
              (size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags, CUstream hStream),
              (numOps, opList, flags, hStream)) {
  return Batch3D(numOps, opList, flags, hStream);
}
