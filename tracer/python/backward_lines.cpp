#include "tracer/python/backward_lines.h"

#include <sys/prctl.h>

#include <algorithm>
#include <new>

namespace slipstream::tracer {
namespace {

std::atomic<uint64_t> g_last_backward_number{0};

enum class Kind : uint8_t { kNotAsked, kAutograd, kOther };
constinit thread_local Kind t_kind = Kind::kNotAsked;

}  // namespace

bool IsAutogradThread(std::string_view name) {
  constexpr std::string_view kPrefix = "pt_autograd_";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  name.remove_prefix(kPrefix.size());
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsAutogradThread() {
  if (t_kind == Kind::kNotAsked) [[unlikely]] {
    char name[16] = "";
    const bool known = prctl(PR_GET_NAME, name) == 0;
    name[sizeof(name) - 1] = '\0';
    t_kind = known && IsAutogradThread(std::string_view(name)) ? Kind::kAutograd : Kind::kOther;
  }
  return t_kind == Kind::kAutograd;
}

BackwardLines* BackwardLines::Create() {
  pthread_key_t key = 0;
  if (pthread_key_create(&key, Leave) != 0) return nullptr;
  auto* const lines = new (std::nothrow) BackwardLines(key);
  if (lines == nullptr) pthread_key_delete(key);
  return lines;
}

BackwardLines::BackwardLines(pthread_key_t key)
    : number_(g_last_backward_number.fetch_add(1, std::memory_order_relaxed) + 1), key_(key) {}

BackwardLines::~BackwardLines() { pthread_key_delete(key_); }

// A thread ends. A later destructor of it that comes here takes a slot anew.
void BackwardLines::Leave(void* slot) {
  if (Here* const here = policy::ThreadOwned<Here>::Find()) *here = {};
  auto* const mine = static_cast<Slot*>(slot);
  mine->site.store(0, std::memory_order_relaxed);
  mine->taken.store(0, std::memory_order_release);
}

void BackwardLines::Change(uint32_t site) {
  Here* const here = policy::ThreadOwned<Here>::Get();
  if (here == nullptr) {
    too_many_.store(true, std::memory_order_relaxed);
    return;
  }
  if (here->owner != number_) {
    *here = {.owner = number_, .slot = TakeSlot()};
    // Without this the slot would not be given back, and its line would stay when the thread is gone.
    if (here->slot != nullptr && pthread_setspecific(key_, here->slot) != 0) {
      Leave(here->slot);
      too_many_.store(true, std::memory_order_relaxed);
      *here = {.owner = number_};
    }
  }
  here->site = site;
  if (here->slot != nullptr) here->slot->site.store(site, std::memory_order_release);
}

// Null: from now on there are threads that nobody sees, and so no line is sure.
BackwardLines::Slot* BackwardLines::TakeSlot() {
  for (uint32_t i = 0; i < kThreads; ++i) {
    uint32_t is_free = 0;
    if (!slots_[i].taken.compare_exchange_strong(is_free, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      continue;
    }
    uint32_t used = used_.load(std::memory_order_relaxed);
    while (used <= i && !used_.compare_exchange_weak(used, i + 1, std::memory_order_release)) {
    }
    return &slots_[i];
  }
  too_many_.store(true, std::memory_order_relaxed);
  return nullptr;
}

uint32_t BackwardLines::Get() const {
  if (too_many_.load(std::memory_order_relaxed)) return 0;
  uint32_t found = 0;
  const uint32_t used = used_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    const uint32_t site = slots_[i].site.load(std::memory_order_acquire);
    if (site == 0 || site == found) continue;
    if (found != 0) return 0;
    found = site;
  }
  return found;
}

}  // namespace slipstream::tracer
