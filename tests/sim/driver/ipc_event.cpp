// Events between processes. The state lies in a memory file that both map: how often the event was recorded, how many
// of these records are complete, and how many somebody waits for. A process in adversarial mode runs nothing by itself,
// so a thread in each sharing process looks whether the other one waits for a record made here.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/sim/driver/event.h"
#include "tests/sim/driver/use_context.h"

namespace simcuda {

struct SharedEvent {
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> complete;
  std::atomic<uint64_t> demanded;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

namespace {

constexpr uint64_t kEventMagic = 0x51AC0DE0E7E27000u;

struct EventHandle {
  uint64_t magic;
  int32_t pid;
  int32_t file;
};

void Raise(std::atomic<uint64_t>* value, uint64_t to) {
  uint64_t now = value->load();
  while (now < to && !value->compare_exchange_weak(now, to)) {
  }
}

// Records made by this process that may not be complete.
struct Pending {
  SharedEvent* shared;
  uint64_t ticket;
  OpPtr op;
};
std::vector<Pending>& Records() {
  static auto* const records = new std::vector<Pending>;  // under World::mutex
  return *records;
}

void ServeOthers() {
  World& world = TheWorld();
  for (;;) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    Lock lock(world.mutex);
    std::vector<OpPtr> wanted;
    for (const Pending& record : Records()) {
      if (record.shared->demanded.load() >= record.ticket) {
        wanted.push_back(record.op);
      }
    }
    if (!wanted.empty()) {
      RunUntilDone(world, lock, wanted);
    }
    std::erase_if(Records(), [](const Pending& record) { return record.op->done(); });
  }
}

void StartServing() {
  static bool started = false;  // under World::mutex
  if (!started) {
    started = true;
    std::thread(ServeOthers).detach();
  }
}

}  // namespace

void AttachShared(Event* event, Work* work) {
  if (event->shared == nullptr) {
    return;
  }
  SharedEvent* shared = event->shared;
  const uint64_t ticket = shared->recorded.fetch_add(1) + 1;
  event->ticket = ticket;
  work->body = [shared, ticket](Op&) { Raise(&shared->complete, ticket); };
}

void NoteSharedRecord(Event* event) {
  if (event->shared != nullptr) {
    Records().push_back({event->shared, event->ticket, event->recorded});
  }
}

void DemandShared(Event* event) { Raise(&event->shared->demanded, event->shared->recorded.load()); }

bool SharedComplete(const Event* event) { return event->shared->complete.load() >= event->shared->recorded.load(); }

bool PrepareWait(Event* event, Work* work, std::vector<OpPtr>* dependencies) {
  if (event->shared != nullptr) {
    SharedEvent* shared = event->shared;
    const uint64_t ticket = shared->recorded.load();
    if (shared->complete.load() >= ticket) {
      return false;
    }
    if (event->recorded && !event->recorded->done() && event->ticket == ticket) {
      dependencies->push_back(event->recorded);  // recorded here
      return true;
    }
    work->condition = [shared, ticket] {
      Raise(&shared->demanded, ticket);
      return shared->complete.load() >= ticket;
    };
    return true;
  }
  if (!event->recorded || event->recorded->done()) {
    return false;
  }
  dependencies->push_back(event->recorded);
  return true;
}

}  // namespace simcuda

using namespace simcuda;

SIM_DRIVER(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle, (CUipcEventHandle * pHandle, CUevent hEvent),
           (pHandle, hEvent)) {
  SIM_USE_CONTEXT()
  Event* event = FindEvent(world, hEvent);
  if (pHandle == nullptr || event == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((event->flags & CU_EVENT_INTERPROCESS) == 0 || event->imported) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->shared == nullptr) {
    const int file = memfd_create("simcuda-event", MFD_CLOEXEC);
    void* memory = MAP_FAILED;
    if (file >= 0 && ftruncate(file, 4096) == 0) {
      memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (memory == MAP_FAILED) {
      close(file);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->shared = static_cast<SharedEvent*>(memory);  // zero is "never recorded"
    event->shared_file = file;
    if (event->recorded && !event->recorded->done()) {
      // Recorded before it was shared: that record counts.
      SharedEvent* shared = event->shared;
      event->ticket = shared->recorded.fetch_add(1) + 1;
      const uint64_t ticket = event->ticket;
      event->recorded->work.body = [shared, ticket](Op&) { Raise(&shared->complete, ticket); };
      NoteSharedRecord(event);
    }
    StartServing();
  }
  EventHandle handle = {kEventMagic, getpid(), event->shared_file};
  std::memset(pHandle, 0, sizeof *pHandle);
  std::memcpy(pHandle->reserved, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle, (CUevent * phEvent, CUipcEventHandle handle),
           (phEvent, handle)) {
  SIM_USE_CONTEXT()
  EventHandle from = {};
  std::memcpy(&from, handle.reserved, sizeof from);
  if (phEvent == nullptr || from.magic != kEventMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from.pid == getpid()) {
    return CUDA_ERROR_INVALID_CONTEXT;  // measured: a process cannot open its own
  }
  const std::string path = "/proc/" + std::to_string(from.pid) + "/fd/" + std::to_string(from.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    return CUDA_ERROR_MAP_FAILED;
  }
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    return CUDA_ERROR_MAP_FAILED;
  }
  auto event = std::make_unique<Event>();
  event->context = context;
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->shared = static_cast<SharedEvent*>(memory);
  event->imported = true;
  *phEvent = reinterpret_cast<CUevent>(event.get());
  world.events[*phEvent] = std::move(event);
  StartServing();
  return CUDA_SUCCESS;
}
