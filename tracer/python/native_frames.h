// Numbers for places in native code: a return address becomes a 32-bit number that outlives it, is the same for the
// same place, and can be turned into module and offset at any later time; how to get from there to the caller
// (frame_layout.h) is kept with it, so that both are looked up once for each address.
//
// A module is an ELF file that is mapped: the program, a library. When one is unloaded, its addresses are learned anew
// (ForgetUnloaded); until that is noticed, a module that is loaded in its place may be taken for it, if a call returns
// to exactly the same address.
//
// Threading: At and the Describe functions from any thread, lock-free: no lock can be left held by a fork or a killed
//   thread. If two threads see an address at once for the first time, it may use its room twice. ForgetUnloaded by one
//   thread.
// Hazard: At's address must be one that the calling thread will return to: its code is loaded then. A first sight of a
//   module takes 4 KiB of stack and, of the program itself, a system call. Nothing here takes the loader's lock.
// Ownership: memory is reserved once, and touched as it is needed. Leaked by the library; tests may delete it.
// Errors: without room, an address has no number, and is counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace slipstream::tracer {

class NativeFrames {
 public:
  // No number: slipstream's own code, or there was no room.
  static constexpr uint32_t kNone = 0;
  static constexpr size_t kMaxPath = 4096;   // of a module's path so much is kept
  static constexpr size_t kMaxBuildId = 64;  // a longer one is none

  struct Limits {
    uint32_t addresses = 1U << 16;
    uint32_t modules = 1U << 11;
    size_t bytes = size_t{1} << 20;  // of paths
  };
  enum class Own : uint8_t { kLeaveOut, kKeep };

  // Null when there is no memory, or this is no machine whose stacks can be read (x86-64, glibc 2.35). `own`: whether
  // frames of the module that this code is in have numbers, too.
  static NativeFrames* Create(const Limits& limits, Own own);
  ~NativeFrames();
  NativeFrames(const NativeFrames&) = delete;
  NativeFrames& operator=(const NativeFrames&) = delete;

  struct Frame {
    uint64_t layout;   // FrameLayout, packed
    uint32_t address;  // its number
  };
  Frame At(uintptr_t return_address) {
    const Slot& slot = slots_[HashOf(return_address) & slot_mask_];
    if (slot.address.load(std::memory_order_acquire) == return_address) [[likely]] {
      const uint64_t layout = slot.layout.load(std::memory_order_acquire);
      if (layout != 0) [[likely]]
        return {layout, slot.number.load(std::memory_order_relaxed)};
    }
    return LookUp(return_address);
  }

  struct Address {
    uint32_t module = 0;  // 0: of none, and the offset is the address itself
    uint64_t offset = 0;  // of the return address, as the module's file counts
  };
  // False for what is no number from here, or not yet.
  bool Describe(uint32_t address, Address* description) const;

  struct Module {
    std::string_view path;      // empty: nobody knows
    std::string_view build_id;  // bytes; empty: it has none
    uint64_t start = 0;         // addresses in the process
    uint64_t end = 0;
  };
  bool DescribeModule(uint32_t module, Module* description) const;

  // Looks for modules that are gone: about a microsecond for each that is still there.
  void ForgetUnloaded();

  // Numbers are 1 to addresses() - 1, and 1 to modules() - 1.
  uint32_t addresses() const { return address_count_.load(std::memory_order_acquire); }
  uint32_t modules() const { return module_count_.load(std::memory_order_acquire); }
  // How often there was no room.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct alignas(32) Slot {
    std::atomic<uint64_t> address;
    std::atomic<uint64_t> layout;  // 0: it is yet to be learned
    std::atomic<uint32_t> number;  // before the layout
  };
  struct Place {
    uint64_t offset;
    std::atomic<uint32_t> module;  // + 1; 0: not written yet
  };
  struct Entry;

  // What the loader says about a module, by which it is known again.
  struct Identity {
    uintptr_t start = 0;
    uintptr_t end = 0;
    const void* link_map = nullptr;
    const void* unwind_information = nullptr;
    bool operator==(const Identity&) const = default;
  };

  NativeFrames(const Limits& limits, char* memory, size_t memory_bytes);

  static size_t HashOf(uintptr_t address) { return address * 0x9e3779b97f4a7c15 >> 29; }
  static bool Find(uintptr_t address, Identity* identity);
  Frame LookUp(uintptr_t return_address);
  Frame Learn(uintptr_t return_address, Slot* slot);
  uint32_t NumberOf(uintptr_t return_address);
  uint32_t ModuleOf(const Identity& identity);
  uint32_t AddModule(const Identity& identity);
  bool HasBuildIdOf(const Entry& entry) const;

  const Limits limits_;
  char* const memory_;
  const size_t memory_bytes_;
  uint32_t slot_mask_ = 0;
  uintptr_t own_start_ = 0;
  uintptr_t own_end_ = 0;
  std::atomic<uint32_t> address_count_{1};  // 0 is kNone
  std::atomic<uint32_t> module_count_{1};
  std::atomic<size_t> byte_count_{0};
  std::atomic<uint64_t> refused_{0};

  // In memory_, which begins as zeros.
  Slot* slots_ = nullptr;
  Place* places_ = nullptr;
  Entry* entries_ = nullptr;
  char* bytes_ = nullptr;
};

}  // namespace slipstream::tracer
