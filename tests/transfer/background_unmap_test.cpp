// Shared memory that is given back in the background: what it takes, what it leaves alone, and how much may wait.
//
// The mappings are real ones, of files in /dev/shm as PyTorch's loader makes them. U3 has its mutant here; the others
// have theirs in tests/preload/transfer, where a program looks at its own mappings.

#include "transfer/background_unmap.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "policy/helper_thread.h"

namespace slipstream::transfer {
namespace {

constexpr size_t kBytes = size_t{4} << 20;

std::mutex g_mutex;
std::condition_variable g_counted;
std::array<uint64_t, kDecisionCount> g_bytes;

void Count(Decision decision, uint64_t bytes, uint64_t) {
  const std::lock_guard lock(g_mutex);
  g_bytes[static_cast<size_t>(decision)] += bytes;
  g_counted.notify_all();
}
void WaitForBytes(Decision decision, uint64_t bytes) {
  std::unique_lock lock(g_mutex);
  g_counted.wait(lock, [=] { return g_bytes[static_cast<size_t>(decision)] >= bytes; });
}
uint64_t BytesOf(Decision decision) {
  const std::lock_guard lock(g_mutex);
  return g_bytes[static_cast<size_t>(decision)];
}

bool NeverRuns(const char*, void* (*)(void*), void*) { return true; }
bool Refuses(const char*, void* (*)(void*), void*) { return false; }
bool Nobody() { return false; }
bool Somebody() { return true; }
uint64_t Plenty() { return UINT64_MAX; }
uint64_t g_free_bytes;
uint64_t Given() { return g_free_bytes; }

// Never destroyed, as in the library.
BackgroundUnmap& Make(uint64_t most, const BackgroundUnmap::Parts& parts) {
  static auto* const all = new std::vector<std::unique_ptr<BackgroundUnmap>>;
  return *all->emplace_back(std::make_unique<BackgroundUnmap>(most, parts));
}
constexpr BackgroundUnmap::Parts kWorking = {Count, policy::StartHelperThread, Nobody, Plenty};
constexpr BackgroundUnmap::Parts kStuck = {Count, NeverRuns, Nobody, Plenty};

class File {
 public:
  // A file in /dev/shm; its name is taken away at once, unless it is to keep it.
  explicit File(size_t bytes, bool keep_name = false) {
    static int number = 0;
    name_ = "/slipstream-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
    fd_ = shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!keep_name) Unlink();
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes)) != 0) std::abort();
    struct stat found = {};
    fstat(fd_, &found);
    inode_ = found.st_ino;
  }
  ~File() {
    Unlink();
    close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  ino_t inode() const { return inode_; }

 private:
  void Unlink() {
    if (!name_.empty()) shm_unlink(name_.c_str());
    name_.clear();
  }
  std::string name_;
  int fd_ = -1;
  ino_t inode_ = 0;
};

void* Map(int fd, size_t bytes, int flags = MAP_SHARED) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  EXPECT_NE(memory, MAP_FAILED) << std::strerror(errno);
  return memory;
}

// As the hook does it, and filled, so that there is something to give back.
char* MapAndTell(BackgroundUnmap& unmap, const File& file, size_t bytes = kBytes) {
  auto* const memory = static_cast<char*>(Map(file.fd(), bytes));
  unmap.Mapped(memory, bytes, MAP_SHARED, file.fd());
  std::memset(memory, 0x5a, bytes);
  return memory;
}

// How often this process has the file mapped.
int TimesMapped(ino_t inode) {
  std::ifstream maps("/proc/self/maps");
  int times = 0;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string skipped;
    ino_t found = 0;
    if (fields >> skipped >> skipped >> skipped >> skipped >> found && found == inode) ++times;
  }
  return times;
}

bool IsFree(void* address, size_t bytes) {
  void* const got =
      mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  munmap(got, bytes);
  return got == address;
}

class BackgroundUnmapTest : public ::testing::Test {
 protected:
  void SetUp() override { g_bytes = {}; }

  void ExpectLeftAlone(BackgroundUnmap& unmap, void* memory, size_t bytes = kBytes) {
    EXPECT_FALSE(unmap.Unmap(memory, bytes));
    EXPECT_FALSE(IsFree(memory, bytes)) << "and yet it is gone";
    EXPECT_EQ(munmap(memory, bytes), 0);
  }
};

TEST_F(BackgroundUnmapTest, U1_AddressesAreFreeAtOnceAndTheMemoryComesBack) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  for (uint64_t round = 1; round <= 20; ++round) {
    const File file(kBytes);
    char* const memory = MapAndTell(unmap, file);
    ASSERT_TRUE(unmap.Unmap(memory, kBytes));
    EXPECT_TRUE(IsFree(memory, kBytes));
    WaitForBytes(Decision::kUnmapped, round * kBytes);
    EXPECT_EQ(TimesMapped(file.inode()), 0);
  }
}

// PyTorch maps and unmaps the bytes of a tensor, of whole pages or not.
TEST_F(BackgroundUnmapTest, U1_LengthsThatAreNotWholePages) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const size_t bytes = kBytes - 100;
  const File file(bytes);
  char* const memory = MapAndTell(unmap, file, bytes);
  ASSERT_TRUE(unmap.Unmap(memory, bytes));
  EXPECT_TRUE(IsFree(memory, kBytes));
  WaitForBytes(Decision::kUnmapped, kBytes);
  EXPECT_EQ(TimesMapped(file.inode()), 0);
}

TEST_F(BackgroundUnmapTest, WhoeverElseHasTheFileKeepsItsBytes) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const File file(kBytes);
  char* const memory = MapAndTell(unmap, file);
  const auto* const other = static_cast<char*>(Map(file.fd(), kBytes));
  ASSERT_TRUE(unmap.Unmap(memory, kBytes));
  WaitForBytes(Decision::kUnmapped, kBytes);
  EXPECT_EQ(std::string(other, kBytes), std::string(kBytes, 0x5a));
  munmap(const_cast<char*>(other), kBytes);
}

TEST_F(BackgroundUnmapTest, U2_AFileThatHasAName) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const File file(kBytes, true);
  ExpectLeftAlone(unmap, MapAndTell(unmap, file));
}

TEST_F(BackgroundUnmapTest, U2_AFileSomewhereElse) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  char name[] = "background_unmap_test.XXXXXX";
  const int fd = mkstemp(name);
  ASSERT_GE(fd, 0);
  unlink(name);
  ASSERT_EQ(ftruncate(fd, kBytes), 0);
  void* const memory = Map(fd, kBytes);
  unmap.Mapped(memory, kBytes, MAP_SHARED, fd);
  ExpectLeftAlone(unmap, memory);
  close(fd);
}

TEST_F(BackgroundUnmapTest, U2_MemoryThatIsNoFileOfSharedMemory) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const File file(kBytes);
  const int memory_file = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory_file, kBytes), 0);
  for (const auto& [fd, flags] : std::vector<std::pair<int, int>>{{file.fd(), MAP_PRIVATE},
                                                                  {-1, MAP_PRIVATE | MAP_ANONYMOUS},
                                                                  {-1, MAP_SHARED | MAP_ANONYMOUS},
                                                                  {memory_file, MAP_SHARED}}) {
    void* const memory = Map(fd, kBytes, flags);
    unmap.Mapped(memory, kBytes, flags, fd);
    ExpectLeftAlone(unmap, memory);
  }
  close(memory_file);
}

TEST_F(BackgroundUnmapTest, U2_PartsOfAMapping) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const File file(kBytes);
  char* const memory = MapAndTell(unmap, file);
  ExpectLeftAlone(unmap, memory, kBytes / 2);
  ExpectLeftAlone(unmap, memory + kBytes / 2, kBytes / 2);
  // More than the mapping.
  auto* const area = static_cast<char*>(Map(-1, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS));
  ASSERT_EQ(mmap(area, kBytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd(), 0), area);
  unmap.Mapped(area, kBytes, MAP_SHARED | MAP_FIXED, file.fd());
  ExpectLeftAlone(unmap, area, 2 * kBytes);
}

TEST_F(BackgroundUnmapTest, U2_WhatWasMappedInItsPlace) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const File file(kBytes);
  char* const memory = MapAndTell(unmap, file);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  ASSERT_EQ(mmap(memory, kBytes, PROT_READ | PROT_WRITE, flags, -1, 0), memory);
  unmap.Mapped(memory, kBytes, flags, -1);
  ExpectLeftAlone(unmap, memory);
}

// What goes and comes while another thread holds the lock is not entered. It must not be taken for what was there
// before.
TEST_F(BackgroundUnmapTest, U2_WhatCameUnderTheLockOfAnother) {
  static BackgroundUnmap* unmap;
  static char* memory;
  static const File* named;
  // Starting the thread is done under the lock.
  const auto meanwhile = [](const char*, void* (*)(void*), void*) {
    std::thread([] {
      EXPECT_FALSE(unmap->Unmap(memory, kBytes));
      EXPECT_EQ(munmap(memory, kBytes), 0);
      const int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
      ASSERT_EQ(mmap(memory, kBytes, PROT_READ | PROT_WRITE, flags, named->fd(), 0), memory);
      unmap->Mapped(memory, kBytes, flags, named->fd());
    }).join();
    return true;
  };
  unmap = &Make(UINT64_MAX, {Count, meanwhile, Nobody, Plenty});
  const File file(kBytes);
  const File file_with_name(kBytes, true);
  named = &file_with_name;
  memory = MapAndTell(*unmap, file);
  EXPECT_TRUE(unmap->Unmap(MapAndTell(*unmap, file), kBytes));
  ExpectLeftAlone(*unmap, memory);
  // What is mapped from then on is known again.
  EXPECT_TRUE(unmap->Unmap(MapAndTell(*unmap, file), kBytes));
  named = nullptr;
}

TEST_F(BackgroundUnmapTest, U3_NoMoreThanTheBoundMayWait) {
  BackgroundUnmap& unmap = Make(2 * kBytes, kStuck);
  const File file(kBytes);
  char* memory[3];
  for (char*& mapping : memory) mapping = MapAndTell(unmap, file);
  EXPECT_TRUE(unmap.Unmap(memory[0], kBytes));
  EXPECT_TRUE(unmap.Unmap(memory[1], kBytes));
  ExpectLeftAlone(unmap, memory[2]);
  EXPECT_EQ(BytesOf(Decision::kUnmappedByCaller), kBytes);
}

TEST_F(BackgroundUnmapTest, U3_OneThatIsLargerThanTheBound) {
  BackgroundUnmap& unmap = Make(kBytes - 1, kStuck);
  const File file(kBytes);
  ExpectLeftAlone(unmap, MapAndTell(unmap, file));
}

TEST_F(BackgroundUnmapTest, U3_WhatWasGivenBackMakesRoom) {
  BackgroundUnmap& unmap = Make(kBytes, kWorking);
  uint64_t in_background = 0;
  for (int round = 0; round < 50; ++round) {
    const File file(kBytes);
    char* const memory = MapAndTell(unmap, file);
    if (unmap.Unmap(memory, kBytes)) {
      in_background += kBytes;
    } else {
      munmap(memory, kBytes);
    }
    WaitForBytes(Decision::kUnmapped, in_background);
  }
  EXPECT_GE(in_background, kBytes);
}

// A new thread's stack is mapped, which the hook tells of: nothing may be held then that would have what is known of
// other mappings forgotten.
TEST_F(BackgroundUnmapTest, MappingsAreKnownBehindTheStartOfTheThread) {
  static BackgroundUnmap* starting = nullptr;
  const auto maps_a_stack = [](const char*, void* (*)(void*), void*) {
    void* const stack = Map(-1, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS);
    starting->Mapped(stack, 2 * kBytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return true;
  };
  BackgroundUnmap& unmap = Make(UINT64_MAX, {Count, maps_a_stack, Nobody, Plenty});
  starting = &unmap;
  const File file(kBytes);
  char* memory[3];
  for (char*& mapping : memory) mapping = MapAndTell(unmap, file);
  for (char* const mapping : memory) EXPECT_TRUE(unmap.Unmap(mapping, kBytes));
}

TEST_F(BackgroundUnmapTest, U3_RoomInSharedMemoryIsNotTaken) {
  constexpr BackgroundUnmap::Parts kLimited = {Count, NeverRuns, Nobody, Given};
  BackgroundUnmap& unmap = Make(UINT64_MAX, kLimited);
  const File file(kBytes);
  char* memory[2];
  for (char*& mapping : memory) mapping = MapAndTell(unmap, file);
  g_free_bytes = 4 * kBytes - 1;
  ExpectLeftAlone(unmap, memory[0]);
  g_free_bytes = 4 * kBytes;
  EXPECT_TRUE(unmap.Unmap(memory[1], kBytes));
}

TEST_F(BackgroundUnmapTest, U3_TheBoundFitsTheMachine) {
  EXPECT_LE(BackgroundUnmap::MostBytes(), uint64_t{512} << 20);
  EXPECT_GT(BackgroundUnmap::MostBytes(), 0U);
  EXPECT_GT(BackgroundUnmap::FreeSharedMemory(), 0U);
}

TEST_F(BackgroundUnmapTest, U4_AForkedChildInheritsNothing) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kStuck);
  const File file(kBytes);
  char* const memory = MapAndTell(unmap, file);
  ASSERT_TRUE(unmap.Unmap(memory, kBytes));
  EXPECT_EQ(TimesMapped(file.inode()), 1);  // it waits
  const pid_t child = fork();
  if (child == 0) _exit(TimesMapped(file.inode()));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(BackgroundUnmapTest, WithoutAThreadTheProgramUnmaps) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, {Count, Refuses, Nobody, Plenty});
  const File file(kBytes);
  ExpectLeftAlone(unmap, MapAndTell(unmap, file));
  ExpectLeftAlone(unmap, MapAndTell(unmap, file));
}

TEST_F(BackgroundUnmapTest, WhereSomebodyFollowsTheMappingsTheProgramUnmaps) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, {Count, NeverRuns, Somebody, Plenty});
  const File file(kBytes);
  ExpectLeftAlone(unmap, MapAndTell(unmap, file));
}

// Something unmapped the middle past every hook: the program's own call is made, and does what it does.
TEST_F(BackgroundUnmapTest, AMappingWithAHole) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const File file(kBytes);
  char* const memory = MapAndTell(unmap, file);
  ASSERT_EQ(syscall(SYS_munmap, memory + kBytes / 2, 4096), 0);
  EXPECT_FALSE(unmap.Unmap(memory, kBytes));
  EXPECT_EQ(memory[0], 0x5a);
  EXPECT_EQ(memory[kBytes - 1], 0x5a);
  EXPECT_EQ(munmap(memory, kBytes), 0);
}

// Two areas with different rights: older systems move only one area at a time, and refuse.
TEST_F(BackgroundUnmapTest, AMappingOfTwoAreas) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kWorking);
  const File file(kBytes);
  char* const memory = MapAndTell(unmap, file);
  ASSERT_EQ(mprotect(memory, kBytes / 2, PROT_READ), 0);
  if (unmap.Unmap(memory, kBytes)) {
    WaitForBytes(Decision::kUnmapped, kBytes);
  } else {
    EXPECT_EQ(memory[0], 0x5a);
    EXPECT_EQ(munmap(memory, kBytes), 0);
  }
  EXPECT_TRUE(IsFree(memory, kBytes));
  EXPECT_EQ(TimesMapped(file.inode()), 0);
}

TEST_F(BackgroundUnmapTest, ErrnoIsTheProgramsOwn) {
  BackgroundUnmap& unmap = Make(kBytes, {Count, NeverRuns, Nobody, BackgroundUnmap::FreeSharedMemory});
  const File file(kBytes);
  void* const anonymous = Map(-1, kBytes, MAP_SHARED | MAP_ANONYMOUS);
  errno = EDOM;
  unmap.Mapped(anonymous, kBytes, MAP_SHARED, -1);  // fstat fails
  EXPECT_EQ(errno, EDOM);
  ExpectLeftAlone(unmap, anonymous);
  char* const memory = MapAndTell(unmap, file);
  ASSERT_EQ(syscall(SYS_munmap, memory + kBytes / 2, 4096), 0);
  errno = EDOM;
  EXPECT_FALSE(unmap.Unmap(memory, kBytes));  // madvise fails
  EXPECT_EQ(errno, EDOM);
  munmap(memory, kBytes);
}

TEST_F(BackgroundUnmapTest, MoreMappingsThanItRemembers) {
  BackgroundUnmap& unmap = Make(UINT64_MAX, kStuck);
  const File file(BackgroundUnmap::kLeastBytes);
  std::vector<void*> mappings;
  for (int i = 0; i < 600; ++i) {
    mappings.push_back(Map(file.fd(), BackgroundUnmap::kLeastBytes));
    unmap.Mapped(mappings.back(), BackgroundUnmap::kLeastBytes, MAP_SHARED, file.fd());
  }
  int taken = 0;
  for (void* const memory : mappings) {
    if (unmap.Unmap(memory, BackgroundUnmap::kLeastBytes)) {
      ++taken;
    } else {
      EXPECT_EQ(munmap(memory, BackgroundUnmap::kLeastBytes), 0);
    }
    EXPECT_TRUE(IsFree(memory, BackgroundUnmap::kLeastBytes));
  }
  EXPECT_EQ(taken, 64);  // as many as may wait: the thread is stuck
}

TEST_F(BackgroundUnmapTest, ManyThreads) {
  BackgroundUnmap& unmap = Make(8 * kBytes, kWorking);
  std::atomic<uint64_t> in_background{0};
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<File>> files;
  for (int i = 0; i < 4; ++i) files.push_back(std::make_unique<File>(BackgroundUnmap::kLeastBytes));
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        char* const memory = MapAndTell(unmap, *files[i], BackgroundUnmap::kLeastBytes);
        if (unmap.Unmap(memory, BackgroundUnmap::kLeastBytes)) {
          in_background += BackgroundUnmap::kLeastBytes;
        } else {
          munmap(memory, BackgroundUnmap::kLeastBytes);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  WaitForBytes(Decision::kUnmapped, in_background);
  EXPECT_EQ(BytesOf(Decision::kUnmapped), in_background);
  for (const auto& file : files) EXPECT_EQ(TimesMapped(file->inode()), 0);
}

}  // namespace
}  // namespace slipstream::transfer
