// S77, S78: a fault of a copy's source is the calling thread's, its handler runs there, and may leave by siglongjmp.
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

constexpr size_t kPage = 4096;

struct Handled {
  sigjmp_buf back;
  bool repairs = false;  // instead of leaving
  uint8_t* memory = nullptr;
  std::atomic<int> faults{0};
  std::atomic<pid_t> thread{0};
};
Handled g_handled;

void OnFault(int, siginfo_t* info, void*) {
  g_handled.thread.store(gettid());
  ++g_handled.faults;
  if (!g_handled.repairs) siglongjmp(g_handled.back, 1);
  // What a program does that fills its memory when it is first read.
  auto* const page = reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(info->si_addr) / kPage * kPage);
  mprotect(page, kPage, PROT_READ | PROT_WRITE);
  std::memset(page, static_cast<int>((page - g_handled.memory) / kPage % 251), kPage);
}

// The program's, for as long as it lives.
class Handler {
 public:
  explicit Handler(bool repairs) {
    g_handled.repairs = repairs;
    g_handled.faults = 0;
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    EXPECT_EQ(sigaction(SIGSEGV, &action, &segv_), 0);
    EXPECT_EQ(sigaction(SIGBUS, &action, &bus_), 0);
  }
  ~Handler() {
    sigaction(SIGSEGV, &segv_, nullptr);
    sigaction(SIGBUS, &bus_, nullptr);
  }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  struct sigaction segv_ = {};
  struct sigaction bus_ = {};
};

// With a large frame between this one and that of `call`, of which nothing is written: what calls have left there
// stays.
template <size_t kBytes>
[[gnu::noinline]] void BelowUnusedBytes(const std::function<void()>& call) {
  [[maybe_unused]] volatile char unused[kBytes];
  call();
  unused[kBytes - 1] = 0;  // there until here
}

class Fault : public Rule {
 protected:
  // The copy faults on this thread, and the handler leaves it.
  template <typename Copy>
  static void ExpectLeft(const Copy& copy) {
    const int before = g_handled.faults;
    if (sigsetjmp(g_handled.back, 1) == 0) {
      BelowUnusedBytes<(32 << 10)>(copy);
      ADD_FAILURE() << "it was read";
    }
    EXPECT_EQ(g_handled.faults, before + 1);
    EXPECT_EQ(g_handled.thread, gettid());
  }
  // Of `bytes`, of which one page in the middle cannot be read.
  static uint8_t* WithHole(size_t bytes) {
    void* const memory = mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    std::memset(memory, 7, bytes);
    EXPECT_EQ(mprotect(static_cast<uint8_t*>(memory) + bytes / 2 / kPage * kPage, kPage, PROT_NONE), 0);
    return static_cast<uint8_t*>(memory);
  }
  // Of a file that has been cut since.
  static uint8_t* CutFile(size_t bytes) {
    const int file = memfd_create("source", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(memory, MAP_FAILED);
    std::memset(memory, 7, bytes);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes - kPage)), 0);
    close(file);
    return static_cast<uint8_t*>(memory);
  }
  // What a thread does afterwards that nothing has happened to.
  void ExpectGoesOn() {
    const Tally tally("transfer");
    for (const size_t bytes : {kSmall, kLarge, kHuge}) {
      const auto pattern = Pattern(bytes, static_cast<uint32_t>(bytes) + 1);
      OK(CopyUp(device_, pattern.data(), bytes, a_));
      OK(cudaStreamSynchronize(a_));
      OK(cudaDeviceSynchronize());
      EXPECT_TRUE(Holds(device_, pattern));
    }
    DECIDED(tally, "h2d.promoted.small", 1);
    DECIDED(tally, "h2d.promoted.large", 2);
    DECIDED_AT_LEAST(tally, "sync.skipped", 1);
  }
};

TEST_F(Fault, S77_S78_AHandlerMayLeaveACopyByAJump) {
  WarmUp();
  ExpectGoesOn();
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    SCOPED_TRACE(bytes);
    uint8_t* const hole = WithHole(2 * bytes);
    uint8_t* const cut = CutFile(2 * bytes);
    {
      const Handler handler(false);
      // More often than there is staging memory to lose.
      for (int i = 0; i < 40; ++i) {
        ExpectLeft([&] { (void)CopyUp(device_, hole + bytes / 2, bytes, a_); });
        ExpectLeft([&] { (void)cudaMemcpy(device_, cut + bytes, bytes, cudaMemcpyHostToDevice); });
        if (HasFailure()) break;
      }
    }
    BelowUnusedBytes<(64 << 10)>([&] { ExpectGoesOn(); });
  }
}

TEST_F(Fault, S77_AHandlerMayRepairWhatCannotBeRead) {
  WarmUp();
  for (const size_t bytes : {kSmall, kLarge, kHuge}) {
    SCOPED_TRACE(bytes);
    auto* const memory = static_cast<uint8_t*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    const Handler handler(true);
    g_handled.memory = memory;
    OK(CopyUp(device_, memory, bytes, a_));
    OK(cudaStreamSynchronize(a_));
    OK(cudaDeviceSynchronize());
    EXPECT_EQ(static_cast<size_t>(g_handled.faults), bytes / kPage);
    EXPECT_EQ(g_handled.thread, gettid());
    EXPECT_TRUE(Holds(device_, std::vector<uint8_t>(memory, memory + bytes)));
    EXPECT_EQ(memory[bytes - 1], (bytes / kPage - 1) % 251);
  }
}

// It may be cancelled as before.
TEST_F(Fault, S78_AThreadThatAHandlerHasTakenOutOfACall) {
  WarmUp();
  struct Shared {
    std::function<void()> leave;
    std::function<void()> copy;
    std::atomic<bool> left{false};
  } shared;
  uint8_t* const hole = WithHole(2 * kSmall);
  const Handler handler(false);
  shared.leave = [&] { ExpectLeft([&] { (void)CopyUp(device_, hole + kSmall / 2, kSmall, a_); }); };
  shared.copy = [&] { OK(cudaMemcpy(device_, source_.data(), kSmall, cudaMemcpyHostToDevice)); };
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void* argument) -> void* {
                  auto* const all = static_cast<Shared*>(argument);
                  all->leave();
                  int state = -1;
                  all->copy();
                  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
                  EXPECT_EQ(state, PTHREAD_CANCEL_ENABLE);
                  all->left.store(true);
                  for (;;) {
                    all->copy();
                    pthread_testcancel();  // bare, there is no other
                  }
                },
                &shared),
            0);
  while (!shared.left.load()) std::this_thread::yield();
  ASSERT_EQ(pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

}  // namespace
}  // namespace rules
