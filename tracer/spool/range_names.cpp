#include "tracer/spool/range_names.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "tracer/base/claim.h"

namespace slipstream::tracer {
namespace {

// FNV-1a, 64 bits.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash ^ hash >> 32;
}

}  // namespace

RangeNames* RangeNames::Create(const Limits& limits) {
  const size_t bytes =
      2 * size_t{limits.names} * sizeof(std::atomic<uint32_t>) + limits.names * sizeof(Name) + limits.bytes;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const names = new (std::nothrow) RangeNames(limits, static_cast<char*>(memory), bytes);
  if (names == nullptr) munmap(memory, bytes);
  return names;
}

RangeNames::RangeNames(const Limits& limits, char* memory, size_t memory_bytes)
    : limits_(limits), memory_(memory), memory_bytes_(memory_bytes) {
  names_ = reinterpret_cast<Name*>(memory);
  slots_ = reinterpret_cast<std::atomic<uint32_t>*>(names_ + limits.names);
  texts_ = reinterpret_cast<char*>(slots_ + 2 * size_t{limits.names});
}

RangeNames::~RangeNames() { munmap(memory_, memory_bytes_); }

uint32_t RangeNames::Write(std::string_view text, uint64_t hash) {
  size_t at = 0;
  if (!Claim(&used_bytes_, limits_.bytes, text.size(), &at)) return kUnknown;
  uint32_t name = kUnknown;
  if (!Claim(&count_, limits_.names, 1, &name)) return kUnknown;
  if (!text.empty()) std::memcpy(texts_ + at, text.data(), text.size());
  names_[name].bytes = static_cast<uint32_t>(text.size());
  names_[name].hash = hash;
  names_[name].at = at;
  names_[name].is_written.store(1, std::memory_order_release);
  return name;
}

uint32_t RangeNames::Intern(std::string_view text) {
  text = text.substr(0, kMaxTextBytes);
  const uint64_t hash = HashOf(text);
  const size_t mask = 2 * size_t{limits_.names} - 1;
  uint32_t mine = kUnknown;
  // There are twice as many slots as names: a free one comes.
  for (size_t slot = hash;; ++slot) {
    std::atomic<uint32_t>& entry = slots_[slot & mask];
    uint32_t found = entry.load(std::memory_order_acquire);
    if (found == kUnknown) {
      if (mine == kUnknown) mine = Write(text, hash);
      if (mine == kUnknown) {
        unknown_.fetch_add(1, std::memory_order_relaxed);
        return kUnknown;
      }
      if (entry.compare_exchange_strong(found, mine, std::memory_order_acq_rel, std::memory_order_acquire)) return mine;
    }
    // Taken, maybe since the line before, maybe by this text.
    const Name& name = names_[found];
    if (name.hash == hash && std::string_view(texts_ + name.at, name.bytes) == text) return found;
  }
}

bool RangeNames::Describe(uint32_t name, std::string_view* text) const {
  if (name == kUnknown || name >= size() || names_[name].is_written.load(std::memory_order_acquire) == 0) return false;
  *text = {texts_ + names_[name].at, names_[name].bytes};
  return true;
}

}  // namespace slipstream::tracer
