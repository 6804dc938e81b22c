// Room of tables that grow while they are read: the next number, or the next bytes of memory that was reserved once.
//
// Threading: any thread, lock-free: no lock can be left held by a fork or a killed thread.
#pragma once

#include <atomic>
#include <type_traits>

namespace slipstream::tracer {

// Takes the next `size` of `limit`, of which `used` are taken; false: there is no room.
template <typename T>
bool Claim(std::atomic<T>* used, std::type_identity_t<T> limit, std::type_identity_t<T> size, T* at) {
  T next = used->load(std::memory_order_relaxed);
  do {
    if (size > limit - next) return false;
  } while (!used->compare_exchange_weak(next, next + size, std::memory_order_acq_rel, std::memory_order_relaxed));
  *at = next;
  return true;
}

}  // namespace slipstream::tracer
