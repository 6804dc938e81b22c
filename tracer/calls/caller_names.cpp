#include "tracer/calls/caller_names.h"

#include <link.h>

#include <new>
#include <string_view>

#include "tracer/base/loaded_object_at.h"

namespace slipstream::tracer {
namespace {

constexpr int kNumberBits = 16;
constexpr uint32_t kMostNames = 1U << 10;
static_assert(kMostNames < 1U << kNumberBits);

}  // namespace

CallerNames* CallerNames::Create() {
  RangeNames* const names = RangeNames::Create({.names = kMostNames, .bytes = size_t{256} << 10});
  if (names == nullptr) return nullptr;
  auto* const callers = new (std::nothrow) CallerNames(names);
  if (callers == nullptr) delete names;
  return callers;
}

uint32_t CallerNames::Of(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address == 0 || address >> (64 - kNumberBits) != 0) return RangeNames::kUnknown;
  std::atomic<uint64_t>& place = known_[(address * 0x9E3779B97F4A7C15u >> 40) % kPlaces];
  const uint64_t found = place.load(std::memory_order_relaxed);
  if (found >> kNumberBits == address) return static_cast<uint32_t>(found & ((1U << kNumberBits) - 1));
  dl_find_object object = {};
  // Where a call returns to may be the first instruction behind its function.
  void* const inside = reinterpret_cast<void*>(address - 1);
  if (!LoadedObjectAt(inside, &object) || object.dlfo_link_map == nullptr) return RangeNames::kUnknown;
  const char* const path = object.dlfo_link_map->l_name;
  const uint32_t number = names_->Intern(path != nullptr ? std::string_view(path) : std::string_view());
  if (number != RangeNames::kUnknown) place.store(address << kNumberBits | number, std::memory_order_relaxed);
  return number;
}

}  // namespace slipstream::tracer
