// A chunk's payload while the reader takes it apart. For spool_reader*.cpp only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "tracer/spool/spool_reader.h"

namespace slipstream::tracer {

// Whether there is as much as is asked for is looked at before every read; the first failure is the last.
class SpoolReader::Payload {
 public:
  Payload(const char* bytes, size_t size) : at_(bytes), left_(size) {}

  template <typename T>
  bool Get(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left_ < sizeof(T)) return false;
    std::memcpy(static_cast<void*>(value), at_, sizeof(T));
    Skip(sizeof(T));
    return true;
  }
  bool Get(std::string* text) {
    uint32_t size = 0;
    if (!Get(&size) || left_ < size) return false;
    text->assign(at_, size);
    Skip(size);
    return true;
  }
  // Of what has grown: as much of it as there is, at least `least` bytes.
  template <typename T>
  bool GetSome(T* value, size_t least) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t size = std::min(left_, sizeof(T));
    if (size < least) return false;
    std::memcpy(static_cast<void*>(value), at_, size);
    Skip(size);
    return true;
  }
  void Skip(size_t size) {
    at_ += size;
    left_ -= size;
  }
  size_t left() const { return left_; }

 private:
  const char* at_;
  size_t left_;
};

}  // namespace slipstream::tracer
