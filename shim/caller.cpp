#include "shim/caller.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "shim/loaded_object.h"

namespace slipstream::shim {

constinit thread_local const void* t_driver_caller = nullptr;

namespace {

enum class Kind : uint32_t { kProgram, kTool, kKeepsOrder, kCollective, kRuntime };

bool BeginsWithAny(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  for (const std::string_view beginning : beginnings) {
    if (name.starts_with(beginning)) return true;
  }
  return false;
}

Kind KindOf(std::string_view file) {
  if (BeginsWithAny(file, {"libcupti", "libnvperf", "libsanitizer-", "libInterceptorInjectionTarget", "libTreeLauncher",
                           "libToolsInjection", "libcuda-injection", "libcuinj", "libnsys", "libcudadebugger"})) {
    return Kind::kTool;
  }
  if (BeginsWithAny(file, {"libcublas", "libcudnn"})) return Kind::kKeepsOrder;
  if (BeginsWithAny(file, {"libnccl", "libnvshmem"})) return Kind::kCollective;
  if (file.starts_with("libcudart.so")) return Kind::kRuntime;
  return Kind::kProgram;
}

// Filled in order, never emptied; a thread that finds the table full, or another thread writing to it, asks the loader.
struct Entry {
  std::atomic<uintptr_t> begin;
  std::atomic<uintptr_t> end;
  std::atomic<Kind> kind;
};
constexpr uint32_t kMostEntries = 64;
constinit std::array<Entry, kMostEntries> g_entries{};
constinit std::atomic<uint32_t> g_count{0};
constinit std::atomic<bool> g_adding{false};

void Remember(const LoadedObject& object, Kind kind) {
  if (g_adding.exchange(true, std::memory_order_acquire)) return;
  const uint32_t index = g_count.load(std::memory_order_relaxed);
  if (index < kMostEntries) {
    g_entries[index].begin.store(object.begin, std::memory_order_relaxed);
    g_entries[index].end.store(object.end, std::memory_order_relaxed);
    g_entries[index].kind.store(kind, std::memory_order_relaxed);
    g_count.store(index + 1, std::memory_order_release);
  }
  g_adding.store(false, std::memory_order_release);
}

Kind KindAt(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  const uint32_t count = g_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (value >= g_entries[i].begin.load(std::memory_order_relaxed) &&
        value < g_entries[i].end.load(std::memory_order_relaxed)) {
      return g_entries[i].kind.load(std::memory_order_relaxed);
    }
  }
  const LoadedObject object = LoadedObject::At(address);
  if (object.end == 0) return Kind::kProgram;  // code that was made at run time, or a forked child
  const Kind kind = KindOf(BaseName(object.name));
  Remember(object, kind);
  return kind;
}

}  // namespace

bool IsToolOfCuda(const void* address) { return KindAt(address) == Kind::kTool; }

bool IsSharedRuntime(const void* address) { return KindAt(address) == Kind::kRuntime; }

bool KeepsItsOwnOrder(const void* address) {
  const Kind kind = KindAt(address);
  return kind == Kind::kTool || kind == Kind::kKeepsOrder || kind == Kind::kCollective;
}

bool IsCollective(const void* address) { return KindAt(address) == Kind::kCollective; }

}  // namespace slipstream::shim
