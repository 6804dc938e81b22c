// Moves the records of this process from any thread to its spool file.
//
//   any thread        Record -> the thread's own ring (record_ring.h): 64 bytes copied, no lock, no allocation
//   one thread of ours          every period, or when a ring is half full -> chunks (spool_format.h) -> write
//
// It never makes the program wait or fail. A file that is slow, full or gone costs records, which are counted. A slow
// file costs them until it has recovered; any other failure ends the recording. So does the file's limit, unless the
// oldest records make room for the newest: what was written stays, and the file says why there is no more. The thread
// waits on for the process's end, to write down how many calls came after that.
//
// A forked child (fork, or clone without shared memory) records nothing, and its parent's file is out of its reach; it
// may start a recorder of its own.
//
// Threading: Start once; the rest from any thread.
// Hazard: Record runs inside the user's CUDA calls. A thread's first record maps its ring, one system call or a few,
//   and may allocate in pthread_setspecific. A thread that records from a destructor of thread-specific data, in the
//   last round of those, keeps its ring until the process ends.
// Ownership: leaked by the library, because threads record until the process is gone; tests may delete it when no
//   thread records any more.
// Errors: Start returns null and says why. errno stays as it was in Record.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "policy/record_window.h"
#include "tracer/base/futex.h"
#include "tracer/base/record_control.h"
#include "tracer/python/native_frames.h"
#include "tracer/spool/late_facts.h"
#include "tracer/spool/range_names.h"
#include "tracer/spool/record_rings.h"
#include "tracer/spool/record_switch.h"
#include "tracer/spool/spool_file.h"
#include "tracer/spool/spool_writer.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {

class CounterFile;

struct RecorderOptions {
  std::string directory;                          // of the run; must be there
  uint32_t ring_records = 4096;                   // a thread; a power of two from 8 to 2^20
  uint32_t max_rings = 256;                       // threads that record at once; 1 to 4096
  uint64_t max_file_bytes = uint64_t{256} << 20;  // at least 64 KiB
  bool keep_newest = false;                       // at the limit the oldest records make room
  bool samples_tasks = false;                     // what the process has at work is recorded too (task_sampler.h)
  bool turned_off = false;                        // until somebody asks for it
  RecordControl* control = nullptr;               // who does; null: nobody can. For as long as the process lives
  policy::RecordWindow window = {};               // what is recorded; of steps, whoever sees them says so
  uint64_t period_ns = 50'000'000;                // what SIGKILL may cost; 1 ms to 1 min
  uint64_t start_timeout_ns = 5'000'000'000;      // for making the file, which Start waits for
  JobIdentity job = {};
  Facts facts = {};                         // more about the process, for the file
  std::vector<std::string> decisions = {};  // by position; records have the position + 1
  const StackTree* stacks = nullptr;        // where records have their stacks from; null: they have none
  NativeFrames* native = nullptr;           // what native frames of them are described by; null: there are none
  const CounterFile* counters = nullptr;    // whose totals the file has at its end; null: nothing is counted
  FileCalls calls = {};
};

// The calling thread's ring, and whose it is.
struct RecorderPlace {
  uint64_t recorder = 0;
  RecordRing* ring = nullptr;
  uint32_t times_freed = 0;  // with no ring: when it was tried last
  uint32_t count = 0;        // which one of those of later calls the thread adds to, plus 1; any recorder's
};
extern constinit thread_local RecorderPlace t_recorder_place;

class Recorder {
 public:
  static constexpr uint64_t kMinFileBytes = uint64_t{64} << 10;

  static Recorder* Start(const RecorderOptions& options, SpoolFailure* why);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // False: not now, not any more, or this is a child.
  bool recording() const { return shared_->record.on(); }
  // RecordSwitch's: from any thread, lock-free.
  void Pause(RecordSwitch::Reason reason, bool paused) { shared_->record.Pause(reason, paused); }
  void BindPause(std::atomic<uint32_t>* word, uint32_t bit) { shared_->record.Bind(word, bit); }
  const policy::RecordWindow& window() const { return options_.window; }
  // What the devices do is paused too, but for a window of steps: a profiler comes too late for those. And it is over
  // where the recording has ended by itself: there is no room for it any more.
  bool pauses_devices() const {
    if (shared_->record.ended_by_itself()) return true;
    const bool by_time = options_.window.unit() == policy::RecordWindow::Unit::kSeconds;
    return shared_->record.paused_for(RecordSwitch::kTurnedOff | (by_time ? RecordSwitch::kOutsideWindow : 0U));
  }

  void Record(const TraceRecord& record) {
    if (!recording()) [[unlikely]] {
      if (record.kind == RecordKind::kCall) CountLaterCall();
      return;
    }
    RecordRing* ring = t_recorder_place.ring;
    if (t_recorder_place.recorder != number_ || ring == nullptr) [[unlikely]] {
      ring = TakeRing();
      if (ring == nullptr) return;
    }
    const RecordRing::Pushed pushed = ring->Push(record);
    if (pushed != RecordRing::Pushed::kYes) [[unlikely]]
      WakeWriter(pushed == RecordRing::Pushed::kHalfFull);
  }

  // A call that has no record, because the recording has ended by itself. Lock-free; does nothing where it has not.
  void CountLaterCall();

  // Where the sites of records come from. Call it once; it stays for good.
  void SetSites(const CodeSites* sites) { sites_.store(sites, std::memory_order_release); }

  // What the devices did is written too. Once; it stays for good.
  void SetDevice(DeviceRecords* device) { device_.store(device, std::memory_order_release); }
  // Facts about the process that were not known at the start.
  void Say(Facts facts) { late_facts_.Say(std::move(facts)); }
  // Where the texts of these numbers come from: kRanges or kCallers. Call it once for each; it stays for good.
  void SetNames(NameTable table, const RangeNames* names) {
    for (SpoolWriter::TextSource& source : texts_) {
      if (source.table == table) source.names.store(names, std::memory_order_release);
    }
  }

  // How many of the program's ranges found no room. Once; it stays for good.
  void SetLostRanges(const std::atomic<uint64_t>* lost) { lost_ranges_.store(lost, std::memory_order_release); }

  // Ends the recording, and waits until all records and the end mark are in the file, at most for the given time.
  // False: it took longer, or this is a child. From then on Record does nothing. May be called again.
  bool Finish(uint64_t timeout_ns);

  // Why it ended by itself: kNone while it runs and where Finish ended it, kWriting with the errno, or with 0 for the
  // limit.
  SpoolFailure failure() const;
  // Why the oldest records do not make room although they should, an errno: the file system does not give back a part
  // of a file. 0: they do, or need not.
  int cannot_keep_newest() const { return cannot_keep_newest_; }

 private:
  // kNone: a forked child. kStopped: the recording ended by itself, and the thread waits for Finish.
  enum State : uint32_t { kNone, kStarting, kRunning, kStopped, kEnded, kRefused };
  // Threads count in different lines of the processor's caches.
  static constexpr uint32_t kCounts = 16;
  struct alignas(64) Count {
    std::atomic<uint64_t> count;
  };

  // In memory that is zeros in a forked child.
  struct Shared {
    alignas(64) RecordSwitch record;
    alignas(64) std::atomic<uint32_t> asleep;  // the writer is, or is about to be
    std::atomic<uint32_t> state;
    std::atomic<uint32_t> finish;  // somebody wants it to end
    std::atomic<bool> let_go;  // by Start, which waits no longer, or by the thread, which is done: the first of both
    alignas(64) std::atomic<uint64_t> dropped_without_ring;
    std::array<Count, kCounts> later_calls;
  };

  explicit Recorder(const RecorderOptions& options);

  SpoolFailure SetUp();
  State WaitWhile(State state, uint64_t timeout_ns);
  void Become(State state);
  RecordRing* TakeRing();
  void WakeWriter(bool surely);
  static void* ThreadMain(void* recorder);
  State Write();
  void Sleep();
  bool IsOutsideWindow() const;
  void Obey();
  void SayState(RecordState state) const;
  void WaitForFinish();
  uint64_t LaterCalls() const;

  const RecorderOptions options_;
  const uint64_t number_;  // no two recorders of a process and its ancestors have the same
  Shared* shared_ = nullptr;
  RecordRings rings_;
  std::atomic<const CodeSites*> sites_{nullptr};
  std::atomic<DeviceRecords*> device_{nullptr};
  std::atomic<const std::atomic<uint64_t>*> lost_ranges_{nullptr};
  std::array<SpoolWriter::TextSource, 2> texts_ = {{{NameTable::kRanges}, {NameTable::kCallers}}};
  LateFacts late_facts_;
  pthread_key_t key_ = 0;
  bool has_key_ = false;
  bool has_thread_ = false;
  uint64_t start_ns_ = 0;       // the writer's
  int cannot_keep_newest_ = 0;  // the writer's, before it becomes kRunning
  SpoolFailure failure_;        // the writer's, before it becomes kStopped, kEnded or kRefused
};

}  // namespace slipstream::tracer
