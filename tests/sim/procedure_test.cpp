// cuGetProcAddress: which function for which name, version and flags. Results measured on driver 580.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

void* Ask(const char* name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status, CUresult expected) {
  void* function = &status;
  EXPECT_EQ(cuGetProcAddress(name, &function, version, flags, status), expected) << name;
  return function;
}

TEST(ProcedureTest, TheNewestSignatureTheCallerKnows) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  void* eleven = Ask("cuStreamGetCaptureInfo", 11030, 0, &status, CUDA_SUCCESS);
  void* twelve = Ask("cuStreamGetCaptureInfo", 12020, 0, &status, CUDA_SUCCESS);
  void* thirteen = Ask("cuStreamGetCaptureInfo", 13000, 0, &status, CUDA_SUCCESS);
  EXPECT_EQ(eleven, dlsym(RTLD_DEFAULT, "cuStreamGetCaptureInfo_v2"));
  EXPECT_EQ(twelve, eleven);
  EXPECT_EQ(thirteen, dlsym(RTLD_DEFAULT, "cuStreamGetCaptureInfo_v3"));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
}

TEST(ProcedureTest, PerThreadNamesFromCuda7On) {
  CUdriverProcAddressQueryResult status;
  void* legacy = dlsym(RTLD_DEFAULT, "cuMemcpyAsync");
  void* per_thread = dlsym(RTLD_DEFAULT, "cuMemcpyAsync_ptsz");
  EXPECT_NE(legacy, per_thread);
  EXPECT_EQ(Ask("cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_DEFAULT, &status, CUDA_SUCCESS), legacy);
  EXPECT_EQ(Ask("cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status, CUDA_SUCCESS),
            per_thread);
  EXPECT_EQ(Ask("cuMemcpyAsync", 6000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status, CUDA_SUCCESS), legacy);
  // No twin: the plain function.
  EXPECT_EQ(Ask("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status, CUDA_SUCCESS),
            dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
}

TEST(ProcedureTest, NotFoundIsSuccessWithNull) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(Ask("cuNoSuchFunction", 13000, 0, &status, CUDA_SUCCESS), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(Ask("cuMemAllocAsync", 10000, 0, &status, CUDA_SUCCESS), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(Ask("cuMemAlloc_v2", 13000, 0, &status, CUDA_SUCCESS), nullptr);  // base names only
  EXPECT_EQ(Ask("cuMemAlloc", 14000, 0, nullptr, CUDA_ERROR_INVALID_VALUE), nullptr);
  EXPECT_EQ(Ask("cuMemAlloc", 13000, 8, nullptr, CUDA_ERROR_INVALID_VALUE), nullptr);
}

TEST(ProcedureTest, TheRuntimeAsksForItsVersionAndItsDefaultStream) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  ASSERT_EQ(
      cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &function, 12000, cudaEnablePerThreadDefaultStream, &status),
      cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(function, dlsym(RTLD_DEFAULT, "cuMemcpyAsync_ptsz"));
}

// A _ptsz function called with stream 0 means the thread's stream, not the legacy one.
TEST(ProcedureTest, PerThreadFunctionsUseTheThreadsStream) {
  RegisterKernels();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(simSetSeed(0), 0);
  auto* launch = reinterpret_cast<decltype(&cudaLaunchKernel)>(dlsym(RTLD_DEFAULT, "cudaLaunchKernel_ptsz"));
  Log log;
  Log* pointer = &log;
  int what = 1;
  void* args[] = {&pointer, &what};
  ASSERT_EQ(launch(Address(&Append), dim3(1), dim3(1), args, 0, nullptr), cudaSuccess);
  EXPECT_EQ(simPendingOperations(cudaStreamPerThread), 1);
  EXPECT_EQ(simPendingOperations(cudaStreamLegacy), 0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace simtest
