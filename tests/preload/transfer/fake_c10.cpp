// PyTorch's allocator of host memory, as far as a program sees of it (c10/core/impl/alloc_cpu.h), and tensors that come
// from it.

#include <cstddef>
#include <cstdlib>
#include <stdexcept>

#define FAKE_EXPORT __attribute__((visibility("default")))

namespace {
int allocated = 0;
int freed = 0;
}  // namespace

extern "C" {
FAKE_EXPORT bool FLAGS_caffe2_cpu_allocator_do_zero_fill = false;
}

namespace c10 {

FAKE_EXPORT void* alloc_cpu(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* block = nullptr;
  if (bytes > (size_t{1} << 40) || posix_memalign(&block, 64, bytes) != 0) {
    throw std::runtime_error("you tried to allocate too many bytes");
  }
  ++allocated;
  return block;
}

FAKE_EXPORT void free_cpu(void* block) {
  ++freed;
  std::free(block);
}

}  // namespace c10

extern "C" {

// What the tensor library does, whose calls of these two can be bound elsewhere.
FAKE_EXPORT void* FakeTensor(size_t bytes, bool* failed) {
  try {
    return c10::alloc_cpu(bytes);
  } catch (const std::runtime_error&) {
    *failed = true;
    return nullptr;
  }
}
FAKE_EXPORT void FakeDrop(void* tensor) { c10::free_cpu(tensor); }
FAKE_EXPORT int FakeAllocated() { return allocated; }
FAKE_EXPORT int FakeFreed() { return freed; }

}  // extern "C"
