// S17: a driver call that fails at any point leaves right bytes or the error of the real call, and copies go on.
#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Failure : public Rule {
 protected:
  // Fails the nth call of the driver's function during one copy, for n = 1, 2, ... `own`: the program's copy makes that
  // call too, so its error may be the copy's.
  void FailDuringCopies(const char* function, bool own, bool warm = true) {
    if (warm) {
      WarmUp();
    }
    for (const bool every : {false, true}) {
      for (uint64_t nth = 1; nth <= 4; ++nth) {
        for (const size_t bytes : {kSmall, kLarge, kHuge}) {
          SCOPED_TRACE(std::string(function) + (every ? " from call " : " at call ") + std::to_string(nth) + " of " +
                       std::to_string(bytes));
          source_ = Pattern(kHuge, static_cast<uint32_t>(nth + bytes));
          OK(LaunchFill(device_, kHuge, 1, a_));
          Backlog(a_, 4);
          OK(simFailCall(function, cudaErrorUnknown, nth, every ? 1 : 0));
          const cudaError_t copied = CopyUp(device_, source_.data(), bytes, a_);
          const cudaError_t waited = cudaStreamSynchronize(a_);
          simClearFailures();
          EXPECT_TRUE(copied == cudaSuccess || (own && copied == cudaErrorUnknown)) << copied;
          RETURNS(cudaSuccess, waited);
          RETURNS(copied, cudaGetLastError());
          OK(cudaDeviceSynchronize());
          if (copied == cudaSuccess) {
            EXPECT_TRUE(Holds(device_, source_, bytes));
          }
          OK(CopyUp(other_, source_.data(), bytes, a_));
          OK(cudaStreamSynchronize(a_));
          OK(cudaDeviceSynchronize());
          EXPECT_TRUE(Holds(other_, source_, bytes));
        }
      }
    }
  }
  void SetUp() override { Prepare(); }
};

TEST_F(Failure, S17_TheCopyItself) { FailDuringCopies("cuMemcpyHtoDAsync_v2", true); }
TEST_F(Failure, S17_RecordingAnEvent) { FailDuringCopies("cuEventRecord", false); }
TEST_F(Failure, S17_MakingAnEvent) { FailDuringCopies("cuEventCreate", false); }
TEST_F(Failure, S17_TheWaitOfTheContext) { FailDuringCopies("cuCtxWaitEvent", false); }
TEST_F(Failure, S17_PinningMemory) { FailDuringCopies("cuMemHostRegister_v2", false, false); }
TEST_F(Failure, S17_AskingForPointers) { FailDuringCopies("cuPointerGetAttributes", false); }
TEST_F(Failure, S17_AskingForACapture) { FailDuringCopies("cuStreamIsCapturing", false); }
TEST_F(Failure, S17_AskingForOtherContexts) { FailDuringCopies("cuDevicePrimaryCtxGetState", false); }
TEST_F(Failure, S17_AskingForEvents) { FailDuringCopies("cuEventQuery", false); }
TEST_F(Failure, S17_TheCaptureMode) { FailDuringCopies("cuThreadExchangeStreamCaptureMode", false); }
TEST_F(Failure, S17_TheFirstCopyOfAll) { FailDuringCopies("cuMemcpyHtoDAsync_v2", true, false); }
TEST_F(Failure, S17_TheFirstQuestionOfAll) { FailDuringCopies("cuDeviceGetAttribute", false, false); }

// The same on the way back.
class FetchFailure : public Failure {
 protected:
  FetchFailure() { StartWith("SLIPSTREAM_TRANSFER_D2H", "on"); }
  void FailDuringFetches(const char* function, bool own) {
    WarmUp();
    OK(CopyUp(other_, source_.data(), kHuge, a_));
    OK(cudaDeviceSynchronize());
    for (uint64_t nth = 1; nth <= 6; ++nth) {
      SCOPED_TRACE(std::string(function) + " at call " + std::to_string(nth));
      const auto value = static_cast<uint8_t>(nth);
      OK(LaunchFill(device_, kHuge, value, a_));
      Backlog(a_, 4);
      std::vector<uint8_t> back(kHuge, 0);
      OK(simFailCall(function, cudaErrorUnknown, nth, 0));
      const cudaError_t copied = cudaMemcpyAsync(back.data(), device_, kHuge, cudaMemcpyDeviceToHost, a_);
      simClearFailures();
      EXPECT_TRUE(copied == cudaSuccess || (own && copied == cudaErrorUnknown)) << copied;
      RETURNS(copied, cudaGetLastError());
      if (copied == cudaSuccess) {
        EXPECT_EQ(back, std::vector<uint8_t>(kHuge, value));
      }
      Backlog(a_, 4);  // or it would be tried out which way is faster
      const Tally tally("transfer");
      OK(cudaMemcpyAsync(back.data(), device_, kHuge, cudaMemcpyDeviceToHost, a_));
      EXPECT_EQ(back, std::vector<uint8_t>(kHuge, value));
      DECIDED(tally, "d2h.promoted", 1);
    }
  }
};

TEST_F(FetchFailure, S17_TheCopyItself) { FailDuringFetches("cuMemcpyDtoHAsync_v2", true); }
TEST_F(FetchFailure, S17_RecordingAnEvent) { FailDuringFetches("cuEventRecord", false); }
TEST_F(FetchFailure, S17_MakingAnEvent) { FailDuringFetches("cuEventCreate", false); }
TEST_F(FetchFailure, S17_WaitingForAnEvent) { FailDuringFetches("cuEventSynchronize", false); }
TEST_F(FetchFailure, S17_AskingForEvents) { FailDuringFetches("cuEventQuery", false); }
TEST_F(FetchFailure, S17_AskingForPointers) { FailDuringFetches("cuPointerGetAttributes", false); }

// A failure that lasts until the synchronization is over: it is made, or it is skipped and settled; it is never lost.
TEST_F(Failure, S17_WaitingForAnEvent) {
  WarmUp();
  DeferOnA();
  OK(simFailCall("cuEventSynchronize", cudaErrorUnknown, 1, 0));
  OK(cudaDeviceSynchronize());
  simClearFailures();
  EXPECT_EQ(Pending(a_), 0);
  EXPECT_TRUE(HoldsOnly(device_, 0x11, kSmall));
  DeferOnA();
  OK(simFailCall("cuEventSynchronize", cudaErrorUnknown, 1, 0));
  (void)cudaStreamQuery(a_);
  simClearFailures();
  (void)cudaGetLastError();
  OK(cudaDeviceSynchronize());
  EXPECT_EQ(Pending(a_), 0);
}

// An effect whose end cannot be marked counts as pending: the synchronization is made.
TEST_F(Failure, S17_AnEffectThatCannotBeMarked) {
  WarmUp();
  OK(LaunchFill(other_, kSmall, 7, a_));
  Backlog(a_);
  OK(simFailCall("cuEventRecord", cudaErrorUnknown, 1, 0));
  OK(cudaMemcpyAsync(pinned_, other_, kSmall, cudaMemcpyDeviceToHost, a_));
  simClearFailures();
  CopyAndSynchronize(a_);
  EXPECT_EQ(pinned_[0], 7);
  EXPECT_EQ(pinned_[kSmall - 1], 7);
}

}  // namespace
}  // namespace rules
