// When a copy reads its source and writes its destination, and who waits for whom.
#include "tests/sim/sim_test.h"

namespace simtest {
namespace {

using CopyTest = Sim;

TEST_F(CopyTest, PinnedSourceIsReadWhenTheCopyRuns) {
  std::memset(pinned_, 1, kBytes);
  OK(cudaMemcpyAsync(device_, pinned_, kBytes, cudaMemcpyHostToDevice, a_));
  std::memset(pinned_, 2, kBytes);
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(Byte(device_), 2);
}

TEST_F(CopyTest, PinnedSourceIsReadLateForEverySeed) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    OK(simSetSeed(seed));
    pinned_[0] = 1;
    OK(cudaMemcpyAsync(device_, pinned_, 1, cudaMemcpyHostToDevice, a_));
    pinned_[0] = 2;
    EXPECT_EQ(Byte(device_), 2) << seed;
  }
}

TEST_F(CopyTest, RegisteredSourceIsReadWhenTheCopyRuns) {
  OK(cudaHostRegister(pageable_.data(), kBytes, 0));
  OK(cudaMemcpyAsync(device_, pageable_.data(), kBytes, cudaMemcpyHostToDevice, a_));
  pageable_[0] = 9;
  EXPECT_EQ(Byte(device_), 9);
  OK(cudaHostUnregister(pageable_.data()));
}

TEST_F(CopyTest, PageableSourceIsReadAtTheCall) {
  OK(cudaMemcpyAsync(device_, pageable_.data(), kBytes, cudaMemcpyHostToDevice, a_));
  pageable_[0] = 9;
  EXPECT_EQ(Byte(device_), 0x11);
}

// Early as legal: even a host function of the same stream, submitted before, has not run.
TEST_F(CopyTest, PageableSourceIsReadBeforeEarlierWorkOfItsStream) {
  OK(cudaLaunchHostFunc(
      a_, [](void* p) { *static_cast<uint8_t*>(p) = 7; }, pageable_.data()));
  OK(cudaMemcpyAsync(device_, pageable_.data(), 1, cudaMemcpyHostToDevice, a_));
  EXPECT_EQ(Byte(device_), 0x11);
}

// Of a long source the first 2 MiB are read at the call and the rest behind the stream's earlier work (measured).
TEST_F(CopyTest, TheTailOfALongPageableSourceIsReadInStreamOrder) {
  constexpr size_t kLong = size_t{4} << 20;
  std::vector<uint8_t> source(kLong, 0x11);
  uint8_t* device = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&device), kLong));
  const auto rewrite = [](void* p) { std::memset(p, 7, kLong); };
  OK(cudaLaunchHostFunc(a_, rewrite, source.data()));
  OK(cudaMemcpyAsync(device, source.data(), kLong, cudaMemcpyHostToDevice, a_));
  EXPECT_EQ(source[0], 7);  // the call waited for the host function
  source.assign(kLong, 0x22);
  EXPECT_EQ(Byte(device), 0x11);
  EXPECT_EQ(Byte(device, (size_t{2} << 20) - 1), 0x11);
  EXPECT_EQ(Byte(device, size_t{2} << 20), 7);
  EXPECT_EQ(Byte(device, kLong - 1), 7);
}

// ... and 2 MiB are read at once, all of it, without any waiting.
TEST_F(CopyTest, TwoMebibytesOfAPageableSourceAreReadAtTheCall) {
  constexpr size_t kLimit = size_t{2} << 20;
  std::vector<uint8_t> source(kLimit, 0x11);
  uint8_t* device = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&device), kLimit));
  OK(cudaLaunchHostFunc(
      a_, [](void* p) { std::memset(p, 7, kLimit); }, source.data()));
  OK(cudaMemcpyAsync(device, source.data(), kLimit, cudaMemcpyHostToDevice, a_));
  EXPECT_EQ(source[0], 0x11);
  EXPECT_EQ(Byte(device, kLimit - 1), 0x11);
}

TEST_F(CopyTest, PinnedDestinationIsWrittenOnlyWhenSomebodyWaits) {
  std::memset(pinned_, 0, kBytes);
  OK(LaunchFill(device_, kBytes, 5, a_));
  OK(cudaMemcpyAsync(pinned_, device_, kBytes, cudaMemcpyDeviceToHost, a_));
  EXPECT_EQ(pinned_[0], 0);
  OK(cudaStreamSynchronize(a_));
  EXPECT_EQ(pinned_[0], 5);
}

TEST_F(CopyTest, PageableDestinationIsCompleteAtReturn) {
  OK(LaunchFill(device_, kBytes, 5, a_));
  OK(cudaMemcpyAsync(pageable_.data(), device_, kBytes, cudaMemcpyDeviceToHost, a_));
  EXPECT_EQ(pageable_[kBytes - 1], 5);
}

TEST_F(CopyTest, BlockingCopyFromPageableLeavesItsDestinationUnwritten) {
  OK(cudaMemcpy(device_, pageable_.data(), kBytes, cudaMemcpyHostToDevice));
  EXPECT_EQ(simPendingOperations(nullptr), 1);
  EXPECT_EQ(Byte(device_), 0x11);
}

TEST_F(CopyTest, BlockingCopyFromPinnedIsComplete) {
  OK(cudaMemcpy(device_, pinned_, kBytes, cudaMemcpyHostToDevice));
  EXPECT_EQ(simPendingOperations(nullptr), 0);
}

TEST_F(CopyTest, BlockingCopyWithinTheDeviceDoesNotWait) {
  OK(cudaMemcpy(device_, other_, kBytes, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(simPendingOperations(nullptr), 1);
}

TEST_F(CopyTest, SyncMemopsMakesEveryCopyWait) {
  unsigned on = 1;
  OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, reinterpret_cast<CUdeviceptr>(device_)));
  OK(cudaMemcpyAsync(device_, other_, kBytes, cudaMemcpyDeviceToDevice, a_));
  EXPECT_EQ(simPendingOperations(nullptr), 0);
}

TEST_F(CopyTest, HostToHostCopyWaits) {
  OK(LaunchFill(device_, kBytes, 5, a_));
  OK(cudaMemcpyAsync(pinned_, pinned_ + 1024, 16, cudaMemcpyHostToHost, a_));
  EXPECT_EQ(simPendingOperations(nullptr), 0);
}

TEST_F(CopyTest, MemsetIsAsynchronousExceptOnPinnedMemory) {
  OK(cudaMemset(device_, 3, kBytes));
  EXPECT_EQ(simPendingOperations(nullptr), 1);
  OK(cudaMemset(pinned_, 3, kBytes));
  EXPECT_EQ(simPendingOperations(nullptr), 0);
  EXPECT_EQ(pinned_[kBytes - 1], 3);
}

TEST_F(CopyTest, TheKindDoesNotOverruleThePointers) {
  OK(cudaMemset(other_, 4, kBytes));
  RETURNS(cudaSuccess, cudaMemcpy(device_, other_, 16, cudaMemcpyHostToDevice));
  EXPECT_EQ(Byte(device_), 4);
  RETURNS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device_, other_, 16, static_cast<cudaMemcpyKind>(9)));
}

TEST_F(CopyTest, OneByteTooManyIsRefused) {
  RETURNS(cudaErrorInvalidValue, cudaMemcpy(device_, pageable_.data(), kBytes + 1, cudaMemcpyHostToDevice));
  RETURNS(cudaErrorInvalidValue, cudaMemset(device_, 0, kBytes + 1));
  RETURNS(cudaErrorInvalidValue, cudaMemset(pageable_.data(), 0, 1));
  RETURNS(cudaSuccess, cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
  RETURNS(cudaErrorInvalidValue, cudaMemcpy(nullptr, pinned_, 1, cudaMemcpyHostToDevice));
}

TEST_F(CopyTest, RowsOf2DAnd3DCopiesLandAtTheirPitch) {
  for (size_t i = 0; i < kBytes; ++i) {
    pageable_[i] = static_cast<uint8_t>(i % 251);
  }
  OK(cudaMemset(device_, 0, kBytes));
  OK(cudaMemcpy2D(device_, 64, pageable_.data(), 32, 16, 4, cudaMemcpyHostToDevice));
  EXPECT_EQ(Byte(device_, 64 * 3 + 5), (32 * 3 + 5) % 251);
  EXPECT_EQ(Byte(device_, 64 * 3 + 16), 0);
  cudaMemcpy3DParms box = {};
  box.srcPtr = {pageable_.data(), 16, 16, 4};
  box.dstPtr = {other_, 32, 32, 8};
  box.extent = {8, 4, 2};
  box.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&box));
  EXPECT_EQ(Byte(other_, 32 * 8 + 32 * 2 + 3), 16 * 4 + 16 * 2 + 3);
}

TEST_F(CopyTest, Memset2DAndWideMemsetWriteTheirPatternOnly) {
  OK(cudaMemset(device_, 0, kBytes));
  OK(cudaMemset2D(device_, 64, 7, 10, 3));
  EXPECT_EQ(Byte(device_, 64 * 2 + 9), 7);
  EXPECT_EQ(Byte(device_, 64 * 2 + 10), 0);
  OK(cuMemsetD32(reinterpret_cast<CUdeviceptr>(device_), 0x01020304, 2));
  EXPECT_EQ(Byte(device_, 7), 1);
  EXPECT_EQ(Byte(device_, 4), 4);
}

// Copies of a batch have no order among each other; with stream order of the source even pageable memory is read late.
TEST_F(CopyTest, BatchReadsPageableSourcesAsItsAttributeSays) {
  for (const bool during_call : {false, true}) {
    pageable_[0] = 1;
    void* dst = device_;
    const void* src = pageable_.data();
    size_t size = 1;
    size_t start = 0;
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = during_call ? cudaMemcpySrcAccessOrderDuringApiCall : cudaMemcpySrcAccessOrderStream;
    OK(cudaMemcpyBatchAsync(&dst, &src, &size, 1, &attributes, &start, 1, a_));
    pageable_[0] = 2;
    EXPECT_EQ(Byte(device_), during_call ? 1 : 2);
  }
  void* dst = device_;
  const void* src = pinned_;
  size_t size = 1;
  size_t start = 0;
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  RETURNS(cudaErrorInvalidValue, cudaMemcpyBatchAsync(&dst, &src, &size, 1, &attributes, &start, 1, nullptr));
}

TEST_F(CopyTest, PeerCopyMovesBytesBetweenDevices) {
  uint8_t* far = nullptr;
  OK(cudaSetDevice(1));
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kBytes));
  OK(cudaSetDevice(0));
  OK(LaunchFill(device_, kBytes, 6, a_));  // another stream of the source device: serialized all the same
  OK(cudaMemcpyPeer(far, 1, device_, 0, kBytes));
  EXPECT_EQ(Byte(far), 6);
}

// Seen on two H200 (580.159): cudaFree does not wait for it, and everything fails from then on.
TEST_F(CopyTest, MemoryFreedUnderAPeerCopyIsAFault) {
  uint8_t* far = nullptr;
  OK(cudaSetDevice(1));
  OK(cudaMalloc(reinterpret_cast<void**>(&far), kBytes));
  cudaStream_t there = nullptr;
  OK(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
  OK(cudaSetDevice(0));
  void* mine = nullptr;
  OK(cudaMalloc(&mine, kBytes));
  OK(cudaMemcpyPeerAsync(mine, 0, far, 1, kBytes, a_));
  OK(cudaStreamSynchronize(a_));
  OK(cudaFree(mine));  // nothing is pending any more
  OK(cudaMalloc(&mine, kBytes));
  OK(LaunchFill(device_, kBytes, 6, a_));
  OK(cudaMemcpyPeerAsync(mine, 0, far, 1, kBytes, a_));
  RETURNS(cudaErrorLaunchFailure, cudaFree(mine));
  RETURNS(cudaErrorLaunchFailure, cudaStreamSynchronize(a_));
  OK(cudaSetDevice(1));
  RETURNS(cudaErrorLaunchFailure, cudaStreamSynchronize(there));
}

int variable_shadow;

TEST_F(CopyTest, SymbolsAreDeviceMemoryByName) {
  OK(simRegisterVariable(&variable_shadow, "variable", 64));
  OK(cudaMemcpyToSymbol(&variable_shadow, pageable_.data(), 8, 4, cudaMemcpyHostToDevice));
  uint8_t back[8] = {};
  OK(cudaMemcpyFromSymbol(back, &variable_shadow, 8, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back[7], 0x11);
  size_t size = 0;
  OK(cudaGetSymbolSize(&size, &variable_shadow));
  EXPECT_EQ(size, 64u);
  RETURNS(cudaErrorInvalidValue, cudaMemcpyToSymbol(&variable_shadow, pageable_.data(), 61, 4, cudaMemcpyHostToDevice));
  RETURNS(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(back, pageable_.data(), 1, 0, cudaMemcpyHostToDevice));
}

TEST_F(CopyTest, PageableMemoryIsReachedWithHostPageTables) {
  OK(simSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 1));
  OK(LaunchFill(pageable_.data(), kBytes, 7, a_));
  OK(cudaMemcpyAsync(device_, pageable_.data(), kBytes, cudaMemcpyHostToDevice, a_));
  EXPECT_EQ(pageable_[0], 0x11);
  EXPECT_EQ(Byte(device_), 7);
  OK(simSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0));
  OK(LaunchFill(pageable_.data(), kBytes, 7, a_));
  RETURNS(cudaErrorIllegalAddress, cudaStreamSynchronize(a_));
}

}  // namespace
}  // namespace simtest
