#include "allocator/physical_memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "cuda/mutant.h"

namespace slipstream::allocator {
namespace {

CUmemAllocationProp PropertiesOf(CUdevice device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

void PhysicalMemory::Release::operator()(void* pages) const { std::free(pages); }

bool PhysicalMemory::Clear() {
  if (base_ == 0) return true;
  if (!Unmap(0, size_) || driver_.cuMemAddressFree(base_, size_) != CUDA_SUCCESS) return false;
  base_ = 0;
  size_ = 0;
  return true;
}

CUresult PhysicalMemory::Reserve(CUdevice device, uint64_t bytes) {
  size_t page = 0;
  const CUmemAllocationProp properties = PropertiesOf(device);
  CUresult result = driver_.cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return result;
  if (!std::has_single_bit(page)) return CUDA_ERROR_NOT_SUPPORTED;
  bytes = (bytes + page - 1) / page * page;
  // Zeroed pages of the system's, which take no memory until they are written.
  pages_.reset(static_cast<Page*>(std::calloc(bytes / page, sizeof(Page))));
  if (pages_ == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr base = 0;
  result = driver_.cuMemAddressReserve(&base, bytes, page, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  device_ = device;
  base_ = base;
  size_ = bytes;
  page_ = page;
  users_.store(uint64_t{1} << device, std::memory_order_seq_cst);
  return CUDA_SUCCESS;
}

CUresult PhysicalMemory::Allow(uint64_t offset, uint64_t bytes, uint64_t users) const {
  std::array<CUmemAccessDesc, kMostDevices> access = {};
  size_t count = 0;
  for (; users != 0; users &= users - 1) {
    CUmemAccessDesc& one = access[count++];
    one.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    one.location.id = std::countr_zero(users);
    one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return driver_.cuMemSetAccess(base_ + offset, bytes, access.data(), count);
}

CUresult PhysicalMemory::MapHandle(size_t first, size_t pages) {
  Page& page = pages_[first];
  const CUmemAllocationProp properties = PropertiesOf(device_);
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = driver_.cuMemCreate(&handle, pages * page_, &properties, 0);
  if (result != CUDA_SUCCESS) return result;
  result = driver_.cuMemMap(base_ + first * page_, pages * page_, 0, handle, 0);
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(handle);
    return result;
  }
  page.handle = handle;
  page.pages = static_cast<uint32_t>(pages);
  mapped_bytes_.fetch_add(pages * page_, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

// A handle that the driver unmaps and does not map again is given back.
CUresult PhysicalMemory::MoveHandle(size_t from, size_t to) {
  Page& old = pages_[from];
  const uint32_t pages = old.pages;
  const uint64_t bytes = pages * page_;
  old.ready.store(0, std::memory_order_seq_cst);
  CUresult result = driver_.cuMemUnmap(base_ + from * page_, bytes);
  if (result != CUDA_SUCCESS) {
    old.ready.store(1, std::memory_order_seq_cst);
    return result;
  }
  old.pages.store(0, std::memory_order_seq_cst);
  result = driver_.cuMemMap(base_ + to * page_, bytes, 0, old.handle, 0);
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(old.handle);
    mapped_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return result;
  }
  pages_[to].handle = old.handle;
  pages_[to].pages.store(pages, std::memory_order_seq_cst);
  return CUDA_SUCCESS;
}

CUresult PhysicalMemory::Map(uint64_t offset, uint64_t bytes, std::span<const Handle> from) {
  const size_t first = offset / page_;
  const size_t end = first + bytes / page_;
  size_t highest = highest_.load(std::memory_order_relaxed);
  while (highest < end && !highest_.compare_exchange_weak(highest, end, std::memory_order_seq_cst)) {
  }
  CUresult result = CUDA_SUCCESS;
  size_t at = first;
  for (const Handle& handle : from) {
    result = MoveHandle(handle.offset / page_, at);
    if (result != CUDA_SUCCESS) break;
    at += handle.bytes / page_;
  }
  while (at < end && result == CUDA_SUCCESS) {
    const size_t pages = end - at >= kMostPages ? kMostPages : 1;
    result = MapHandle(at, pages);
    if (result == CUDA_SUCCESS) at += pages;
  }
  // Somebody may be let in meanwhile: whoever comes after the last look finds the handles ready.
  uint64_t users = 0;
  while (result == CUDA_SUCCESS && users != users_.load(std::memory_order_seq_cst)) {
    users = users_.load(std::memory_order_seq_cst);
    result = Allow(offset, bytes, users);
    for (size_t page = first; page < end && result == CUDA_SUCCESS; page += pages_[page].pages) {
      pages_[page].ready.store(1, std::memory_order_seq_cst);
    }
  }
  if (result != CUDA_SUCCESS) Unmap(offset, (at - first) * page_);
  return result;
}

PhysicalMemory::Handle PhysicalMemory::NextHandle(uint64_t offset, uint64_t end) const {
  end = std::min(end, highest_.load(std::memory_order_relaxed) * page_);
  for (size_t page = (offset + page_ - 1) / page_; (page + 1) * page_ <= end; ++page) {
    const uint64_t pages = pages_[page].pages;
    if (pages == 0) continue;
    if ((page + pages) * page_ > end) break;
    return {.offset = page * page_, .bytes = pages * page_};
  }
  return {};
}

bool PhysicalMemory::Unmap(uint64_t offset, uint64_t bytes) {
  const uint64_t end = offset + bytes;
  for (Handle handle = NextHandle(offset, end); handle.bytes != 0; handle = NextHandle(handle.offset, end)) {
    Page& page = pages_[handle.offset / page_];
    page.ready.store(0, std::memory_order_seq_cst);
    if (driver_.cuMemUnmap(base_ + handle.offset, handle.bytes) != CUDA_SUCCESS) return false;
    driver_.cuMemRelease(page.handle);
    page.pages.store(0, std::memory_order_seq_cst);
    mapped_bytes_.fetch_sub(handle.bytes, std::memory_order_relaxed);
  }
  return true;
}

CUresult PhysicalMemory::Open(CUdevice device) {
  if (Broken(Mutant::kS33)) return CUDA_SUCCESS;
  users_.fetch_or(uint64_t{1} << device, std::memory_order_seq_cst);
  const size_t end = highest_.load(std::memory_order_seq_cst);
  CUresult result = CUDA_SUCCESS;
  for (size_t page = 0; page < end; ++page) {
    // A handle that is not ready yet is opened to everybody by whoever maps it. One that is unmapped at this moment is
    // nobody's memory: that the driver refuses is no failure.
    if (pages_[page].ready.load(std::memory_order_seq_cst) == 0) continue;
    const CUresult allowed = Allow(page * page_, pages_[page].pages * page_, uint64_t{1} << device);
    if (allowed != CUDA_SUCCESS && pages_[page].ready.load(std::memory_order_seq_cst) != 0) result = allowed;
  }
  return result;
}

}  // namespace slipstream::allocator
