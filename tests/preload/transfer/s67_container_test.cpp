// S67: staging memory fits the container. Needs root, and a memory cgroup that another one can be made in.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/preload/transfer/rule_test.h"
#include "tests/support/plain_build.h"

namespace rules {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kCopy = 128 * kMiB;

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

// A memory cgroup of its own, in which the process is from Enter on. What the process had before counts elsewhere.
class Cgroup {
 public:
  ~Cgroup() {
    if (folder_.empty()) return;
    (void)Write(std::string(kind_->root) + "/cgroup.procs", std::to_string(getpid()));
    (void)rmdir(folder_.c_str());
  }

  bool Enter(size_t bytes) {
    for (const Kind& kind : kKinds) {
      const std::string folder = std::string(kind.root) + "/slipstream-test-" + std::to_string(getpid());
      if (mkdir(folder.c_str(), 0755) != 0) continue;
      if (Write(folder + kind.limit, std::to_string(bytes)) &&
          Write(folder + "/cgroup.procs", std::to_string(getpid()))) {
        kind_ = &kind;
        folder_ = folder;
        return true;
      }
      (void)rmdir(folder.c_str());
    }
    return false;
  }
  // The most that it ever had; 0: unknown.
  size_t Peak() const {
    std::ifstream file(folder_ + kind_->peak);
    size_t bytes = 0;
    file >> bytes;
    return bytes;
  }

 private:
  struct Kind {
    const char* root;
    const char* limit;
    const char* peak;
  };
  static constexpr Kind kKinds[] = {
      {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.max_usage_in_bytes"},
      {"/sys/fs/cgroup", "/memory.max", "/memory.peak"},
  };
  const Kind* kind_ = nullptr;
  std::string folder_;
};

class Container : public Cold {
 protected:
  // For one copy: the simulated device's memory is the machine's.
  Container() { setenv("SLIPSTREAM_TRANSFER_DEVICE_STAGING", "128MiB", 1); }
};

// Copies of this size would have 384 MiB of staging memory, where there is enough.
TEST_F(Container, S67_StagingMemoryIsLittleOfWhatIsLeft) {
  NEEDS_NO_SANITIZER("a sanitizer's shadow counts as memory of the container too");
  uint8_t* device = nullptr;
  OK(cudaMalloc(reinterpret_cast<void**>(&device), kCopy));
  OK(cudaMemset(device, 1, kCopy));
  OK(cudaDeviceSynchronize());
  const auto source = Pattern(kCopy, 5);
  Cgroup container;
  if (!container.Enter(800 * kMiB)) GTEST_SKIP() << "no memory cgroup can be made here";
  const Tally tally("transfer");
  // Where the machine is busy a copy may find that no slot of the little memory comes free in time.
  for (int i = 0; i < 3 || (Engine() && tally.Of("h2d.promoted.large") == 0 && i < 50); ++i) {
    OK(CopyUp(device, source.data(), kCopy, a_));
    OK(cudaStreamSynchronize(a_));
  }
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(Holds(device, source));
  DECIDED_AT_LEAST(tally, "h2d.promoted.large", 1);
  // The simulated CUDA has a copy of its own while it copies, and the engine device memory for one.
  EXPECT_GT(container.Peak(), 0U);
  EXPECT_LT(container.Peak(), 2 * kCopy + 800 * kMiB / 8 + 32 * kMiB);
}

TEST_F(Container, S67_WhereLittleIsLeftCopiesAreLeftAlone) {
  NEEDS_NO_SANITIZER("a sanitizer's shadow counts as memory of the container too");
  Cgroup container;
  if (!container.Enter(28 * kMiB)) GTEST_SKIP() << "no memory cgroup can be made here";
  const Tally tally("transfer");
  for (const size_t bytes : {kSmall, kLarge, kSmall}) {
    OK(CopyUp(device_, source_.data(), bytes, a_));
    OK(cudaStreamSynchronize(a_));
    EXPECT_TRUE(HoldsOnly(device_, 0x11, bytes));
  }
  NEVER_DECIDED(tally, "h2d.promoted");
  DECIDED_AT_LEAST(tally, "h2d.declined.no_memory", 2);
}

}  // namespace
}  // namespace rules
