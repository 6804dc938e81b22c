// S65: a thread with work of its own is not held behind another one's skipped synchronization. S74: nor is one that
// also works on the stream which was to be waited for.
#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class OwnWork : public Rule {
 protected:
  // Submits work to streams, on a thread that goes on until the test is over.
  class Worker {
   public:
    Worker() : thread_([this] { Run(); }) {}
    ~Worker() {
      Do(nullptr);
      thread_.join();
    }
    // Returns when the thread has done it.
    void Do(const std::function<void()>& work) {
      std::unique_lock lock(mutex_);
      work_ = &work;
      changed_.notify_all();
      changed_.wait(lock, [this] { return work_ == nullptr; });
    }

   private:
    void Run() {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      for (bool more = true; more;) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return work_ != nullptr; });
        more = static_cast<bool>(*work_);
        if (more) (*work_)();
        work_ = nullptr;
        changed_.notify_all();
      }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* work_ = nullptr;
    std::thread thread_;
  };

  // A blocking copy behind other work; the device is behind it when it returns, or that is still deferred.
  void CopyBehindWork(size_t bytes = kLarge) {
    Backlog(a_);
    CopyAndSynchronize(a_, bytes);
  }
  void FillOn(cudaStream_t stream) { EXPECT_EQ(LaunchFill(other_, kSmall, 1, stream), cudaSuccess); }
};

TEST_F(OwnWork, S65_AThreadOnAStreamOfItsOwn) {
  Worker worker;
  const Tally tally("transfer");
  CopyBehindWork();
  DECIDED(tally, "sync.skipped", 1);
  OK(cudaDeviceSynchronize());
  worker.Do([&] { FillOn(b_); });
  for (int i = 0; i < 3; ++i) {
    CopyBehindWork();
    EXPECT_EQ(Pending(a_), 0);
    // Its work waits for nobody.
    worker.Do([&] {
      FillOn(b_);
      EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
    });
  }
  DECIDED(tally, "sync.kept.threads", 3);
  DECIDED(tally, "sync.skipped", 1);
}

TEST_F(OwnWork, S65_EveryWayToSubmitWork) {
  uint8_t* pinned = pinned_;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  OK(cudaStreamBeginCapture(b_, cudaStreamCaptureModeThreadLocal));
  OK(LaunchFill(other_, kSmall, 1, b_));
  OK(cudaStreamEndCapture(b_, &graph));
  OK(cudaGraphInstantiate(&executable, graph, 0));
  const std::function<cudaError_t()> ways[] = {
      [&] { return LaunchFill(other_, kSmall, 1, b_); },
      [&] { return cudaMemsetAsync(other_, 0, kSmall, b_); },
      [&] { return cudaMemcpyAsync(other_, third_, kSmall, cudaMemcpyDeviceToDevice, b_); },
      [&] { return cudaMemcpyAsync(other_, pinned, kSmall, cudaMemcpyHostToDevice, b_); },
      [&] { return cudaGraphLaunch(executable, b_); },
      [&] { return LaunchFill(other_, kSmall, 1, cudaStreamPerThread); },
  };
  for (const auto& way : ways) {
    SCOPED_TRACE(&way - ways);
    Worker worker;
    worker.Do([&] { EXPECT_EQ(way(), cudaSuccess); });
    OK(cudaDeviceSynchronize());
    const Tally tally("transfer");
    CopyBehindWork();
    EXPECT_EQ(Pending(a_), 0);
    DECIDED(tally, "sync.kept.threads", 1);
  }
}

// Nothing is to be gained from a small copy whose synchronization is made: it is the program's own.
TEST_F(OwnWork, S65_ASmallCopyIsLeftAlone) {
  Worker worker;
  worker.Do([&] { FillOn(b_); });
  OK(cudaDeviceSynchronize());
  const Tally tally("transfer");
  constexpr size_t kLongestSmall = size_t{64} << 10;
  CopyBehindWork(kLongestSmall);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "h2d.declined.threads", 1);
  CopyBehindWork(kLongestSmall + 1);
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.threads", 1);
}

// Per-thread default streams have one name.
TEST_F(OwnWork, S65_ThePerThreadDefaultStreamIsEachThreadsOwn) {
  Worker worker;
  worker.Do([&] { FillOn(cudaStreamPerThread); });
  OK(cudaDeviceSynchronize());
  const Tally tally("transfer");
  Backlog(cudaStreamPerThread);
  CopyAndSynchronize(cudaStreamPerThread, kLarge);
  EXPECT_EQ(Pending(cudaStreamPerThread), 0);
  DECIDED(tally, "sync.kept.threads", 1);
}

// As autograd's threads do.
TEST_F(OwnWork, S65_AThreadOnTheSameStreamHelps) {
  Worker worker;
  worker.Do([&] { FillOn(a_); });
  const Tally tally("transfer");
  CopyBehindWork();
  DECIDED(tally, "sync.skipped", 1);
  worker.Do([&] { FillOn(a_); });
  CopyBehindWork();
  DECIDED(tally, "sync.skipped", 2);
  OK(cudaDeviceSynchronize());
}

// Whatever the work is.
TEST_F(OwnWork, S74_AThreadThatIsKnownByAnyWorkOnAnotherStream) {
  const auto value = reinterpret_cast<CUdeviceptr>(pinned_);
  void* memory = nullptr;
  const std::vector<std::pair<const char*, std::function<void()>>> works = {
      {"cuStreamWriteValue32", [&] { EXPECT_EQ(cuStreamWriteValue32(b_, value, 1, 0), CUDA_SUCCESS); }},
      {"cuStreamWaitValue32",
       [&] { EXPECT_EQ(cuStreamWaitValue32(b_, value, 0, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS); }},
      {"cudaMallocAsync", [&] { EXPECT_EQ(cudaMallocAsync(&memory, kSmall, b_), cudaSuccess); }},
      {"cudaFreeAsync", [&] { EXPECT_EQ(cudaFreeAsync(memory, b_), cudaSuccess); }},
  };
  for (const auto& [name, work] : works) {
    SCOPED_TRACE(name);
    Worker worker;
    worker.Do(work);
    OK(cudaDeviceSynchronize());
    const Tally tally("transfer");
    CopyBehindWork();
    EXPECT_EQ(Pending(a_), 0);
    DECIDED(tally, "sync.kept.threads", 1);
  }
}

// What the copy's stream waits for may be what such a thread submits to the other one.
TEST_F(OwnWork, S74_AThreadOnBothStreams) {
  Worker worker;
  worker.Do([&] {
    FillOn(a_);
    FillOn(b_);
  });
  OK(cudaDeviceSynchronize());
  const Tally tally("transfer");
  CopyBehindWork();
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.threads", 1);
  worker.Do([&] { FillOn(a_); });
  CopyBehindWork();
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.threads", 2);
  NEVER_DECIDED(tally, "sync.skipped");
}

// The copy is behind work that goes on when such a thread has submitted more, which it does once this thread waits or
// has gone on without.
TEST_F(OwnWork, S74_ItSubmitsWhatIsAwaited) {
  constexpr uint32_t kSet = 0x01010101;
  auto* const flag = reinterpret_cast<volatile uint32_t*>(pinned_);
  OK(cuStreamWaitValue32(a_, reinterpret_cast<CUdeviceptr>(pinned_), kSet, CU_STREAM_WAIT_VALUE_EQ));
  std::promise<void> known;
  std::atomic<bool> waited{false};
  auto other = std::async(std::launch::async, [&] {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    FillOn(a_);
    FillOn(b_);
    known.set_value();
    while (!waited && simStuckWaits() == 0) std::this_thread::yield();
    EXPECT_EQ(cudaMemsetAsync(pinned_, kSet & 0xFF, sizeof kSet, b_), cudaSuccess);
    return cudaStreamSynchronize(b_);
  });
  known.get_future().wait();
  CopyAndSynchronize(a_);
  waited = true;
  EXPECT_EQ(other.wait_for(Patience()), std::future_status::ready) << "what it submitted waits for what waits for it";
  *flag = kSet;
  EXPECT_EQ(other.get(), cudaSuccess);
}

// Before the program's first copy, too.
class ColdOwnWork : public OwnWork {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(Prepare()); }
};
TEST_F(ColdOwnWork, S74_AThreadThatWorkedBeforeTheFirstCopy) {
  Worker worker;
  worker.Do([&] { FillOn(b_); });
  WarmUp();
  const Tally tally("transfer");
  CopyBehindWork();
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.threads", 1);
}

#if RULES_STATIC
// At the driver level libraries are seen too. What a collective submits on its own streams belongs to the step.
class WorkOfLibraries : public OwnWork {
 protected:
  // A thread on the step's stream has the library work on another one.
  void HaveItWork(Worker* worker, const char* library) {
    void* const handle = dlopen(library, RTLD_NOW);
    ASSERT_NE(handle, nullptr) << dlerror();
    auto* const submit = reinterpret_cast<int (*)(cudaStream_t)>(dlsym(handle, "SubmitTo"));
    ASSERT_NE(submit, nullptr);
    worker->Do([&] {
      FillOn(a_);
      EXPECT_EQ(submit(b_), 0);
    });
    OK(cudaDeviceSynchronize());
  }
};

TEST_F(WorkOfLibraries, S74_ACollectivesStreamsAreNoReason) {
  Worker worker;
  HaveItWork(&worker, FAKE_NCCL);
  const Tally tally("transfer");
  CopyBehindWork();
  DECIDED(tally, "sync.skipped", 1);
  OK(cudaDeviceSynchronize());
}

TEST_F(WorkOfLibraries, S74_AnyOtherLibrarysAre) {
  Worker worker;
  HaveItWork(&worker, FAKE_MAPPER);
  const Tally tally("transfer");
  CopyBehindWork();
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.threads", 1);
}
#endif

TEST_F(OwnWork, S65_TheThreadsOwnOtherStreams) {
  FillOn(b_);
  const Tally tally("transfer");
  CopyBehindWork();
  DECIDED(tally, "sync.skipped", 1);
  OK(cudaDeviceSynchronize());
}

TEST_F(OwnWork, S65_UntilThatEnds) {
  {
    Worker worker;
    worker.Do([&] { FillOn(b_); });
    OK(cudaDeviceSynchronize());
    const Tally tally("transfer");
    CopyBehindWork();
    DECIDED(tally, "sync.kept.threads", 1);
    // A thousand blocking copies without anything from it.
    for (int i = 0; i < 1000; ++i) CopyAndSynchronize(a_, 16);
    DECIDED_AT_LEAST(tally, "h2d.declined.threads", 1000);
    OK(cudaDeviceSynchronize());
    const Tally later("transfer");
    CopyBehindWork();
    DECIDED(later, "sync.skipped", 1);
    OK(cudaDeviceSynchronize());
    worker.Do([&] { FillOn(b_); });
    OK(cudaDeviceSynchronize());
    CopyBehindWork();
    DECIDED(later, "sync.kept.threads", 1);
  }
  // The thread has ended.
  const Tally tally("transfer");
  CopyBehindWork();
  DECIDED(tally, "sync.skipped", 1);
  OK(cudaDeviceSynchronize());
}

// More threads than anybody counts.
TEST_F(OwnWork, S65_ManyThreads) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 300; ++i) {
    workers.push_back(std::make_unique<Worker>());
    workers.back()->Do([&] { FillOn(i % 2 == 0 ? a_ : b_); });
  }
  OK(cudaDeviceSynchronize());
  const Tally tally("transfer");
  CopyBehindWork();
  EXPECT_EQ(Pending(a_), 0);
  DECIDED(tally, "sync.kept.threads", 1);
}

}  // namespace
}  // namespace rules
