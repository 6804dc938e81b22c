// S11: nothing is skipped any more once the program uses memory that kernels and the host share.
#include <dlfcn.h>

#include "tests/preload/transfer/rule_test.h"

namespace rules {
namespace {

class Mapped : public Rule {
 protected:
  // A kernel writes the shared memory before the copy; after the synchronization the host reads it.
  void ExpectSeen(uint8_t* host, void* device) {
    const Tally tally("transfer");
    std::memset(host, 0, kSmall);
    Backlog(a_);
    OK(LaunchFill(device, kSmall, 7, a_));
    CopyAndSynchronize(a_);
    EXPECT_EQ(std::vector<uint8_t>(host, host + kSmall), std::vector<uint8_t>(kSmall, 7));
    EXPECT_EQ(Pending(a_), 0);
    DECIDED(tally, "h2d.promoted.small", 1);
    DECIDED(tally, "sync.kept.mapped", 1);
  }
};

TEST_F(Mapped, S11_ManagedMemory) {
  uint8_t* managed = nullptr;
  OK(cudaMallocManaged(reinterpret_cast<void**>(&managed), kSmall));
  ExpectSeen(managed, managed);
  // For good, for nobody can tell which kernel still has the pointer.
  OK(cudaFree(managed));
  const Tally tally("transfer");
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.kept.mapped", 1);
}

TEST_F(Mapped, S11_MappedAllocation) {
  uint8_t* mapped = nullptr;
  OK(cudaHostAlloc(reinterpret_cast<void**>(&mapped), kSmall, cudaHostAllocMapped));
  ExpectSeen(mapped, mapped);
}

TEST_F(Mapped, S11_MappedRegistration) {
  std::vector<uint8_t> registered(kSmall);
  OK(cudaHostRegister(registered.data(), kSmall, cudaHostRegisterMapped));
  ExpectSeen(registered.data(), registered.data());
  OK(cudaHostUnregister(registered.data()));
}

TEST_F(Mapped, S11_ADevicePointerToHostMemory) {
  void* device = nullptr;
  OK(cudaHostGetDevicePointer(&device, pinned_, 0));
  ExpectSeen(pinned_, device);
}

// Used for the first time after something has been skipped.
TEST_F(Mapped, S11_AfterAFirstSkip) {
  DeferOnA();
  void* device = nullptr;
  OK(cudaHostGetDevicePointer(&device, pinned_, 0));
  ExpectSeen(pinned_, device);
}

#if RULES_STATIC
// At the driver level libraries are seen too. Those that are known to wait for what they use are no reason; others are.
class MappedByLibrary : public Mapped {
 protected:
  static void UseMappedMemoryIn(const char* library) {
    void* const handle = dlopen(library, RTLD_NOW);
    ASSERT_NE(handle, nullptr) << dlerror();
    auto* const use = reinterpret_cast<int (*)()>(dlsym(handle, "UseMappedMemory"));
    ASSERT_NE(use, nullptr);
    ASSERT_EQ(use(), 0);
  }
};

TEST_F(MappedByLibrary, S11_ALibraryThatSeesToItsOwnOrderIsNoReason) {
  UseMappedMemoryIn(FAKE_CUBLAS);
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
}

TEST_F(MappedByLibrary, S11_AnyOtherLibraryIsOne) {
  UseMappedMemoryIn(FAKE_MAPPER);
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.kept.mapped", 1);
}
#endif

TEST_F(Mapped, S11_OrdinaryPinnedMemoryIsNoReason) {
  void* more = nullptr;
  OK(cudaMallocHost(&more, kSmall));
  OK(cudaHostRegister(source_.data(), kSmall, 0));
  OK(cudaHostUnregister(source_.data()));
  const Tally tally("transfer");
  Backlog(a_);
  CopyAndSynchronize(a_);
  DECIDED(tally, "sync.skipped", 1);
}

}  // namespace
}  // namespace rules
