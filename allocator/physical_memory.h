// The memory of a device behind a range of addresses, in pages: which of them have memory, and who reaches it.
//
// A page is what the driver maps at least, 2 MiB on every device so far. Memory comes in handles of one page or of many
// (an H200 takes 9 us to make one of one page and 19 us to open it), at most kMostPages, so that memory can be given
// back in pieces; a handle goes back whole.
//
// Threading: Map and Unmap from any thread, each range one thread's; Open any thread. No lock is held in the driver.
// Ownership: what Clear has not given back stays the process's when this goes.
// Errors: the driver's own; a Map that fails leaves nothing in its range.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cuda/driver.h"

namespace slipstream::allocator {

class PhysicalMemory {
 public:
  static constexpr size_t kMostPages = 16;
  static constexpr size_t kMostDevices = 64;

  explicit PhysicalMemory(const cuda::Driver& driver) : driver_(driver) {}
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  // Reserves addresses for memory of the device: at least `bytes`, all of them holes. Once.
  CUresult Reserve(CUdevice device, uint64_t bytes);

  CUdeviceptr base() const { return base_; }
  uint64_t size() const { return size_; }
  uint64_t page() const { return page_; }
  uint64_t mapped_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }

  // The memory of one handle: where, and how large.
  struct Handle {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  // Memory behind the range, which has none; offsets and sizes are multiples of page(). For the device itself, and for
  // whom it was opened to. The handles `from` come first: they leave their places, where nothing may use them any more
  // (S39), and together they are no larger than the range. A Map that fails may have given some of them back:
  // NextHandle says whether one is where it was.
  CUresult Map(uint64_t offset, uint64_t bytes, std::span<const Handle> from = {});

  // The first handle that begins at `offset` or behind it and ends by `end`. Bytes are 0: none.
  Handle NextHandle(uint64_t offset, uint64_t end) const;

  // Gives back the memory of a range of whole handles. Nothing may use it any more, on any device (S39). False: the
  // driver refuses, and some is mapped still.
  bool Unmap(uint64_t offset, uint64_t bytes);
  // All of it, and the addresses. False as above; may be tried again.
  bool Clear();

  // The device may read and write all of it, from now on (S33): also what is mapped later.
  CUresult Open(CUdevice device);

 private:
  struct Release {
    void operator()(void* pages) const;
  };
  // Of a handle's first page; other pages are as they were made.
  struct Page {
    CUmemGenericAllocationHandle handle;
    std::atomic<uint32_t> pages;  // of the handle; 0: none begins here
    std::atomic<uint32_t> ready;  // it is mapped, and open to all who were in `users_` then
  };

  CUresult MapHandle(size_t first, size_t pages);
  CUresult MoveHandle(size_t from, size_t to);
  CUresult Allow(uint64_t offset, uint64_t bytes, uint64_t users) const;

  const cuda::Driver& driver_;
  CUdevice device_ = 0;
  CUdeviceptr base_ = 0;
  uint64_t size_ = 0;
  uint64_t page_ = 0;
  std::unique_ptr<Page[], Release> pages_;
  std::atomic<uint64_t> users_{0};  // a bit a device
  std::atomic<uint64_t> mapped_bytes_{0};
  std::atomic<size_t> highest_{0};  // pages from here on were never mapped
};

}  // namespace slipstream::allocator
