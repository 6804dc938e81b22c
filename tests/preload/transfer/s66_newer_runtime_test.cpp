// S66: a runtime with functions that nobody has judged is not served. And what CUDA 13 brought after its first release,
// which no header that slipstream is compiled with declares, by the rules that each of them is a case of.
#include <dlfcn.h>

#include <thread>

#include "tests/preload/transfer/rule_test.h"

extern "C" {
void** __cudaRegisterFatBinary(void* fat_binary);
void __cudaRegisterManagedVar(void** fat_binary, void** host_variable, char* device_address, const char* name,
                              int external, size_t bytes, int constant, int global);
#if RULES_CUDART == 13
cudaError_t cudaMemcpyWithAttributesAsync(void* dst, const void* src, size_t size, cudaMemcpyAttributes* attr,
                                          cudaStream_t stream);
cudaError_t cudaMemcpy3DWithAttributesAsync(cudaMemcpy3DBatchOp* op, unsigned long long flags, cudaStream_t stream);
cudaError_t cudaLaunchHostFunc_v2(cudaStream_t stream, cudaHostFn_t fn, void* userData, unsigned int syncMode);
cudaError_t cudaStreamBeginRecaptureToGraph(cudaStream_t stream, cudaStreamCaptureMode mode, cudaGraph_t graph,
                                            void* callbackData);
cudaError_t cudaDeviceGetExecutionCtx(void** ctx, int device);
cudaError_t cudaGreenCtxCreate(void** ctx, void* description, int device, unsigned int flags);
cudaError_t cudaExecutionCtxStreamCreate(cudaStream_t* stream, void* ctx, unsigned int flags, int priority);
cudaError_t cudaExecutionCtxSynchronize(void* ctx);
cudaError_t cudaExecutionCtxRecordEvent(void* ctx, cudaEvent_t event);
#endif
}

namespace rules {
namespace {

class Newer : public Rule {
 protected:
  void SetUp() override {
    Rule::SetUp();
    OK(cudaMemset(other_, 7, kSmall));
    OK(cudaDeviceSynchronize());
    std::memset(pinned_, 0, kLarge);
  }

  ::testing::AssertionResult Seen() const {
    for (size_t i = 0; i < kSmall; ++i) {
      if (pinned_[i] != 7) return ::testing::AssertionFailure() << "the host does not see byte " << i;
    }
    return ::testing::AssertionSuccess();
  }
};

#if !RULES_STATIC
// A library comes in that is linked to a libcudart of a release that slipstream does not know. What it does by that is
// not seen: from here on every call is the program's own.
TEST_F(Newer, S66_ARuntimeThatComesLater) {
  using Copies = cudaError_t(void*, const void*, size_t, cudaStream_t);
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
  void* const runtime = dlopen(SIM_NEWER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(runtime, nullptr) << dlerror();
  auto* const copies = reinterpret_cast<Copies*>(dlsym(runtime, "cudaMemcpyTeleportAsync"));
  ASSERT_NE(copies, nullptr) << dlerror();
  (void)__cudaRegisterFatBinary(nullptr);

  OK(cudaStreamQuery(a_));  // whatever it would have answered: what was deferred is settled
  EXPECT_EQ(Pending(a_), 0);
  Backlog(a_);
  OK(copies(pinned_, other_, kSmall, a_));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "h2d.declined.context", 1);
  DECIDED(tally, "sync.skipped", 1);
}
#endif

// A kernel writes a __managed__ variable, which the host reads behind the synchronization.
TEST_F(Newer, S11_AManagedVariable) {
#if RULES_STATIC
  GTEST_SKIP() << "its registration is not seen: the runtime is the program's own";
#endif
  void* variable = nullptr;
  __cudaRegisterManagedVar(nullptr, &variable, nullptr, "variable", 0, kSmall, 0, 0);
  OK(cudaDeviceSynchronize());
  std::thread([] {
    OK(cudaSetDevice(0));
    OK(cudaDeviceSynchronize());
  }).join();  // a thread's first call makes it
  ASSERT_NE(variable, nullptr);
  std::memset(variable, 0, kSmall);
  const Tally tally("transfer");
  Backlog(a_);
  OK(LaunchFill(variable, kSmall, 7, a_));
  CopyAndSynchronize(a_);
  std::memcpy(pinned_, variable, kSmall);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.kept.mapped", 1);
}

#if RULES_CUDART == 13
TEST_F(Newer, S10_ACopyWithAttributes) {
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaMemcpyWithAttributesAsync(pinned_, other_, kSmall, &attributes, a_));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.skipped", 0);
}

TEST_F(Newer, S10_A3DCopyWithAttributes) {
  cudaMemcpy3DBatchOp operation = {};
  operation.src.type = operation.dst.type = cudaMemcpyOperandTypePointer;
  operation.src.op.ptr.ptr = other_;
  operation.dst.op.ptr.ptr = pinned_;
  operation.extent = {kSmall, 1, 1};
  operation.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaMemcpy3DWithAttributesAsync(&operation, 0, a_));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.skipped", 0);
}

TEST_F(Newer, S10_AHostFunctionWithAWayOfWaiting) {
  const Tally tally("transfer");
  Backlog(a_);
  OK(cudaLaunchHostFunc_v2(
      a_, [](void* where) { std::memset(where, 7, kSmall); }, pinned_, 0));
  CopyAndSynchronize(a_);
  EXPECT_TRUE(Seen());
  DECIDED(tally, "sync.skipped", 0);
}

TEST_F(Newer, S13_AnExecutionContextIsWaitedFor) {
  void* context = nullptr;
  OK(cudaDeviceGetExecutionCtx(&context, 0));
  DeferOnA();
  const Tally tally("transfer");
  OK(cudaExecutionCtxSynchronize(context));
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.settled.synchronize", 1);
}

TEST_F(Newer, S12contexts_AGreenContext) {
#if RULES_STATIC
  GTEST_SKIP() << "the simulated runtime makes none of the driver's";
#endif
  void* context = nullptr;
  OK(cudaGreenCtxCreate(&context, nullptr, 0, 0));
  cudaStream_t stream = nullptr;
  OK(cudaExecutionCtxStreamCreate(&stream, context, cudaStreamNonBlocking, 0));
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.kept.contexts", 1);
  OK(cudaStreamDestroy(stream));
}

// Another thread has deferred; this one asks about what lies behind the work of every stream, or begins what needs all
// settled.
class NewerQuestions : public AnotherDefers {};

TEST_F(NewerQuestions, S63_AnEventBehindTheWorkOfAllStreams) {
  void* context = nullptr;
  cudaEvent_t event = nullptr;
  OK(cudaDeviceGetExecutionCtx(&context, 0));
  OK(cudaEventCreate(&event));
  Backlog(a_);
  OK(cudaExecutionCtxRecordEvent(context, event));
  AnotherDefersOn(a_);
  // It is no part of a_, so that a program without the engine may have to ask again; but never for as long as the
  // backlog.
  cudaError_t answer = cudaErrorNotReady;
  for (int i = 0; i < 3 && answer == cudaErrorNotReady; ++i) answer = cudaEventQuery(event);
  RETURNS(cudaSuccess, answer);
}

TEST_F(NewerQuestions, S13all_AGraphThatIsCapturedAgain) {
  cudaGraph_t graph = nullptr;
  OnAnotherThread([this, &graph] {
    OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeRelaxed));
    OK(LaunchFill(other_, 1, 1, b_));
    OK(cudaStreamEndCapture(b_, &graph));
  });
  AnotherDefersOn(a_);
  OK(cudaStreamBeginRecaptureToGraph(b_, cudaStreamCaptureModeRelaxed, graph, nullptr));
  EXPECT_EQ(Pending(a_), 0);
  OK(LaunchFill(other_, 1, 1, b_));
  OK(cudaStreamEndCapture(b_, &graph));
}
#endif

}  // namespace
}  // namespace rules
