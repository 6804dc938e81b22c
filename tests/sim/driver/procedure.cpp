// cuGetProcAddress, names of errors, export tables.
#include "tests/sim/driver/use_context.h"

using namespace simcuda;

static CUresult Lookup(const char* symbol, void** pfn, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult* status) {
  const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || pfn == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pfn = nullptr;
  if ((flags & ~known) != 0 || version > kDriverVersion) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  bool exists = false;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Procedure* found = FindProcedure(symbol, version, per_thread, &exists);
  *pfn = found != nullptr ? found->address : nullptr;
  if (status != nullptr) {
    *status = found != nullptr
                  ? CU_GET_PROC_ADDRESS_SUCCESS
                  : (exists ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  }
  return CUDA_SUCCESS;  // also when there is none: the pointer says so (cuda.h)
}

SIM_DRIVER(cuGetProcAddress, 11030, cuGetProcAddress,
           (const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags), (symbol, pfn, cudaVersion, flags)) {
  return Lookup(symbol, pfn, cudaVersion, flags, nullptr);
}

SIM_DRIVER(cuGetProcAddress, 12000, cuGetProcAddress_v2,
           (const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
            CUdriverProcAddressQueryResult* symbolStatus),
           (symbol, pfn, cudaVersion, flags, symbolStatus)) {
  return Lookup(symbol, pfn, cudaVersion, flags, symbolStatus);
}

// Undocumented tables of the real driver; there are none here.
SIM_DRIVER(cuGetExportTable, 3000, cuGetExportTable, (const void** ppExportTable, const CUuuid* pExportTableId),
           (ppExportTable, pExportTableId)) {
  (void)pExportTableId;
  if (ppExportTable == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *ppExportTable = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
