// The simulated CUPTI: as strict as the real one, or tests with it prove nothing.
#include <cupti.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/sim_test.h"

extern "C" int StaticLibraryLaunch(const void* function, void** args, cudaStream_t stream);
extern "C" uint64_t simCuptiViolations(void);

namespace simtest {
namespace {

// What one client of the activity API was given; by itself it gives buffers of 1 KiB.
struct Delivered {
  std::mutex mutex;
  std::map<uint32_t, std::string> kernels;  // by correlation
  std::vector<uint64_t> copied;
  std::vector<uint64_t> set;
  std::vector<CUpti_ActivitySynchronization2> waits;
  int buffers = 0;
  uint64_t first_start = 0;
  std::thread::id thread;
  bool calls_cupti = false;
};

Delivered g_delivered[2];
constexpr size_t kBufferBytes = 1024;

void CUPTIAPI Request(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, kBufferBytes));
  *size = kBufferBytes;
  *most = 0;
}

template <int kClient>
void CUPTIAPI Complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Delivered& delivered = g_delivered[kClient];
  const std::lock_guard guard(delivered.mutex);
  ++delivered.buffers;
  delivered.thread = std::this_thread::get_id();
  if (delivered.calls_cupti) {
    EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
  }
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* const kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      delivered.kernels[kernel->correlationId] = kernel->name;
      delivered.first_start = delivered.first_start == 0 ? kernel->start : delivered.first_start;
      EXPECT_LE(kernel->start, kernel->end);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      delivered.copied.push_back(reinterpret_cast<const CUpti_ActivityMemcpy6*>(record)->bytes);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) {
      delivered.waits.push_back(*reinterpret_cast<const CUpti_ActivitySynchronization2*>(record));
    } else {
      delivered.set.push_back(reinterpret_cast<const CUpti_ActivityMemset4*>(record)->bytes);
    }
  }
  std::free(buffer);
}

struct Heard {
  std::map<uint32_t, std::string> entered;  // by correlation
  std::map<uint32_t, int> left;
};

void CUPTIAPI OnCall(void* user, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  const auto* const call = static_cast<const CUpti_CallbackData*>(data);
  auto* const heard = static_cast<Heard*>(user);
  if (call->callbackSite == CUPTI_API_ENTER) {
    heard->entered[call->correlationId] = call->functionName;
  } else {
    heard->left[call->correlationId] = *static_cast<const int*>(call->functionReturnValue);
  }
}

class CuptiTest : public Sim {
 protected:
  void SetUp() override {
    Sim::SetUp();
    for (Delivered& delivered : g_delivered) {
      delivered.kernels.clear();
      delivered.copied.clear();
      delivered.set.clear();
      delivered.waits.clear();
      delivered.buffers = 0;
      delivered.first_start = 0;
      delivered.calls_cupti = false;
    }
  }
  void TearDown() override {
    simQuiesce();
    cuptiActivityFlushAll(1);  // the last buffer comes back
    cuptiFinalize();
  }

  template <int kClient>
  void Start() {
    OK(cuptiActivityRegisterCallbacks(Request, Complete<kClient>));
    for (const CUpti_ActivityKind kind :
         {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
      OK(cuptiActivityEnable(kind));
    }
  }

  Log log_;
};

TEST_F(CuptiTest, OneSubscriberAtATime) {
  Heard heard;
  CUpti_SubscriberHandle first = nullptr;
  CUpti_SubscriberHandle second = nullptr;
  OK(cuptiSubscribe(&first, OnCall, &heard));
  RETURNS(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, cuptiSubscribe(&second, OnCall, &heard));
  RETURNS(CUPTI_ERROR_INVALID_PARAMETER, cuptiUnsubscribe(second));
  OK(cuptiUnsubscribe(first));
  OK(cuptiSubscribe(&second, OnCall, &heard));
  OK(cuptiUnsubscribe(second));
}

TEST_F(CuptiTest, TheNumberOfACallIsThatOfItsWorkForAStaticRuntimeToo) {
  Heard heard;
  CUpti_SubscriberHandle subscriber = nullptr;
  OK(cuptiSubscribe(&subscriber, OnCall, &heard));
  OK(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
  Start<0>();
  Log* pointer = &log_;
  int what = 1;
  void* args[] = {&pointer, &what};
  OK(LaunchAppend(&log_, 2, a_));
  OK(StaticLibraryLaunch(Address(&Append), args, a_));
  OK(cudaStreamSynchronize(a_));
  OK(simLaunchUnseen(Address(&Append), 1, 1, args, b_));
  OK(simSynchronizeUnseen(b_));
  OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(heard.entered.size(), 2u);
  EXPECT_EQ(heard.left.size(), 2u);
  EXPECT_EQ(g_delivered[0].kernels.size(), 3u) << "one of them is nobody's";
  for (const auto& [correlation, function] : heard.entered) {
    EXPECT_EQ(function, "cuLaunchKernel");
    EXPECT_EQ(g_delivered[0].kernels[correlation], "append");
    EXPECT_EQ(heard.left[correlation], 0);
  }
  OK(cuptiUnsubscribe(subscriber));
}

TEST_F(CuptiTest, ASynchronizationIsOneRecordWithTheNumberOfItsCall) {
  Heard heard;
  CUpti_SubscriberHandle subscriber = nullptr;
  OK(cuptiSubscribe(&subscriber, OnCall, &heard));
  for (const CUpti_CallbackId function :
       {CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize,
        CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize}) {
    OK(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, function));
  }
  Start<0>();
  OK(cudaStreamSynchronize(a_));  // nobody has asked for its kind
  heard.entered.clear();
  OK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
  cudaEvent_t event = nullptr;
  OK(cudaEventCreate(&event));
  OK(cudaEventRecord(event, a_));
  OK(cudaStreamWaitEvent(b_, event, 0));
  OK(cudaStreamSynchronize(a_));
  OK(cudaEventSynchronize(event));
  OK(cudaEventQuery(event));
  OK(cudaDeviceSynchronize());
  OK(cuptiActivityFlushAll(0));
  constexpr uint32_t kNone = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  const std::map<std::string, int> types = {
      {"cuEventSynchronize", 1}, {"cuStreamWaitEvent", 2}, {"cuStreamSynchronize", 3}, {"cuCtxSynchronize", 4}};
  ASSERT_EQ(g_delivered[0].waits.size(), 4u);
  EXPECT_EQ(heard.entered.size(), 4u);
  for (const CUpti_ActivitySynchronization2& wait : g_delivered[0].waits) {
    ASSERT_EQ(heard.entered.count(wait.correlationId), 1u);
    EXPECT_EQ(types.at(heard.entered[wait.correlationId]), static_cast<int>(wait.type));
    EXPECT_EQ(wait.streamId == kNone, wait.type == 1 || wait.type == 4) << wait.type;
    EXPECT_EQ(wait.cudaEventId == kNone, wait.type == 3 || wait.type == 4) << wait.type;
    EXPECT_EQ(wait.contextId, 1u);
    EXPECT_LE(wait.start, wait.end);
  }
  OK(cudaEventDestroy(event));
  OK(cuptiUnsubscribe(subscriber));
}

TEST_F(CuptiTest, RecordsComeWhenABufferIsFullOrFlushedOnAThreadOfCuptis) {
  Start<0>();
  OK(LaunchAppend(&log_, 1, a_));
  OK(cudaStreamSynchronize(a_));
  {
    const std::lock_guard guard(g_delivered[0].mutex);
    EXPECT_EQ(g_delivered[0].buffers, 0);
  }
  OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(g_delivered[0].kernels.size(), 1u);
  EXPECT_NE(g_delivered[0].thread, std::this_thread::get_id());
  for (int i = 0; i < 100; ++i) {
    OK(LaunchAppend(&log_, 1, a_));
  }
  OK(cudaMemcpyAsync(device_, pageable_.data(), 1000, cudaMemcpyHostToDevice, a_));
  OK(cudaMemsetAsync(device_, 0, 77, a_));
  OK(LaunchAppend(&log_, 1, a_));  // nobody waits for it
  OK(cudaStreamSynchronize(a_));
  OK(LaunchAppend(&log_, 1, a_));
  OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(g_delivered[0].kernels.size(), 102u) << "what has not run has no record";
  EXPECT_GT(g_delivered[0].buffers, 10);
  EXPECT_EQ(g_delivered[0].copied, std::vector<uint64_t>{1000});
  EXPECT_EQ(g_delivered[0].set, std::vector<uint64_t>{77});
}

TEST_F(CuptiTest, TheLastRegistrationTakesTheBuffers) {
  Start<0>();
  OK(LaunchAppend(&log_, 1, a_));
  OK(cudaStreamSynchronize(a_));
  Start<1>();
  OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(g_delivered[0].buffers, 0);
  EXPECT_EQ(g_delivered[1].kernels.size(), 1u) << "that of the first client";
}

TEST_F(CuptiTest, ABufferCallbackMayNotCallCupti) {
  g_delivered[0].calls_cupti = true;
  const uint64_t before = simCuptiViolations();
  Start<0>();
  OK(LaunchAppend(&log_, 1, a_));
  OK(cudaStreamSynchronize(a_));
  OK(cuptiActivityFlushAll(0));
  EXPECT_EQ(simCuptiViolations(), before + 1);
}

// cupti_activity.h: the stack is the thread's own, one for each kind.
TEST_F(CuptiTest, ExternalCorrelationIsAStackOfTheThread) {
  constexpr auto kOne = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  uint64_t last = 0;
  RETURNS(CUPTI_ERROR_QUEUE_EMPTY, cuptiActivityPopExternalCorrelationId(kOne, &last));
  OK(cuptiActivityPushExternalCorrelationId(kOne, 1));
  OK(cuptiActivityPushExternalCorrelationId(kOne, 2));
  OK(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, 3));
  std::thread([] { RETURNS(CUPTI_ERROR_QUEUE_EMPTY, cuptiActivityPopExternalCorrelationId(kOne, nullptr)); }).join();
  OK(cuptiActivityPopExternalCorrelationId(kOne, &last));
  EXPECT_EQ(last, 2u);
  OK(cuptiActivityPopExternalCorrelationId(kOne, nullptr));
  RETURNS(CUPTI_ERROR_QUEUE_EMPTY, cuptiActivityPopExternalCorrelationId(kOne, &last));
  OK(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1, &last));
  EXPECT_EQ(last, 3u);
  RETURNS(CUPTI_ERROR_INVALID_PARAMETER,
          cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_INVALID, 1));
  RETURNS(CUPTI_ERROR_INVALID_PARAMETER,
          cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_SIZE, &last));
}

TEST_F(CuptiTest, ResultsHaveNames) {
  const char* text = nullptr;
  OK(cuptiGetResultString(CUPTI_ERROR_QUEUE_EMPTY, &text));
  EXPECT_STREQ(text, "CUPTI_ERROR_QUEUE_EMPTY");
  OK(cuptiGetResultString(CUPTI_SUCCESS, &text));
  EXPECT_STREQ(text, "CUPTI_SUCCESS");
  RETURNS(CUPTI_ERROR_INVALID_PARAMETER, cuptiGetResultString(CUPTI_SUCCESS, nullptr));
  RETURNS(CUPTI_ERROR_INVALID_PARAMETER, cuptiGetResultString(static_cast<CUptiResult>(998), &text));
}

TEST_F(CuptiTest, ItsClockIsAnother) {
  uint64_t before = 0;
  uint64_t after = 0;
  OK(cuptiGetTimestamp(&before));
  Start<0>();
  OK(LaunchAppend(&log_, 1, a_));
  OK(cudaStreamSynchronize(a_));
  OK(cuptiGetTimestamp(&after));
  OK(cuptiActivityFlushAll(0));
  EXPECT_GE(g_delivered[0].first_start, before);
  EXPECT_LE(g_delivered[0].first_start, after);
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  EXPECT_GT(before, static_cast<uint64_t>(now.tv_sec + 1000) * 1000000000u);
}

}  // namespace
}  // namespace simtest
