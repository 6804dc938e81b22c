#include "tracer/spool/recorder.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <initializer_list>
#include <new>

#include "policy/helper_thread.h"
#include "tracer/base/clock.h"

namespace slipstream::tracer {

constinit thread_local RecorderPlace t_recorder_place;

namespace {

std::atomic<uint64_t> g_last_recorder{0};

std::atomic<uint32_t> g_last_count{0};

void EndRing(void* ring) {
  // A later destructor of this thread that records takes a ring anew.
  if (t_recorder_place.ring == ring) t_recorder_place = {.count = t_recorder_place.count};
  static_cast<RecordRing*>(ring)->End();
}

RecordRing::Owner OwnerHere() {
  RecordRing::Owner owner = {.thread = static_cast<uint32_t>(syscall(SYS_gettid))};
  if (prctl(PR_GET_NAME, owner.name) != 0) owner.name[0] = '\0';
  owner.name[sizeof(owner.name) - 1] = '\0';
  return owner;
}

bool AreGood(const RecorderOptions& options) {
  return std::has_single_bit(options.ring_records) && options.ring_records >= RecordRing::kMinRecords &&
         options.ring_records <= RecordRing::kMaxRecords && options.max_rings >= 1 &&
         options.max_rings <= RecordRings::kMaxRings && options.max_file_bytes >= Recorder::kMinFileBytes &&
         options.period_ns >= 1'000'000 && options.period_ns <= 60'000'000'000;
}

}  // namespace

Recorder::Recorder(const RecorderOptions& options)
    : options_(options),
      number_(g_last_recorder.fetch_add(1, std::memory_order_relaxed) + 1),
      rings_(options.ring_records, options.max_rings) {}

Recorder* Recorder::Start(const RecorderOptions& options, SpoolFailure* why) {
  *why = {};
  if (!AreGood(options)) {
    *why = {SpoolProblem::kBadOptions, 0};
    return nullptr;
  }
  Recorder* recorder = nullptr;
  try {
    recorder = new Recorder(options);
  } catch (...) {
    *why = {SpoolProblem::kNoMemory, 0};
    return nullptr;
  }
  *why = recorder->SetUp();
  if (why->problem == SpoolProblem::kNone) {
    switch (recorder->WaitWhile(kStarting, options.start_timeout_ns)) {
      case kRunning:
      case kStopped:
      case kEnded:
        return recorder;
      case kRefused:
        *why = recorder->failure_;
        break;
      default:
        // The thread has the recorder for as long as it takes, ends as soon as it can, and deletes it.
        *why = {SpoolProblem::kTooSlow, 0};
        recorder->shared_->finish.store(1, std::memory_order_release);
        if (!recorder->shared_->let_go.exchange(true, std::memory_order_acq_rel)) return nullptr;
        break;
    }
  }
  delete recorder;
  return nullptr;
}

SpoolFailure Recorder::SetUp() {
  if (!rings_.valid()) return {SpoolProblem::kNoMemory, 0};
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  static_assert(sizeof(Shared) <= 4096);
  void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {SpoolProblem::kNoMemory, errno};
  shared_ = new (memory) Shared{};
  if (madvise(memory, page, MADV_WIPEONFORK) != 0) return {SpoolProblem::kNoForkGuard, errno};
  if (const int error = pthread_key_create(&key_, EndRing); error != 0) return {SpoolProblem::kNoThread, error};
  has_key_ = true;
  shared_->state.store(kStarting, std::memory_order_relaxed);
  has_thread_ = policy::StartHelperThread("slipstream-rec", ThreadMain, this);
  if (!has_thread_) return {SpoolProblem::kNoThread, 0};
  return {};
}

Recorder::~Recorder() {
  if (has_thread_) {
    shared_->finish.store(1, std::memory_order_seq_cst);
    WakeWriter(/*surely=*/true);
    for (const State state : {kStarting, kRunning, kStopped}) {
      while (shared_->state.load(std::memory_order_acquire) == state) WaitWhile(state, 1'000'000'000);
    }
  }
  if (has_key_) pthread_key_delete(key_);
  if (shared_ != nullptr) munmap(shared_, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

RecordRing* Recorder::TakeRing() {
  const int kept = errno;
  RecorderPlace& place = t_recorder_place;
  const uint32_t times_freed = rings_.times_freed();
  if (place.recorder != number_ || place.times_freed != times_freed) {
    place = {.recorder = number_, .ring = rings_.Take(OwnerHere()), .times_freed = times_freed, .count = place.count};
    if (place.ring != nullptr) {
      // Without this it would not be used again; that is no reason not to use it now.
      pthread_setspecific(key_, place.ring);
      // Threads that come and go must not run out of rings before the writer's time comes.
      if (place.ring->owner()->number % (options_.max_rings / 4 + 1) == 0) WakeWriter(/*surely=*/false);
    }
  }
  if (place.ring == nullptr) {
    shared_->dropped_without_ring.fetch_add(1, std::memory_order_relaxed);
    WakeWriter(/*surely=*/false);
  }
  errno = kept;
  return place.ring;
}

// A look first: threads that drop one record after the other must not fight for the line. It may miss a writer that is
// just falling asleep, and then the next one wakes it, or its period.
void Recorder::WakeWriter(bool surely) {
  std::atomic<uint32_t>& asleep = shared_->asleep;
  if (!surely && asleep.load(std::memory_order_relaxed) == 0) return;
  if (asleep.exchange(0, std::memory_order_seq_cst) != 0) FutexWake(asleep);
}

Recorder::State Recorder::WaitWhile(State state, uint64_t timeout_ns) {
  const uint64_t start = NowNs();
  while (true) {
    const auto now = static_cast<State>(shared_->state.load(std::memory_order_acquire));
    const uint64_t waited = NowNs() - start;
    if (now != state || waited >= timeout_ns) return now;
    FutexWait(shared_->state, state, timeout_ns - waited);
  }
}

// Whoever waits for the last state may then delete this object: only the word's address is used behind it, and that of
// memory that is gone wakes nobody.
void Recorder::Become(State state) {
  std::atomic<uint32_t>& word = shared_->state;
  word.store(state, std::memory_order_release);
  FutexWake(word);
}

bool Recorder::Finish(uint64_t timeout_ns) {
  if (shared_->state.load(std::memory_order_acquire) == kNone) return false;
  shared_->finish.store(1, std::memory_order_seq_cst);
  WakeWriter(/*surely=*/true);
  const uint64_t start = NowNs();
  if (WaitWhile(kRunning, timeout_ns) == kStopped) {
    WaitWhile(kStopped, timeout_ns - std::min(timeout_ns, NowNs() - start));
  }
  return shared_->state.load(std::memory_order_acquire) == kEnded;
}

SpoolFailure Recorder::failure() const {
  const uint32_t state = shared_->state.load(std::memory_order_acquire);
  return state == kStopped || state == kEnded ? failure_ : SpoolFailure{};
}

void Recorder::CountLaterCall() {
  if (!shared_->record.ended_by_itself()) return;
  uint32_t& count = t_recorder_place.count;
  if (count == 0) count = g_last_count.fetch_add(1, std::memory_order_relaxed) % kCounts + 1;
  shared_->later_calls[count - 1].count.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Recorder::LaterCalls() const {
  uint64_t calls = 0;
  for (const Count& count : shared_->later_calls) calls += count.count.load(std::memory_order_relaxed);
  return calls;
}

void* Recorder::ThreadMain(void* recorder) {
  auto* const self = static_cast<Recorder*>(recorder);
  State last = kRefused;
  try {
    last = self->Write();
  } catch (...) {
    self->shared_->record.End(/*by_itself=*/false);
    self->failure_ = {SpoolProblem::kNoMemory, 0};
    const uint32_t state = self->shared_->state.load(std::memory_order_relaxed);
    if (state == kRunning || state == kStopped) last = kEnded;
  }
  const bool is_mine = self->shared_->let_go.exchange(true, std::memory_order_acq_rel);
  self->Become(last);
  if (is_mine) delete self;
  return nullptr;
}

Recorder::State Recorder::Write() {
  SpoolWriter writer({.rings = &rings_,
                      .sites = &sites_,
                      .stacks = options_.stacks,
                      .native = options_.native,
                      .texts = texts_,
                      .dropped_without_ring = &shared_->dropped_without_ring,
                      .device = &device_,
                      .record_switch = &shared_->record,
                      .late_facts = &late_facts_,
                      .lost_ranges = &lost_ranges_,
                      .counters = options_.counters},
                     options_.calls, options_.max_file_bytes, options_.max_rings);
  if (options_.keep_newest) writer.KeepNewest();
  if (options_.samples_tasks) writer.SampleTasks();
  failure_ = writer.Open(options_.directory, options_.job, options_.facts, options_.decisions);
  if (failure_.problem != SpoolProblem::kNone) return kRefused;
  cannot_keep_newest_ = writer.cannot_keep_newest();
  start_ns_ = NowNs();
  const uint32_t reasons = (IsOutsideWindow() ? uint32_t{RecordSwitch::kOutsideWindow} : 0U) |
                           (options_.turned_off ? uint32_t{RecordSwitch::kTurnedOff} : 0U);
  if (reasons != 0) writer.BeginPaused();
  shared_->record.Begin(reasons);
  Obey();
  Become(kRunning);
  bool last = false;
  while (!last) {
    last = shared_->finish.load(std::memory_order_acquire) != 0;
    if (last) {
      writer.RecordingEnds();
      shared_->record.End(/*by_itself=*/false);
    }
    if (options_.window.unit() == policy::RecordWindow::Unit::kSeconds) {
      shared_->record.Pause(RecordSwitch::kOutsideWindow, IsOutsideWindow());
    }
    if (!last) Obey();
    if (!writer.Pass(last)) break;
    if (!last) Sleep();
  }
  SayState(RecordState::kEnded);
  if (writer.stopped() != EndReason::kFinished) failure_ = {SpoolProblem::kWriting, writer.error()};
  if (!last) {
    // From here on a call is counted, or its record is in a ring, where End finds it.
    shared_->record.End(/*by_itself=*/true);
    writer.Stop();
    Become(kStopped);
    WaitForFinish();
  }
  if (!writer.End(LaterCalls()) && failure_.problem == SpoolProblem::kNone) {
    failure_ = {SpoolProblem::kWriting, writer.error()};
  }
  return kEnded;
}

// What another process asks for. Here, and by no thread of the program's.
void Recorder::Obey() {
  RecordControl* const control = options_.control;
  if (control == nullptr) return;
  const uint32_t order = control->order.load(std::memory_order_acquire);
  if (order != control->answer.load(std::memory_order_relaxed)) {
    shared_->record.Pause(RecordSwitch::kTurnedOff, !IsOrderOn(order));
  }
  RecordState state = RecordState::kOn;
  if (shared_->record.paused_for(RecordSwitch::kOutsideWindow)) state = RecordState::kOutsideWindow;
  if (shared_->record.paused_for(RecordSwitch::kTurnedOff)) state = RecordState::kTurnedOff;
  SayState(state);
  control->answer.store(order, std::memory_order_release);
}

void Recorder::SayState(RecordState state) const {
  if (options_.control != nullptr) {
    options_.control->state.store(static_cast<uint32_t>(state), std::memory_order_release);
  }
}

// Of steps, none has begun.
bool Recorder::IsOutsideWindow() const {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  switch (options_.window.unit()) {
    case policy::RecordWindow::Unit::kAlways:
      return false;
    case policy::RecordWindow::Unit::kSeconds:
      return !options_.window.Has((NowNs() - start_ns_) / kSecondNs);
    case policy::RecordWindow::Unit::kSteps:
      break;
  }
  return true;
}

void Recorder::WaitForFinish() {
  constexpr uint64_t kLongNs = 3'600'000'000'000;
  std::atomic<uint32_t>& asleep = shared_->asleep;
  while (shared_->finish.load(std::memory_order_seq_cst) == 0) {
    asleep.store(1, std::memory_order_seq_cst);
    if (shared_->finish.load(std::memory_order_seq_cst) == 0) FutexWait(asleep, 1, kLongNs);
    asleep.store(0, std::memory_order_relaxed);
  }
}

// Whoever has something for the writer publishes it first and then looks whether it sleeps; here it is the other way
// round, so one of the two sees the other.
void Recorder::Sleep() {
  std::atomic<uint32_t>& asleep = shared_->asleep;
  asleep.store(1, std::memory_order_seq_cst);
  bool needed = shared_->finish.load(std::memory_order_seq_cst) != 0;
  for (uint32_t i = 0; i < rings_.mapped() && !needed; ++i) needed = rings_.ring(i)->IsHalfFull();
  if (!needed) FutexWait(asleep, 1, options_.period_ns);
  asleep.store(0, std::memory_order_relaxed);
}

}  // namespace slipstream::tracer
