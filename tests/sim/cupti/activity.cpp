// Buffers and records.
#include "tests/sim/cupti/cupti.h"

// Leans on the one above.
#include <cupti_activity_deprecated.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace simcupti {
namespace {

// Records keep this alignment in a buffer.
constexpr size_t kAlignment = ACTIVITY_RECORD_ALIGNMENT;

// Of records that are there for clients to stumble over.
constexpr size_t kOtherBytes = 64;

struct Buffer {
  uint8_t* bytes = nullptr;
  size_t size = 0;
  size_t used = 0;
};

struct Activity {
  std::mutex mutex;
  std::condition_variable wake;  // of the thread
  std::condition_variable done;
  std::array<std::atomic<bool>, CUPTI_ACTIVITY_KIND_COUNT> enabled{};
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::atomic<CUpti_TimestampCallbackFunc> clock{nullptr};
  std::deque<simWork> finished;  // not in a buffer yet
  Buffer buffer;
  bool asking = false;  // somebody asks for a buffer
  uint64_t flushes_wanted = 0;
  uint64_t flushes_done = 0;
  size_t dropped = 0;
  bool started = false;
};

// Never destroyed: its thread goes on until the process is gone.
Activity& The() {
  static Activity* const activity = new Activity;
  return *activity;
}

thread_local bool t_in_buffer_callback = false;
std::atomic<uint64_t> g_violations{0};
// CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER: the client promises zeros; else they are made where the buffer was
// asked for, which is a stall of the program.
std::atomic<uint8_t> g_zeroed_by_client{0};
std::atomic<uint64_t> g_zeroed_here{0};

bool IsBetweenDevices(const simWork& work) {
  return work.from_device >= 0 && work.to_device >= 0 && work.from_device != work.to_device;
}

CUpti_ActivityKind KindOf(const simWork& work) {
  switch (work.kind) {
    case SIM_WORK_KERNEL:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case SIM_WORK_COPY:
      return IsBetweenDevices(work) ? CUPTI_ACTIVITY_KIND_MEMCPY2 : CUPTI_ACTIVITY_KIND_MEMCPY;
    case SIM_WORK_WAIT:
      return CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    default:
      return CUPTI_ACTIVITY_KIND_MEMSET;
  }
}

bool IsOld() { return Version() < 130000; }

size_t SizeOf(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return IsOld() ? sizeof(CUpti_ActivityKernel9) : sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return IsOld() ? sizeof(CUpti_ActivityMemcpy5) : sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return kOtherBytes;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return IsOld() ? sizeof(CUpti_ActivitySynchronization) : sizeof(CUpti_ActivitySynchronization2);
    default:
      return 0;
  }
}

uint8_t CopyKind(int from, int to) {
  const bool from_host = from == SIM_PLACE_PAGEABLE || from == SIM_PLACE_PINNED;
  const bool to_host = to == SIM_PLACE_PAGEABLE || to == SIM_PLACE_PINNED;
  if (from_host) {
    return to_host ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOH : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  }
  return to_host ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
}

// By the client's clock, where there is one: by what it says now, and what the other one does.
uint64_t TimeOf(uint64_t monotonic_ns) {
  const auto clock = The().clock.load();
  if (clock == nullptr) {
    return ClockNs(monotonic_ns);
  }
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return clock() - (static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec)) +
         monotonic_ns;
}

template <typename Record>
Record Common(const simWork& work) {
  Record record = {};
  record.kind = KindOf(work);
  record.start = TimeOf(work.start_ns);
  record.end = work.correlation % 4 == 0 && HasFault("zero") ? 0 : TimeOf(work.end_ns);
  record.deviceId = work.device;
  record.contextId = work.context;
  record.streamId = work.stream;
  record.correlationId = work.correlation;
  record.graphNodeId = work.graph_node;
  return record;
}

template <typename Record>
void PutKernel(const simWork& work, uint8_t* to) {
  auto record = Common<Record>(work);
  record.name = work.name;
  record.registersPerThread = 32;
  record.gridX = static_cast<int32_t>(work.grid[0]);
  record.gridY = static_cast<int32_t>(work.grid[1]);
  record.gridZ = static_cast<int32_t>(work.grid[2]);
  record.blockX = static_cast<int32_t>(work.block[0]);
  record.blockY = static_cast<int32_t>(work.block[1]);
  record.blockZ = static_cast<int32_t>(work.block[2]);
  record.staticSharedMemory = 128;
  record.dynamicSharedMemory = static_cast<int32_t>(work.shared_bytes);
  std::memcpy(to, &record, sizeof record);
}

template <typename Record>
void PutCopy(const simWork& work, uint8_t* to) {
  auto record = Common<Record>(work);
  record.bytes = work.bytes;
  record.srcKind = static_cast<uint8_t>(work.from);
  record.dstKind = static_cast<uint8_t>(work.to);
  record.copyKind = CopyKind(work.from, work.to);
  std::memcpy(to, &record, sizeof record);
}

void PutCopyBetweenDevices(const simWork& work, uint8_t* to) {
  auto record = Common<CUpti_ActivityMemcpyPtoP4>(work);
  record.bytes = work.bytes;
  record.srcKind = static_cast<uint8_t>(work.from);
  record.dstKind = static_cast<uint8_t>(work.to);
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  record.srcDeviceId = static_cast<uint32_t>(work.from_device);
  record.dstDeviceId = static_cast<uint32_t>(work.to_device);
  std::memcpy(to, &record, sizeof record);
}

template <typename Record>
void PutWait(const simWork& work, uint8_t* to) {
  Record record = {};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = static_cast<CUpti_ActivitySynchronizationType>(work.wait);
  record.start = TimeOf(work.start_ns);
  record.end = TimeOf(work.end_ns);
  record.correlationId = work.correlation;
  record.contextId = work.context;
  record.streamId = work.stream;
  record.cudaEventId = work.event;
  std::memcpy(to, &record, sizeof record);
}

void Put(const simWork& work, uint8_t* to) {
  switch (work.kind) {
    case SIM_WORK_KERNEL:
      return IsOld() ? PutKernel<CUpti_ActivityKernel9>(work, to) : PutKernel<CUpti_ActivityKernel10>(work, to);
    case SIM_WORK_COPY:
      if (IsBetweenDevices(work)) {
        return PutCopyBetweenDevices(work, to);
      }
      return IsOld() ? PutCopy<CUpti_ActivityMemcpy5>(work, to) : PutCopy<CUpti_ActivityMemcpy6>(work, to);
    case SIM_WORK_WAIT:
      return IsOld() ? PutWait<CUpti_ActivitySynchronization>(work, to)
                     : PutWait<CUpti_ActivitySynchronization2>(work, to);
    default: {
      auto record = Common<CUpti_ActivityMemset4>(work);
      record.bytes = work.bytes;
      record.value = work.value;
      record.memoryKind = static_cast<uint16_t>(work.to);
      std::memcpy(to, &record, sizeof record);
    }
  }
}

void PutOther(CUpti_ActivityKind kind, Buffer* buffer) {
  if (buffer->bytes == nullptr || buffer->used == 0 || buffer->size - buffer->used < kOtherBytes) {
    return;
  }
  CUpti_Activity other = {};
  other.kind = kind;
  std::memcpy(buffer->bytes + buffer->used, &other, sizeof other);
  buffer->used += kOtherBytes;
}

bool AnyEnabled(const Activity& activity) {
  for (const std::atomic<bool>& each : activity.enabled) {
    if (each.load()) {
      return true;
    }
  }
  return false;
}

void MakeZero(const Buffer& buffer) {
  if (buffer.bytes == nullptr) return;
  if (g_zeroed_by_client.load() == 0) {
    std::memset(buffer.bytes, 0, buffer.size);
    g_zeroed_here.fetch_add(1);
  } else if (std::any_of(buffer.bytes, buffer.bytes + buffer.size, [](uint8_t byte) { return byte != 0; })) {
    g_violations.fetch_add(1);
  }
}

// Asks the client for a buffer, with no lock held. Only one thread at a time does.
void Ask(Activity& activity, std::unique_lock<std::mutex>& lock) {
  activity.done.wait(lock, [&activity] { return !activity.asking; });
  if (activity.buffer.bytes != nullptr || activity.request == nullptr || HasFault("starved")) {
    return;
  }
  activity.asking = true;
  const auto request = activity.request;
  lock.unlock();
  Buffer fresh;
  size_t most = 0;
  t_in_buffer_callback = true;
  request(&fresh.bytes, &fresh.size, &most);
  t_in_buffer_callback = false;
  lock.lock();
  if (reinterpret_cast<uintptr_t>(fresh.bytes) % kAlignment != 0 || fresh.size < 1024) {
    fresh = {};
  }
  MakeZero(fresh);
  activity.buffer = fresh;
  activity.asking = false;
  activity.done.notify_all();
}

// To whoever is registered now, whoever gave it.
void GiveBack(Activity& activity, std::unique_lock<std::mutex>& lock) {
  activity.done.wait(lock, [&activity] { return !activity.asking; });
  if (HasFault("broken")) {
    PutOther(CUPTI_ACTIVITY_KIND_INVALID, &activity.buffer);
  }
  const Buffer full = activity.buffer;
  const auto complete = activity.complete;
  activity.buffer = {};
  if (full.bytes == nullptr || complete == nullptr) {
    return;
  }
  lock.unlock();
  t_in_buffer_callback = true;
  complete(nullptr, 0, full.bytes, full.size, full.used);
  t_in_buffer_callback = false;
  lock.lock();
}

void Loop() {
  Activity& activity = The();
  std::unique_lock lock(activity.mutex);
  for (;;) {
    activity.wake.wait(
        lock, [&activity] { return !activity.finished.empty() || activity.flushes_done < activity.flushes_wanted; });
    const uint64_t flush = activity.flushes_wanted;
    while (!activity.finished.empty()) {
      const simWork work = activity.finished.front();
      CUpti_Activity kind = {};
      kind.kind = KindOf(work);
      const size_t size = SizeOf(kind);
      if (activity.buffer.bytes != nullptr && activity.buffer.size - activity.buffer.used < size) {
        GiveBack(activity, lock);
      }
      if (activity.buffer.bytes == nullptr) {
        Ask(activity, lock);
      }
      if (activity.finished.empty()) {
        break;
      }
      activity.finished.pop_front();
      if (activity.buffer.bytes == nullptr) {
        ++activity.dropped;
        continue;
      }
      Put(work, activity.buffer.bytes + activity.buffer.used);
      activity.buffer.used += size;
      if (HasFault("unknown")) {
        PutOther(CUPTI_ACTIVITY_KIND_MARKER, &activity.buffer);
      }
    }
    if (activity.flushes_done < flush) {
      GiveBack(activity, lock);
      activity.flushes_done = flush;
      activity.done.notify_all();
    }
  }
}

[[gnu::destructor]] void DeliverLate() {
  if (!HasFault("late") || IsForkedChild()) {
    return;
  }
  Activity& activity = The();
  std::unique_lock lock(activity.mutex);
  GiveBack(activity, lock);
}

CUptiResult Enable(CUpti_ActivityKind kind, bool enable) {
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) {
    return CUPTI_ERROR_INVALID_KIND;
  }
  if (!Listen()) {
    return CUPTI_ERROR_NOT_INITIALIZED;
  }
  The().enabled[kind].store(enable);
  return CUPTI_SUCCESS;
}

}  // namespace

bool RefusedHere() {
  if (t_in_buffer_callback) {
    g_violations.fetch_add(1);
  }
  return t_in_buffer_callback;
}

void Submitted() {
  Activity& activity = The();
  std::unique_lock lock(activity.mutex);
  if (activity.buffer.bytes == nullptr && AnyEnabled(activity)) {
    Ask(activity, lock);
  }
}

void Finished(const simWork* work) {
  Activity& activity = The();
  if (!activity.enabled[KindOf(*work)].load()) {
    return;
  }
  const std::lock_guard guard(activity.mutex);
  activity.finished.push_back(*work);
  if (!activity.started) {
    activity.started = true;
    std::thread(Loop).detach();
  }
  activity.wake.notify_all();
}

}  // namespace simcupti

using namespace simcupti;

SIM_CUPTI_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  SIM_CUPTI_ENTER();
  return Enable(kind, true);
}
SIM_CUPTI_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  SIM_CUPTI_ENTER();
  return Enable(kind, false);
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                                                            CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  SIM_CUPTI_ENTER();
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  Activity& activity = The();
  const std::lock_guard guard(activity.mutex);
  activity.request = funcBufferRequested;
  activity.complete = funcBufferCompleted;
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
  SIM_CUPTI_ENTER();
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  if (funcTimestamp == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  The().clock.store(funcTimestamp);
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size, void* value) {
  SIM_CUPTI_ENTER();
  if (size == nullptr || value == nullptr || attribute != CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  if (*size < 1) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  g_zeroed_by_client.store(*static_cast<const uint8_t*>(value));
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t* size, void* value) {
  SIM_CUPTI_ENTER();
  if (size == nullptr || value == nullptr || attribute != CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  if (*size < 1) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  *static_cast<uint8_t*>(value) = g_zeroed_by_client.load();
  return CUPTI_SUCCESS;
}

// Returns when everything that was finished has been delivered.
SIM_CUPTI_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) {
  SIM_CUPTI_ENTER();
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  while (HasFault("stuck")) {
    pause();
  }
  if (HasFault("late")) {
    return CUPTI_SUCCESS;
  }
  Activity& activity = The();
  std::unique_lock lock(activity.mutex);
  if (!activity.started) {
    activity.started = true;
    std::thread(Loop).detach();
  }
  const uint64_t mine = ++activity.flushes_wanted;
  activity.wake.notify_all();
  activity.done.wait(lock, [&] { return activity.flushes_done >= mine; });
  return CUPTI_SUCCESS;
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes,
                                                        CUpti_Activity** record) {
  SIM_CUPTI_ENTER();
  if (buffer == nullptr || record == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<uint8_t*>(*record) + SizeOf(**record);
  }
  if (next >= buffer + validBufferSizeBytes) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return SizeOf(**record) != 0 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

SIM_CUPTI_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  SIM_CUPTI_ENTER();
  Activity& activity = The();
  const std::lock_guard guard(activity.mutex);
  *dropped = activity.dropped;
  activity.dropped = 0;
  return CUPTI_SUCCESS;
}

// What was delivered to nobody is gone, and so are subscriber and kinds.
SIM_CUPTI_EXPORT CUptiResult cuptiFinalize(void) {
  SIM_CUPTI_ENTER();
  if (RefusedHere()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  Activity& activity = The();
  ForgetSubscriber();
  for (std::atomic<bool>& each : activity.enabled) {
    each.store(false);
  }
  const std::lock_guard guard(activity.mutex);
  activity.finished.clear();
  activity.buffer = {};
  activity.request = nullptr;
  activity.complete = nullptr;
  activity.clock.store(nullptr);
  return CUPTI_SUCCESS;
}

// Whether somebody has asked for the kind.
SIM_CUPTI_EXPORT int simCuptiIsEnabled(CUpti_ActivityKind kind) { return The().enabled[kind].load() ? 1 : 0; }

// Buffers that CUPTI zeroed itself, because their clients had not promised that they had.
SIM_CUPTI_EXPORT uint64_t simCuptiZeroedBuffers(void) { return g_zeroed_here.load(); }

// Calls that CUPTI does not allow where they were made, and buffers that were promised to be zero and were not.
SIM_CUPTI_EXPORT uint64_t simCuptiViolations(void) { return g_violations.load(); }
