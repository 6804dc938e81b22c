// How a program asks the runtime for functions of the driver.
#include "tests/sim/runtime/entry.h"

namespace {

cudaError_t Find(const char* symbol, void** function, unsigned version, unsigned long long flags,
                 cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) {
    return cudaErrorInvalidValue;
  }
  cuuint64_t driver_flags = flags;
  if (flags == cudaEnableDefault && simrt::ThisThread().per_thread_default) {
    driver_flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  }
  CUdriverProcAddressQueryResult driver_status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const cudaError_t result =
      CU(cuGetProcAddress, 12000, symbol, function, static_cast<int>(version), driver_flags, &driver_status);
  if (status != nullptr) {
    *status = static_cast<cudaDriverEntryPointQueryResult>(driver_status);
  }
  return result;
}

}  // namespace

SIM_RT_EXPORT cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** funcPtr, unsigned long long flags,
                                                       cudaDriverEntryPointQueryResult* driverStatus);

SIM_RT_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* driverStatus){
    SIM_RT_BODY("cudaGetDriverEntryPoint", false, false,
                Find(symbol, funcPtr, SIM_CUDART == 12 ? 12080 : 13000, flags, driverStatus))} SIM_RT_EXPORT cudaError_t
    cudaGetDriverEntryPoint_ptsz(const char* symbol, void** funcPtr, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult* driverStatus){
        SIM_RT_BODY("cudaGetDriverEntryPoint_ptsz", true, false,
                    Find(symbol, funcPtr, SIM_CUDART == 12 ? 12080 : 13000, flags,
                         driverStatus))} SIM_RT_EXPORT cudaError_t
    cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr, unsigned int cudaVersion,
                                     unsigned long long flags, cudaDriverEntryPointQueryResult* driverStatus){
        SIM_RT_BODY("cudaGetDriverEntryPointByVersion", false, false,
                    Find(symbol, funcPtr, cudaVersion, flags, driverStatus))} SIM_RT_EXPORT cudaError_t
    cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** funcPtr, unsigned int cudaVersion,
                                          unsigned long long flags, cudaDriverEntryPointQueryResult* driverStatus){
        SIM_RT_BODY("cudaGetDriverEntryPointByVersion_ptsz", true, false,
                    Find(symbol, funcPtr, cudaVersion, flags,
                         driverStatus))} SIM_RT_BARE(cudaGetExportTable,
                                                     (const void** ppExportTable, const cudaUUID_t* pExportTableId),
                                                     (ppExportTable, pExportTableId)) {
  return CU(cuGetExportTable, 3000, ppExportTable, reinterpret_cast<const CUuuid*>(pExportTableId));
}
