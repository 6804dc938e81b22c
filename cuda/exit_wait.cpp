#include "cuda/exit_wait.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>

#include "policy/helper_thread.h"

namespace slipstream::cuda {

bool ExitWait::Start(CUcontext context) {
  context_ = context;
  started_ = sem_init(&ends_, 0, 0) == 0 && sem_init(&answered_, 0, 0) == 0 &&
             policy::StartHelperThread("slipstream-end", Run, this);
  return started_;
}

CUresult ExitWait::Wait() {
  if (!started_ || count_ == 0) return CUDA_SUCCESS;
  (void)sem_post(&ends_);
  while (!done_.load(std::memory_order_acquire)) {
    timespec end = {};
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += kLongestAnswer.count();
    int waited = 0;
    while ((waited = sem_timedwait(&answered_, &end)) != 0 && errno == EINTR) {
    }
    if (waited != 0) return CUDA_SUCCESS;  // it stands where the calling thread was stopped
  }
  return result_.load(std::memory_order_relaxed);
}

void* ExitWait::Run(void* self) {
  auto* const wait = static_cast<ExitWait*>(self);
  while (sem_wait(&wait->ends_) != 0 && errno == EINTR) {
  }
  wait->result_.store(wait->WaitHere(), std::memory_order_relaxed);
  wait->done_.store(true, std::memory_order_release);
  (void)sem_post(&wait->answered_);
  return nullptr;
}

CUresult ExitWait::Answered(CUresult answer) {
  (void)sem_post(&answered_);
  return answer;
}

CUresult ExitWait::WaitHere() {
  constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::microseconds(500);
  (void)Answered(driver_.cuCtxSetCurrent(context_));
  const auto end = std::chrono::steady_clock::now() + kLongest;
  for (size_t i = 0; i < count_; ++i) {
    std::chrono::nanoseconds sleep = std::chrono::microseconds(10);
    CUresult answer = Answered(fences_[i].Ask());
    while (answer == CUDA_ERROR_NOT_READY) {
      if (std::chrono::steady_clock::now() >= end) return CUDA_SUCCESS;
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, kLongestSleep);
      answer = Answered(fences_[i].Ask());
    }
    if (answer != CUDA_SUCCESS) return answer;
  }
  return Answered(fences_[count_ - 1].Synchronize());
}

}  // namespace slipstream::cuda
