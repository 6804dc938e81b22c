// K1, K4: large blocks of host memory that PyTorch frees and allocates again. tests/transfer/kept_blocks_test.cpp has
// the bounds (K2) and pinned memory (K3).
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "tests/preload/transfer/rule_test.h"
#include "tests/support/plain_build.h"

namespace rules {
namespace {

constexpr size_t kBytes = size_t{6} << 20;

class KeptBlocks : public Rule {
 protected:
  void SetUp() override {
    Rule::SetUp();
    void* const library = dlopen(FAKE_C10, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto find = [&](auto** function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
      ASSERT_NE(*function, nullptr) << name;
    };
    find(&tensor_, "FakeTensor");
    find(&drop_, "FakeDrop");
    find(&allocated_, "FakeAllocated");
    find(&freed_, "FakeFreed");
    find(&zero_fill_, "FLAGS_caffe2_cpu_allocator_do_zero_fill");
  }
  void TearDown() override { *zero_fill_ = false; }

  // Sanitizers have allocators of their own (K6).
  static bool Keeps() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return Engine() && std::getenv("KEEPS_NOTHING") == nullptr;
#endif
  }
  void* Tensor(size_t bytes, uint8_t value) {
    bool failed = false;
    void* const memory = tensor_(bytes, &failed);
    EXPECT_FALSE(failed);
    std::memset(memory, value, bytes);
    return memory;
  }
  // Once, of a size that was never asked for; the second one comes by the allocator if nothing is kept.
  int AllocatedForTwo(size_t bytes) {
    const int before = allocated_();
    void* const first = Tensor(bytes, 1);
    Good(CopyUp(device_, first, kLarge, a_));
    drop_(first);
    void* const second = Tensor(bytes, 2);
    Good(CopyUp(device_, second, kLarge, a_));
    Good(cudaStreamSynchronize(a_));
    drop_(second);
    return allocated_() - before;
  }
  static void Good(cudaError_t result) { ASSERT_EQ(result, cudaSuccess); }

  void* (*tensor_)(size_t, bool*) = nullptr;
  void (*drop_)(void*) = nullptr;
  int (*allocated_)() = nullptr;
  int (*freed_)() = nullptr;
  bool* zero_fill_ = nullptr;
};

TEST_F(KeptBlocks, K1_ComeWithTheirPages) {
  WarmUp();
  const Tally tally("transfer");
  EXPECT_EQ(AllocatedForTwo(kBytes), Keeps() ? 1 : 2);
  DECIDED(tally, "host.reused", uint64_t{Keeps()});
  EXPECT_EQ(AllocatedForTwo(size_t{1} << 20), 2) << "not worth it";
}

TEST_F(KeptBlocks, K1_NotWhereFreshMemoryIsFilled) {
  WarmUp();
  *zero_fill_ = true;
  EXPECT_EQ(AllocatedForTwo(kBytes + 4096), 2);
}

TEST_F(KeptBlocks, K1_AFailureIsPyTorchsOwn) {
  WarmUp();
  bool failed = false;
  EXPECT_EQ(tensor_(size_t{1} << 50, &failed), nullptr);
  EXPECT_TRUE(failed);
  failed = false;
  EXPECT_EQ(tensor_(0, &failed), nullptr);
  EXPECT_FALSE(failed);
  drop_(nullptr);
}

// It may need every byte of its new limit for something else.
TEST_F(KeptBlocks, K2_NothingUnderALimitOfItsOwn) {
  NEEDS_NO_SANITIZER("a sanitizer maps more than any limit");
  WarmUp();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit limited = {size_t{1} << 40, before.rlim_max};
  const auto set = [](const rlimit& limit) { return setrlimit(RLIMIT_DATA, &limit); };
  const auto exchange = [](const rlimit& limit) { return prlimit(0, RLIMIT_DATA, &limit, nullptr); };
  const auto of_itself = [](const rlimit& limit) { return prlimit(getpid(), RLIMIT_DATA, &limit, nullptr); };
  for (int (*const change)(const rlimit&) : {+set, +exchange, +of_itself}) {
    void* const block = Tensor(kBytes + 12288, 1);
    const int freed = freed_();
    drop_(block);
    EXPECT_EQ(freed_(), freed + (Keeps() ? 0 : 1));
    ASSERT_EQ(change(limited), 0);
    EXPECT_EQ(freed_(), freed + 1) << "what was kept";
    drop_(Tensor(kBytes + 12288, 1));
    EXPECT_EQ(freed_(), freed + 2) << "and nothing is, from here on";
    ASSERT_EQ(change(before), 0);
  }
  EXPECT_EQ(prlimit(0, static_cast<__rlimit_resource>(-1), nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

// Whoever looks at every block that is freed, or has it filled: this program anew, beside each.
TEST_F(KeptBlocks, K6_NothingWhereSomebodySeesWhatIsFreed) {
  NEEDS_NO_SANITIZER("they are such a one themselves");
  const char* const preloads = std::getenv("LD_PRELOAD");
  const std::string profiler = std::string(preloads == nullptr ? "" : preloads) + ":" HEAP_PROFILER;
  const std::pair<const char*, std::string> variables[] = {{"LD_PRELOAD", profiler},
                                                           {"MALLOC_PERTURB_", "165"},
                                                           {"GLIBC_TUNABLES", "glibc.malloc.perturb=165"},
                                                           {"MALLOC_PERTURB_", "0"}};
  for (const auto& [name, value] : variables) {
    SCOPED_TRACE(value);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setenv(name, value.c_str(), 1);
      if (value != "0") setenv("KEEPS_NOTHING", "1", 1);
      execl("/proc/self/exe", "rules", "--gtest_filter=KeptBlocks.K1_ComeWithTheirPages", "--gtest_brief=1", nullptr);
      _exit(127);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST_F(KeptBlocks, K4_NothingInAForkedChild) {
  WarmUp();
  void* const before = Tensor(kBytes + 8192, 1);
  void* const kept = Tensor(kBytes + 8192, 3);
  const int freed_before = freed_();
  drop_(kept);
  EXPECT_EQ(freed_(), freed_before + (Keeps() ? 0 : 1));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int allocated = allocated_();
    const int freed = freed_();
    const bool nothing_kept = freed == freed_before + 1;
    bool failed = false;
    void* const fresh = tensor_(kBytes + 8192, &failed);
    const bool right = !failed && static_cast<uint8_t*>(before)[7] == 1 && allocated_() == allocated + 1;
    std::memset(fresh, 2, kBytes);
    drop_(fresh);
    drop_(before);
    _exit(right && nothing_kept && freed_() == freed + 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const int allocated = allocated_();
  void* const again = Tensor(kBytes + 8192, 4);
  EXPECT_EQ(allocated_(), allocated + 1) << "what was kept went back before the fork";
  EXPECT_EQ(static_cast<uint8_t*>(before)[7], 1);
  drop_(again);
  drop_(before);
}

}  // namespace
}  // namespace rules
