// U1, U2, U4: shared memory that the program unmaps, while the rest of it may go on in the background.
// tests/transfer/background_unmap_test.cpp has the bounds (U3) and what goes wrong.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

constexpr size_t kBatch = size_t{6} << 20;
constexpr int kRounds = 10;  // a breach shows only as long as the memory waits

// A batch as a loader process hands it over: a file in shared memory without a name, mapped by the one who gets it.
class Unmapping : public Rule {
 protected:
  void TearDown() override {
    if (fd_ >= 0) close(fd_);
  }

  void NewFile(bool with_name = false) {
    if (fd_ >= 0) close(fd_);
    const std::string name = "/slipstream-rules-" + std::to_string(getpid());
    fd_ = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ASSERT_GE(fd_, 0);
    if (with_name) {
      name_ = name;
    } else {
      shm_unlink(name.c_str());
    }
    Grow();
  }
  void NewFileElsewhere() {
    if (fd_ >= 0) close(fd_);
    char name[] = "unmap_test.XXXXXX";
    fd_ = mkostemp(name, O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    unlink(name);
    Grow();
  }
  void Grow() {
    ASSERT_EQ(ftruncate(fd_, kBatch), 0);
    struct stat found = {};
    fstat(fd_, &found);
    inode_ = found.st_ino;
  }

  // Maps the file, fills it, and copies its beginning to the device, which must arrive.
  uint8_t* UseBatch(uint8_t value) {
    void* const memory = mmap(nullptr, kBatch, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    EXPECT_NE(memory, MAP_FAILED);
    auto* const batch = static_cast<uint8_t*>(memory);
    std::memset(batch, value, kBatch);
    EXPECT_EQ(CopyUp(device_, batch, kHuge, a_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    return batch;
  }
  static bool IsFree(void* address) {
    void* const got = mmap(address, kBatch, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return false;
    munmap(got, kBatch);
    return got == address;
  }
  bool IsMapped() const {
    std::ifstream maps("/proc/self/maps");
    const std::string inode = " " + std::to_string(inode_) + " ";
    for (std::string line; std::getline(maps, line);) {
      if (line.find(inode) != std::string::npos) return true;
    }
    return false;
  }
  // The program's own munmap is made.
  void ExpectGoneAtOnce(const std::function<void()>& new_file) {
    const Tally tally("transfer");
    for (int round = 0; round < kRounds; ++round) {
      new_file();
      uint8_t* const batch = UseBatch(1);
      EXPECT_EQ(munmap(batch, kBatch), 0);
      EXPECT_FALSE(IsMapped());
      if (!name_.empty()) shm_unlink(name_.c_str());
    }
    NEVER_DECIDED(tally, "unmapped");
  }
  // Until the batch is gone, in the background or, where the library's lock was held, by the call itself.
  void WaitUntilGivenBack() const {
    while (IsMapped()) std::this_thread::yield();
  }

  int fd_ = -1;
  ino_t inode_ = 0;
  std::string name_;
};

TEST_F(Unmapping, U1_TheAddressesAreFree) {
  const Tally tally("transfer");
  for (int round = 0; round < kRounds; ++round) {
    NewFile();
    uint8_t* const batch = UseBatch(static_cast<uint8_t>(round));
    ASSERT_EQ(munmap(batch, kBatch), 0);
    EXPECT_TRUE(IsFree(batch));
    WaitUntilGivenBack();
  }
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, kRounds - 1, kHuge));
  DECIDED_AT_LEAST(tally, "unmapped.background", 1);
}

// A batch that reached the device as late as it may, behind its memory's end.
TEST_F(Unmapping, U1_TheDeviceHasTheBatch) {
  NewFile();
  Backlog(a_);
  uint8_t* const batch = UseBatch(0x77);
  ASSERT_EQ(munmap(batch, kBatch), 0);
  OK(cudaDeviceSynchronize());
  EXPECT_TRUE(HoldsOnly(device_, 0x77, kHuge));
}

TEST_F(Unmapping, U2_AFileWithANameIsGoneAtOnce) {
  ExpectGoneAtOnce([this] { NewFile(true); });
}

TEST_F(Unmapping, U2_AFileElsewhereIsGoneAtOnce) {
  ExpectGoneAtOnce([this] { NewFileElsewhere(); });
}

// A transport that caches registrations follows every mapping: nothing goes past it.
TEST_F(Unmapping, U2_UnderAnRdmaTransport) {
  ASSERT_NE(dlopen(FAKE_UCX_MODULE, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  ExpectGoneAtOnce([this] { NewFile(); });
}

TEST_F(Unmapping, U4_AForkedChildHasNoneOfIt) {
  const Tally tally("transfer");
  for (int round = 0; round < kRounds; ++round) {
    NewFile();
    uint8_t* const batch = UseBatch(1);
    ASSERT_EQ(munmap(batch, kBatch), 0);
    const pid_t child = fork();
    if (child == 0) _exit(IsMapped() ? 1 : 0);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    WaitUntilGivenBack();
  }
  DECIDED_AT_LEAST(tally, "unmapped.background", 1);
}

// The child of a process that uses CUDA maps and unmaps as it always did: it has no thread of ours.
TEST_F(Unmapping, U4_AForkedChildUnmapsByItself) {
  NewFile();
  uint8_t* const batch = UseBatch(1);
  const pid_t child = fork();
  if (child == 0) {
    const bool inherited = munmap(batch, kBatch) == 0 && !IsMapped();
    void* const own = mmap(nullptr, kBatch, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    _exit(inherited && own != MAP_FAILED && munmap(own, kBatch) == 0 && !IsMapped() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(munmap(batch, kBatch), 0);
}

class NotUnmapping : public Unmapping {
 protected:
  void SetUp() override {}
  void ExpectNothingInBackground() {
    Prepare();
    ExpectGoneAtOnce([this] { NewFile(); });
  }
};

TEST_F(NotUnmapping, Policy_NoUnmappingInBackground) {
  StartWith("SLIPSTREAM_TRANSFER_UNMAP_IN_BACKGROUND", "false");
  ExpectNothingInBackground();
}

TEST_F(NotUnmapping, Policy_NoUnmappingWithoutTheEngine) {
  StartWith("SLIPSTREAM_TRANSFER_H2D", "off");
  StartWith("SLIPSTREAM_TRANSFER_D2H", "off");
  ExpectNothingInBackground();
}

}  // namespace
}  // namespace rules
