#include "tracer/calls/calling_library.h"

#include <dlfcn.h>
#include <unwind.h>

namespace slipstream::tracer {
namespace {

constexpr int kMaxFrames = 64;
const char kInsideThisLibrary = 0;

const void* OwnBase() {
  static const void* const base = [] {
    Dl_info info = {};
    return dladdr(&kInsideThisLibrary, &info) != 0 ? info.dli_fbase : nullptr;
  }();
  return base;
}

// Whose code the stack of a thread begins with.
bool BeginsThreads(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libc.so") || file.starts_with("libpthread.so");
}

// The first object on the stack that is not in between.
struct Search {
  int frames = 0;
  bool in_driver = false;  // past the callback, whose frames are slipstream's too
  Dl_info found = {};
};

_Unwind_Reason_Code Look(_Unwind_Context* context, void* data) {
  auto* const search = static_cast<Search*>(data);
  int before = 0;
  const uintptr_t at = _Unwind_GetIPInfo(context, &before);
  if (at == 0 || ++search->frames > kMaxFrames) return _URC_END_OF_STACK;
  Dl_info info = {};
  // A return address may be the first one behind its function.
  const auto* const address = reinterpret_cast<const void*>(before != 0 ? at : at - 1);
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return _URC_NO_REASON;
  if (IsBetween(info.dli_fname)) {
    search->in_driver = true;
    return _URC_NO_REASON;
  }
  if (info.dli_fbase == OwnBase()) {
    // A call of the engines' own, or the program's through a hook that is watched only.
    if (search->in_driver) search->found = info;
    return _URC_NO_REASON;
  }
  const bool is_own = search->found.dli_fbase != nullptr && BeginsThreads(info.dli_fname);
  if (!is_own) search->found = info;
  return _URC_END_OF_STACK;
}

}  // namespace

bool IsBetween(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const std::string_view name : {"libcuda.so", "libcudart.so", "libcupti.so", "libnvidia-"}) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

CallingLibraries::Entry* CallingLibraries::Find(uint64_t key) {
  // Handles are addresses: their low bits say nothing.
  size_t at = (key ^ key >> 17) * 0x9E3779B97F4A7C15u >> 32;
  for (size_t i = 0; i < entries_.size(); ++i, ++at) {
    Entry& entry = entries_[at % entries_.size()];
    const uint64_t there = entry.key.load(std::memory_order_acquire);
    if (there == key || there == 0) return &entry;
  }
  return nullptr;
}

uint32_t CallingLibraries::Of(uint64_t key) {
  const Entry* const known = Find(key);
  if (known != nullptr && known->key.load(std::memory_order_acquire) == key) {
    return known->library.load(std::memory_order_relaxed);
  }
  const std::lock_guard guard(mutex_);
  Entry* const entry = Find(key);
  if (entry == nullptr || entry->key.load(std::memory_order_relaxed) == key) {
    return entry != nullptr ? entry->library.load(std::memory_order_relaxed) : 0;
  }
  if (count_ == kMaxKeys) return 0;
  const uint32_t library = Walk();
  ++count_;
  entry->library.store(library, std::memory_order_relaxed);
  entry->key.store(key, std::memory_order_release);
  return library;
}

// With the lock held.
uint32_t CallingLibraries::Walk() {
  Search search;
  (void)_Unwind_Backtrace(Look, &search);
  for (const Known& library : known_) {
    if (library.base == search.found.dli_fbase) return library.number;
  }
  const auto number = static_cast<uint32_t>(known_.size() + 1);
  try {
    known_.push_back({.base = search.found.dli_fbase, .number = number});
  } catch (...) {
    return 0;
  }
  tell_(told_to_, number, search.found.dli_fname != nullptr ? search.found.dli_fname : "");
  return number;
}

}  // namespace slipstream::tracer
