#include "tracer/calls/call_recorder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/own_work.h"
#include "policy/log.h"
#include "policy/no_cancellation.h"
#include "policy/thread_owned.h"
#include "tracer/base/clock.h"
#include "tracer/base/python_lines.h"
#include "tracer/python/native_stack.h"
#include "tracer/python/program_sites.h"
#include "tracer/python/python_process.h"
#include "tracer/spool/block_record.h"
#include "tracer/spool/device_facts.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/driver_devices.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::tracer {
namespace {

struct CurrentCall {
  bool open = false;
  CallShare share = CallShare::kBeside;  // of the decision
  uint16_t decision = 0;
  Caller caller{};
  bool work_is_own = false;  // of its first call of the driver: made by slipstream
  bool has_reading = false;  // that is to be recorded with its end
  uint32_t correlation = 0;  // of the same; 0: it has made none yet
  uint64_t number = 0;
  uint64_t stream = 0;
};

// The driver call that the thread is in, where it has a record of its own.
struct DriverCall {
  uint32_t correlation = 0;  // 0: none
  Caller caller{};
  uint32_t library = 0;
  bool is_own = false;  // made by slipstream
  uint64_t call = 0;    // the hooked one that the thread is in; 0: none
  uint64_t start_ns = 0;
};

// Numbers of calls, which threads take many at a time.
constexpr uint64_t kNumbersAtOnce = uint64_t{1} << 16;
constinit std::atomic<uint64_t> g_next_numbers{1};
struct CallNumbers {
  uint64_t next = 0;
  uint64_t end = 0;
};

// The slot of a thread.
struct ThreadCalls {
  CurrentCall call;
  DriverCall driver;
  MemoryFigures reading;
  CallNumbers numbers;
};
using CallsHere = policy::ThreadOwned<ThreadCalls>;

// The program's line that the thread is at, by its file and its number; 0: none is known.
uint64_t LineHere() {
  CallSite site;
  const uint32_t number = ProgramSites::Place().site;
  if (number == 0 || !ProgramSites::Describe(number, &site)) return 0;
  const uint64_t line = std::hash<std::string_view>()(site.file) * 31 + static_cast<uint64_t>(site.line);
  return line != 0 ? line : 1;
}

uint8_t FlagsOf(const Caller& caller, bool work_is_own) {
  return static_cast<uint8_t>(caller.flags | (work_is_own ? kWorkIsOwn : 0));
}

uint64_t NextNumber(CallNumbers& numbers) {
  if (numbers.next == numbers.end) [[unlikely]] {
    numbers.next = g_next_numbers.fetch_add(kNumbersAtOnce, std::memory_order_relaxed);
    numbers.end = numbers.next + kNumbersAtOnce;
  }
  return numbers.next++;
}

// The facts say which Python there is, if there is one. Of two with one name a file has the last.
void SayOfLines(CallRecorder::Stacks what, Facts* facts) {
  if (what == CallRecorder::Stacks::kNone) {
    facts->emplace_back(kFactPythonLines, std::string(kLinesNone) + "no stack is read (tracer.stacks = \"none\")");
  } else if (std::none_of(facts->begin(), facts->end(),
                          [](const auto& fact) { return fact.first == kFactPythonLines; })) {
    facts->emplace_back(kFactPythonLines, LinesFact(PythonStatus::kNoPython, 0));
  }
}

}  // namespace

CallRecorder* CallRecorder::Start(RecorderOptions options, Stacks what, SpoolFailure* why) {
  StackTree* const stacks = what == Stacks::kPython || what == Stacks::kFull ? StackTree::Create({}) : nullptr;
  NativeFrames* const native =
      what == Stacks::kFull && stacks != nullptr ? NativeFrames::Create({}, NativeFrames::Own::kLeaveOut) : nullptr;
  if (what == Stacks::kFull && native == nullptr) {
    constexpr char kWhy[] =
        "off: there is no memory for them, or no way to read them on this machine (x86-64 and glibc 2.35 have it)";
    options.facts.emplace_back(kFactNativeStacks, kWhy);
    policy::LogWarn(std::string("native stacks: ") + kWhy);
  }
  SayOfLines(what, &options.facts);
  options.stacks = stacks;
  options.native = native;
  Recorder* const recorder = Recorder::Start(options, why);
  if (recorder == nullptr) {
    // The thread of one that took too long has it for as long as it takes (recorder.h).
    if (why->problem != SpoolProblem::kTooSlow) {
      delete stacks;
      delete native;
    }
    return nullptr;
  }
  BackwardLines* const backward = what != Stacks::kNone ? BackwardLines::Create() : nullptr;
  CallerNames* const callers = CallerNames::Create();
  auto* const calls = new (std::nothrow) CallRecorder(*recorder, what, stacks, native, backward, callers);
  if (calls == nullptr) {
    *why = {SpoolProblem::kNoMemory, 0};
    delete backward;
    delete callers;
    delete recorder;
    delete stacks;
    delete native;
  }
  if (calls != nullptr && callers != nullptr) recorder->SetNames(NameTable::kCallers, callers->names());
  return calls;
}

// The writer has to know the sites before a record refers to one: also one that another thread saw.
Caller CallRecorder::FindCaller() {
  const int kept = errno;
  ProgramSites::PlaceAndStack at;
  if (stacks_ != nullptr) {
    at = ProgramSites::PlaceIn(stacks_);
  } else {
    at.place = ProgramSites::Place();
  }
  Caller caller = {.site = at.place.site, .stack = at.stack};
  const bool refers_to_sites = caller.site != CodeSites::kUnknown || caller.stack != StackTree::kNone;
  if (native_ != nullptr) caller.stack = InternBothStacks(at.stack, NativeStack(), stacks_);
  if (refers_to_sites && !has_sites_.load(std::memory_order_acquire)) {
    recorder_.SetSites(ProgramSites::Sites());
    has_sites_.store(true, std::memory_order_release);
  }
  if (backward_ != nullptr) {
    const bool no_line = caller.site == CodeSites::kUnknown && !at.place.lost;
    if ((no_line || at.place.in_backward) && IsAutogradThread()) {
      // Without a line of its own it is at work for the thread that waits. With one, as in a function of the program's
      // or where a checkpoint is computed anew, it is at that; and one that calls backward() again is itself inside it.
      if (no_line) {
        caller.site = backward_->Get();
        caller.flags = kSiteIsBackward;
      }
    } else {
      backward_->Set(at.place.in_backward ? caller.site : 0);
    }
  }
  errno = kept;
  return caller;
}

uint32_t CallRecorder::NativeStack() const {
  std::array<uint32_t, kDeepestNative> addresses;
  const NativeWalk walked = WalkNativeStack(native_, addresses);
  return InternNativeStack(std::span(addresses).first(walked.frames), walked.cut, stacks_);
}

uint64_t CallRecorder::Begin(uint64_t stream) {
  ThreadCalls* const here = recorder_.recording() ? CallsHere::Get() : CallsHere::Find();
  if (here == nullptr) return NowNs();
  here->call = {.open = recorder_.recording(), .stream = stream};
  if (!here->call.open) return NowNs();
  here->call.number = NextNumber(here->numbers);
  if (what_ != Stacks::kNone) here->call.caller = FindCaller();
  return NowNs();
}

void CallRecorder::End(HookId id, uint64_t start_ns, uint64_t end_ns, const CallDetail& detail, int32_t status) {
  ThreadCalls* const here = CallsHere::Find();
  if (here == nullptr || !here->call.open) {
    recorder_.CountLaterCall();
    return;
  }
  CurrentCall& call = here->call;
  call.open = false;
  recorder_.Record({.start_ns = start_ns,
                    .end_ns = end_ns,
                    .bytes = detail.bytes,
                    .stream = call.stream,
                    .number = call.number,
                    .stack = call.caller.stack,
                    .site = call.caller.site,
                    .correlation = call.correlation,
                    .status = status,
                    .hook = static_cast<uint16_t>(id),
                    .decision = call.decision,
                    .kind = RecordKind::kCall,
                    .flags = FlagsOf(call.caller, call.work_is_own)});
  if (call.has_reading) [[unlikely]]
    recorder_.Record(MemoryRecord(end_ns, here->reading));
  if (status != 0) return;
  if (detail.address != 0 || detail.use == MemoryUse::kReset)
    RecordBlock(id, start_ns, end_ns, detail, call.stream, call.caller);
  if (!devices_described_.load(std::memory_order_relaxed)) [[unlikely]]
    DescribeDevices();
}

// Of memory that is given back the device is known from when it was got. The question may not disturb the program: it
// has no context to make, and it is asked of the driver, whose errors are nobody's last one.
void CallRecorder::RecordBlock(HookId id, uint64_t start_ns, uint64_t end_ns, const CallDetail& detail, uint64_t stream,
                               const Caller& caller) {
  const int kept = errno;
  const bool allocated = detail.use == MemoryUse::kAllocated;
  int device = detail.device;
  if (allocated && device < 0 && detail.kind == MemoryKind::kDevice) device = DeviceOfMemory(detail.address);
  recorder_.Record(RecordOf({.start_ns = start_ns,
                             .end_ns = end_ns,
                             .use = detail.use,
                             .kind = detail.kind,
                             .address = detail.address,
                             .bytes = allocated ? detail.bytes : 0,
                             .stream = stream,
                             .device = static_cast<int16_t>(device),
                             .library = callers_ != nullptr ? callers_->Of(detail.caller) : RangeNames::kUnknown,
                             .stack = caller.stack,
                             .site = caller.site,
                             .hook = static_cast<uint16_t>(id),
                             .flags = caller.flags}));
  errno = kept;
}

// A call may succeed before the driver is there (cudaGetLastError). So the 1st, 2nd, 4th, 8th... asks: nobody pays for
// many questions, and it is soon enough for whatever the process does.
void CallRecorder::DescribeDevices() {
  if (!std::has_single_bit(successes_.fetch_add(1, std::memory_order_relaxed) + 1)) return;
  if (asking_.exchange(true, std::memory_order_acquire)) return;
  const policy::NoCancellation whole;
  const int kept = errno;
  try {
    std::vector<DeviceFacts> devices;
    if (!devices_described_.load(std::memory_order_relaxed) && AskDriverForDevices(&devices)) {
      Facts facts;
      for (size_t i = 0; i < devices.size(); ++i) {
        facts.emplace_back(std::string(kFactDevice) + std::to_string(i), DeviceFactText(devices[i]));
      }
      recorder_.Say(std::move(facts));
      devices_described_.store(true, std::memory_order_relaxed);
    }
  } catch (...) {
    devices_described_.store(true, std::memory_order_relaxed);  // not at all, where there is no memory for it
  }
  errno = kept;
  asking_.store(false, std::memory_order_release);
}

bool CallRecorder::NamesSteps() const {
  const ProgramRanges* const ranges = ranges_.load(std::memory_order_acquire);
  return ranges != nullptr && ranges->names_steps();
}

void CallRecorder::StepBegins(uint64_t number) {
  recorder_.Pause(RecordSwitch::kOutsideWindow, !recorder_.window().Has(number));
}

void CallRecorder::BeforeCall(HookId id) {
  if (roles_[Index(id)] != StepRole::kCopy || NamesSteps()) return;
  const int kept = errno;
  if (const auto step = line_steps_.Begins(LineHere())) StepBegins(*step);
  errno = kept;
}

void CallRecorder::AfterCall(HookId id, const CallDetail& detail, bool failed) {
  if (failed) return;
  if (roles_[Index(id)] == StepRole::kWork) LineSteps::Worked();
  constexpr int kHostToDevice = 1;  // cudaMemcpyHostToDevice
  if (detail.copy_kind != kHostToDevice || detail.bytes < LineSteps::kLeastBytes || NamesSteps()) return;
  const int kept = errno;
  if (const auto step = line_steps_.Uploaded(LineHere())) StepBegins(*step);
  errno = kept;
}

const Caller* CallRecorder::EnterDriver(uint32_t correlation, DriverUse use) {
  ThreadCalls* const here = recorder_.recording() ? CallsHere::Get() : CallsHere::Find();
  if (here == nullptr) return nullptr;
  CurrentCall& call = here->call;
  DriverCall& driver = here->driver;
  driver = {};
  if (!recorder_.recording()) return nullptr;
  const bool is_own = cuda::OwnWork::Here();
  if (is_own && use != DriverUse::kWork) return nullptr;
  if (call.open && call.correlation == 0) {
    call.correlation = correlation;
    call.work_is_own = is_own;
    return nullptr;
  }
  driver = {.correlation = correlation, .caller = call.caller, .is_own = is_own, .call = call.open ? call.number : 0};
  if (!call.open) driver.caller = what_ != Stacks::kNone ? FindCaller() : Caller();
  driver.start_ns = NowNs();
  return call.open ? nullptr : &driver.caller;
}

void CallRecorder::CalledBy(uint32_t library) {
  ThreadCalls* const here = CallsHere::Find();
  if (here == nullptr) return;
  here->driver.library = library;
  here->driver.start_ns = NowNs();
}

void CallRecorder::LeaveDriver(uint16_t function, uint32_t correlation, int32_t status) {
  ThreadCalls* const here = CallsHere::Find();
  if (here == nullptr || here->driver.correlation == 0 || here->driver.correlation != correlation) return;
  DriverCall& driver = here->driver;
  TraceRecord record =
      DriverCallRecord(driver.start_ns, NowNs(), function, status, correlation, driver.library, driver.call);
  record.site = driver.caller.site;
  record.stack = driver.caller.stack;
  record.flags = FlagsOf(driver.caller, driver.is_own);
  recorder_.Record(record);
  driver = {};
}

void CallRecorder::Decided(size_t index, CallShare share, uint64_t bytes, uint64_t time_ns, uint64_t contents) {
  if (!recorder_.recording()) return;
  ThreadCalls* const here = CallsHere::Get();
  if (here == nullptr) return;
  CurrentCall& call = here->call;
  const auto decision = static_cast<uint16_t>(index + 1);
  // A wait that the program's own call would not have had. What any other decision saved is not known.
  const bool waited = share == CallShare::kWaited;
  recorder_.Record(RecordOf(DecisionMade{.at_ns = NowNs(),
                                         .decision = decision,
                                         .bytes = bytes,
                                         .time_ns = time_ns,
                                         .saved_ns = waited ? -static_cast<int64_t>(time_ns) : 0,
                                         .known = waited ? Known::kMeasured : Known::kNot,
                                         .call = call.open ? call.number : 0,
                                         .contents = contents}));
  if (!call.open) return;
  if (call.decision != 0 && share < call.share) return;
  call.decision = decision;
  call.share = share;
}

void CallRecorder::Memory(const MemoryFigures& figures) {
  if (!recorder_.recording()) return;
  const uint64_t now = NowNs();
  if (!pace_.Passes(figures, now)) return;
  ThreadCalls* const here = CallsHere::Find();
  if (here == nullptr || !here->call.open || !figures.device_used) {
    recorder_.Record(MemoryRecord(now, figures));
    return;
  }
  if (here->call.has_reading) recorder_.Record(MemoryRecord(now, here->reading));  // of another device
  here->call.has_reading = true;
  here->reading = figures;
}

}  // namespace slipstream::tracer
