#include "tools/trace/db/process_rows.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "tools/trace/db/api_names.h"
#include "tools/trace/db/bounded.h"
#include "tools/trace/db/clean_text.h"
#include "tracer/python/line_table.h"
#include "tracer/spool/block_record.h"
#include "tracer/spool/process_facts.h"
#include "tracer/spool/task_record.h"

namespace slipstream::trace_db {
namespace {

using tracer::NameTable;
using tracer::RecordKind;
using tracer::SpoolRecord;
using tracer::TraceRecord;

}  // namespace

const char* NameOf(tracer::EndReason reason) {
  switch (reason) {
    case tracer::EndReason::kFinished:
      return "finished";
    case tracer::EndReason::kLimit:
      return "limit";
    case tracer::EndReason::kError:
      return "error";
  }
  return "unknown";
}

ProcessRows::ProcessRows(TraceTables* tables, const TimeBase& times, size_t host, int64_t number,
                         const SpoolSurvey& survey, const tracer::SpoolReader& reader)
    : tables_(*tables),
      times_(times),
      host_(host),
      number_(number),
      survey_(survey),
      reader_(reader),
      global_pid_(tables->global_pids.Give(host, survey.Number(tracer::kFactPid).value_or(0))),
      device_(tables, survey.device_clock, survey.device_periods, survey.context_devices, reader, number, global_pid_,
              [this](uint64_t monotonic_ns) { return At(monotonic_ns); }),
      lines_(reader),
      ranges_(tables, reader, global_pid_) {
  exported_.file = survey.file;
  exported_.executable = std::filesystem::path(survey.Text(tracer::kFactExecutable)).filename().string();
  exported_.host = survey.Text(tracer::kFactHost);
  exported_.pid = survey.Number(tracer::kFactPid);
  exported_.parent_pid = survey.Number(tracer::kFactParentPid);
  exported_.rank = survey.Number(tracer::kFactRank);
  exported_.local_rank = survey.Number(tracer::kFactLocalRank);
  exported_.world_size = survey.Number(tracer::kFactWorldSize);
  if (survey.step_ranges) exported_.step_name = survey.step_ranges->base;
  if (survey.step_line) cutter_.emplace(*survey.step_line);
}

std::optional<int64_t> ProcessRows::ThreadOf(const SpoolRecord& record) const {
  if (record.thread == 0) return std::nullopt;
  return GlobalTid(global_pid_, record.tid);
}

void ProcessRows::Add(const SpoolRecord& spooled) {
  const TraceRecord& record = spooled.record;
  const bool by_device = record.kind == RecordKind::kActivity;
  // A look at what is at work is of its end: it may begin in front of all else that was kept.
  const uint64_t since_ns = record.kind == RecordKind::kTasks ? record.end_ns : record.start_ns;
  const int64_t start = by_device ? device_.At(record.start_ns) : At(since_ns);
  const int64_t end = by_device ? device_.At(record.end_ns) : At(record.end_ns);
  exported_.first_ns = std::min(exported_.first_ns.value_or(start), start);
  exported_.last_ns = std::max(exported_.last_ns.value_or(end), end);
  if (spooled.missing != 0) AddMissing(spooled, end);
  switch (record.kind) {
    case RecordKind::kCall:
      AddCall(spooled);
      break;
    case RecordKind::kMark:
      tables_.own_marks.Row(start, number_, spooled.thread, ThreadOf(spooled), record.bytes, SiteId(record.site));
      break;
    case RecordKind::kMemory:
      AddMemory(record);
      break;
    case RecordKind::kDrop:
      tables_.own_drops.Row(start, end, number_, spooled.thread, ThreadOf(spooled), Size(record.bytes),
                            Size(DroppedUpTo(record)), /*is_damage=*/false);
      break;
    case RecordKind::kStep:
      AddRecordedStep(spooled);
      break;
    case RecordKind::kClock:
      tables_.own_clocks.Row(start, end, number_, record.start_ns, record.end_ns, record.bytes, record.stream);
      break;
    case RecordKind::kDriverCall:
      AddCallRow(spooled, FunctionOf(NameTable::kDriverFunctions, record.hook));
      break;
    case RecordKind::kActivity:
      device_.Add(spooled.activity);
      break;
    case RecordKind::kDeviceClock:
      device_.AddReading(record);
      break;
    case RecordKind::kRange:
      AddRange(spooled);
      break;
    case RecordKind::kAllocated:
    case RecordKind::kFreed:
      AddAllocation(spooled);
      break;
    case RecordKind::kDecision:
      AddDecision(spooled);
      break;
    case RecordKind::kSwitch:
      AddSwitch(tracer::SwitchesOn(record), end);
      break;
    case RecordKind::kTasks:
      AddTasks(record);
      break;
    case RecordKind::kNone:
      break;
  }
}

// A section of a file repeats that there is a pause.
void ProcessRows::AddSwitch(bool on, int64_t at) {
  if (!on) {
    if (!paused_since_) paused_since_ = at;
  } else if (paused_since_) {
    tables_.own_pauses.Row(number_, *paused_since_, std::max(at, *paused_since_));
    paused_since_.reset();
  }
}

// Those before a record of their thread, which ended by then.
void ProcessRows::AddMissing(const SpoolRecord& next, int64_t end) {
  const int64_t since = next.missing_from_ns != 0 ? At(next.missing_from_ns) : end;
  uint64_t& all = missing_[next.thread];
  all += next.missing;
  tables_.own_drops.Row(std::min(since, end), end, number_, next.thread, ThreadOf(next), Size(next.missing), Size(all),
                        /*is_damage=*/true);
}

void ProcessRows::AddCall(const SpoolRecord& spooled) {
  const TraceRecord& record = spooled.record;
  ++exported_.calls;
  const Function& function = FunctionOf(NameTable::kHooks, record.hook);
  if (survey_.step_launches && spooled.thread == survey_.step_launches->thread) cut_thread_ = ThreadOf(spooled);
  if (cutter_) {
    // Asked for the calls of all threads, as the survey does: then the same site stands for a line.
    const uint32_t line = lines_.LineOf(record);
    if (spooled.thread == cutter_->thread()) {
      cut_thread_ = ThreadOf(spooled);
      const uint64_t copied = function.copies ? record.bytes : 0;
      const auto ended = cutter_->Add(line, At(record.start_ns), At(record.end_ns), copied);
      if (ended) AddFoundStep(*ended);
    }
  }
  const int64_t correlation = AddCallRow(spooled, function);
  const int64_t saved = AddDecisionsOf(spooled, correlation);
  if (record.decision == 0 && saved == 0) return;
  NumberOrNull decision = {.known = record.decision != 0};
  if (decision.known) decision.value = DecisionId(record.decision);
  tables_.own_decisions.Row(correlation, decision, Size(record.bytes), saved);
}

const ProcessRows::Function& ProcessRows::FunctionOf(NameTable table, uint16_t number) {
  auto& functions = table == NameTable::kHooks ? functions_ : driver_functions_;
  auto [function, is_new] = functions.try_emplace(number);
  if (is_new) {
    const std::string* const name = reader_.NameOf(table, number);
    const std::string text = name != nullptr ? *name : "unknown function " + std::to_string(number);
    function->second = {tables_.strings.IdOf(ApiName(text)), IsDriverFunction(text) ? kClassDriver : kClassRuntime,
                        IsCopy(text)};
  }
  return function->second;
}

// correlationId is a number of ours: unique in the database, and there for calls that CUPTI never saw.
int64_t ProcessRows::AddCallRow(const SpoolRecord& spooled, const Function& function) {
  const TraceRecord& record = spooled.record;
  const int64_t correlation = device_.CorrelationOfCall(record.correlation);
  tables_.runtime.Row(At(record.start_ns), At(record.end_ns), function.event_class, GlobalTid(global_pid_, spooled.tid),
                      correlation, function.id, record.status, kNull);
  const NumberOrNull device = {.known = record.device >= 0, .value = record.device};
  const NumberOrNull cupti = {.known = record.correlation != 0, .value = record.correlation};
  const bool is_driver = record.kind == RecordKind::kDriverCall;
  NumberOrNull library;
  if (is_driver && record.bytes != 0)
    library = {.known = true, .value = LibraryId(NameTable::kLibraries, static_cast<uint32_t>(record.bytes))};
  const tracer::SpoolReader::Both stacks = reader_.BothOf(record.stack);
  const bool is_backward = (record.flags & tracer::kSiteIsBackward) != 0;
  const std::optional<int64_t> site = SiteOf(record);
  const NumberOrNull number = {.known = record.number != 0, .value = Size(record.number)};
  tables_.own_calls.Row(correlation, number_, spooled.thread, site, is_driver ? 0 : Size(record.bytes), record.stream,
                        device, cupti, is_backward, StackId(stacks.python), library, StackId(stacks.native),
                        is_driver ? NumberOrNull() : number, is_driver ? number : NumberOrNull(),
                        (record.flags & tracer::kWorkIsOwn) != 0);
  return correlation;
}

void ProcessRows::AddDecision(const SpoolRecord& spooled) {
  if (tracer::DecisionOf(spooled.record).call == 0) {
    AddDecisionRow(spooled, std::nullopt);
    return;
  }
  std::vector<SpoolRecord>& waiting = undecided_[spooled.thread];
  // A file that is not as a writer makes it must not fill memory.
  constexpr size_t kMostOfACall = 1024;
  if (waiting.size() == kMostOfACall) {
    for (const SpoolRecord& decision : waiting) AddDecisionRow(decision, std::nullopt);
    waiting.clear();
  }
  waiting.push_back(spooled);
}

// Those of other calls that wait are of calls that are missing. Returns what the call's own saved.
int64_t ProcessRows::AddDecisionsOf(const SpoolRecord& call, int64_t correlation) {
  const auto waiting = undecided_.find(call.thread);
  if (waiting == undecided_.end()) return 0;
  int64_t saved = 0;
  for (const SpoolRecord& record : waiting->second) {
    const tracer::DecisionMade decision = tracer::DecisionOf(record.record);
    const bool is_of_it = decision.call == call.record.number;
    AddDecisionRow(record, is_of_it ? std::optional(correlation) : std::nullopt);
    if (is_of_it) saved = Sum(saved, decision.saved_ns);
  }
  waiting->second.clear();
  return saved;
}

void ProcessRows::AddDecisionRow(const SpoolRecord& spooled, const std::optional<int64_t>& correlation) {
  const tracer::DecisionMade made = tracer::DecisionOf(spooled.record);
  tables_.own_decision_events.Row(At(made.at_ns), number_, spooled.thread, ThreadOf(spooled), correlation,
                                  DecisionId(made.decision), Size(made.bytes), Size(made.time_ns), made.saved_ns,
                                  static_cast<int>(made.known),
                                  NumberOrNull{made.contents != 0, static_cast<int64_t>(made.contents)});
}

int64_t ProcessRows::LibraryId(NameTable table, uint32_t library) {
  auto& known = table == NameTable::kLibraries ? libraries_ : callers_;
  const auto [id, is_new] = known.try_emplace(library);
  if (is_new) {
    const std::string* const path = reader_.NameOf(table, library);
    id->second = tables_.strings.IdOf(path != nullptr ? *path : "");
  }
  return id->second;
}

// Of a call by no Python its native stack may know one.
std::optional<int64_t> ProcessRows::SiteOf(const TraceRecord& record) {
  const std::optional<int64_t> site = SiteId(record.site);
  const bool is_backward = (record.flags & tracer::kSiteIsBackward) != 0;
  if (site || is_backward) return site;
  const tracer::SpoolReader::Both stacks = reader_.BothOf(record.stack);
  return stacks.python == 0 ? NativeSiteId(stacks.native) : std::nullopt;
}

void ProcessRows::AddAllocation(const SpoolRecord& spooled) {
  const tracer::BlockRecord block = tracer::BlockOf(spooled.record);
  const bool allocated = block.use == tracer::MemoryUse::kAllocated;
  const NumberOrNull device = {.known = block.device >= 0, .value = block.device};
  NumberOrNull library;
  // One that is lost is not the program itself, which has an empty name.
  if (block.library != 0 && reader_.NameOf(NameTable::kCallers, block.library) != nullptr) {
    library = {.known = true, .value = LibraryId(NameTable::kCallers, block.library)};
  }
  const tracer::SpoolReader::Both stacks = reader_.BothOf(block.stack);
  tables_.own_allocations.Row(At(allocated ? block.end_ns : block.start_ns), number_, spooled.thread, ThreadOf(spooled),
                              static_cast<int>(block.use), static_cast<int>(block.kind), block.address,
                              Size(block.bytes), block.stream, device, FunctionOf(NameTable::kHooks, block.hook).id,
                              SiteOf(spooled.record), (block.flags & tracer::kSiteIsBackward) != 0,
                              StackId(stacks.python), StackId(stacks.native), library);
}

// Also as a range, which is what reports of Nsight Systems know: one name for all steps, so that they sum them up, and
// the step's number beside it.
void ProcessRows::AddStep(const StepTime& step, uint32_t thread, std::optional<int64_t> global_tid, int64_t number,
                          std::optional<int64_t> site) {
  // One of which a part was given up: nobody knows what lay in it.
  const uint64_t kept_from = reader_.end().kept_from_ns;
  if (kept_from != 0 && step.start < At(kept_from)) return;
  const int64_t owner = global_tid.value_or(global_pid_);
  tables_.own_steps.Row(step.start, step.end, number_, thread, global_tid, number, site, step.is_unfinished);
  tables_.nvtx.Row(step.start, step.end, kNvtxStartEndRange, kNull, kNull, kNull, "step", owner, owner, kNull, 0,
                   number, kNull, kNull, kNull, kNull, kNull, kNull, kNull, kNull);
  ++exported_.steps;
  if (!step.is_unfinished) step_times_.push_back(step.end - step.start);
}

void ProcessRows::AddRange(const SpoolRecord& spooled) {
  const tracer::RangeRecord range = tracer::RangeOf(spooled.record);
  const int64_t start = At(range.start_ns);
  const int64_t end = At(range.end_ns);
  ranges_.Add(range, start, end, GlobalTid(global_pid_, spooled.tid));
  if (!survey_.step_ranges || range.kind == tracer::RangeKind::kMark || spooled.thread != survey_.step_ranges->thread) {
    return;
  }
  const std::optional<StepName>& name = ranges_.StepNameOf(range);
  if (!name || name->base != survey_.step_ranges->base) return;
  // One that the survey did not see is of a process that still runs, and nobody knows what lies within it.
  const std::vector<bool>& are_steps = survey_.step_ranges->are_steps;
  const size_t at = step_named_ranges_++;
  if (at >= are_steps.size() || !are_steps[at]) return;
  AddStep({.start = start, .end = end}, spooled.thread, ThreadOf(spooled), Size(name->number.value_or(exported_.steps)),
          std::nullopt);
}

void ProcessRows::AddRecordedStep(const SpoolRecord& spooled) {
  const TraceRecord& record = spooled.record;
  AddStep({.start = At(record.start_ns), .end = At(record.end_ns)}, spooled.thread, ThreadOf(spooled),
          Size(record.bytes), std::nullopt);
}

void ProcessRows::AddFoundStep(const StepTime& step) {
  AddStep(step, cutter_->thread(), cut_thread_, Size(exported_.steps), SiteId(cutter_->site()));
}

void ProcessRows::AddStepsByLaunches(const LaunchSequence::Found& found) {
  const std::optional<int64_t> site = SiteId(found.site);
  for (const LaunchSequence::Step& step : found.steps) {
    AddStep({.start = At(step.start_ns), .end = At(step.end_ns), .is_unfinished = step.is_unfinished}, found.thread,
            cut_thread_, Size(exported_.steps), site);
  }
}

void ProcessRows::SumUpSteps() {
  if (survey_.step_launches) AddStepsByLaunches(*survey_.step_launches);
  if (cutter_) {
    if (const auto last = cutter_->Last()) AddFoundStep(*last);
    const tracer::SpoolSite* const line = reader_.SiteOf(cutter_->site());
    if (line != nullptr && exported_.steps != 0) exported_.step_line = line->file + ":" + std::to_string(line->line);
  }
  if (step_times_.empty()) return;
  const auto middle = step_times_.begin() + static_cast<std::ptrdiff_t>(step_times_.size() / 2);
  std::nth_element(step_times_.begin(), middle, step_times_.end());
  exported_.median_step_ns = *middle;
}

void ProcessRows::AddMemory(const TraceRecord& record) {
  const tracer::MemoryFigures figures = MemoryOf(record);
  tables_.own_memory.Row(At(record.start_ns), number_, figures.device, Size(figures.live_bytes),
                         Size(figures.idle_bytes), Size(figures.parked_bytes), figures.trims, figures.retries,
                         NumberOrNull{figures.device_used.has_value(), Size(figures.device_used.value_or(0))},
                         NumberOrNull{figures.largest_idle.has_value(), Size(figures.largest_idle.value_or(0))});
}

void ProcessRows::AddTasks(const TraceRecord& record) {
  const tracer::TaskSample sample = tracer::TasksIn(record);
  const bool times = sample.has_times;
  const bool throttled = sample.has_throttled;
  tables_.own_tasks.Row(At(sample.start_ns), At(sample.end_ns), number_, static_cast<int>(sample.of),
                        NumberOrNull{sample.of == tracer::TasksOf::kThread, sample.thread}, sample.count,
                        NumberOrNull{times, sample.busy}, NumberOrNull{times, Size(sample.ran_ns)},
                        NumberOrNull{times, Size(sample.waited_ns)}, NumberOrNull{throttled, sample.throttled},
                        NumberOrNull{throttled, Size(sample.throttled_ns)},
                        NumberOrNull{sample.has_began, sample.began});
}

int64_t ProcessRows::DecisionId(uint16_t decision) {
  const auto [id, is_new] = decisions_.try_emplace(decision);
  if (is_new) {
    const std::string* const name = reader_.NameOf(NameTable::kDecisions, decision);
    id->second = tables_.strings.IdOf(name != nullptr ? *name : "unknown decision " + std::to_string(decision));
  }
  return id->second;
}

std::optional<int64_t> ProcessRows::SiteId(uint32_t site) {
  if (site == 0) return std::nullopt;
  const auto [id, is_new] = sites_.try_emplace(site);
  if (is_new) {
    const tracer::SpoolSite* const line = reader_.SiteOf(site);
    if (line != nullptr) id->second = tables_.sites.IdOf(*line, survey_.Text(tracer::kFactPyTorchFolder));
  }
  return id->second;
}

StackTable::Frame ProcessRows::FrameAt(uint32_t site) {
  if (site < tracer::kNativeSpoolSite) return {.site = SiteId(site)};
  return {.address = tables_.native.PlaceOf(reader_, site - tracer::kNativeSpoolSite).id};
}

// Of a call by no Python: the innermost function that is not CUDA's own. It has no line.
std::optional<int64_t> ProcessRows::NativeSiteId(uint32_t stack) {
  const auto [id, is_new] = native_sites_.try_emplace(stack);
  if (!is_new) return id->second;
  for (uint32_t at = stack; at >= tracer::kFirstSpoolStack;) {
    const tracer::SpoolStack* const frame = reader_.StackOf(at);
    if (frame == nullptr || frame->site < tracer::kNativeSpoolSite) break;
    // It may be the one that is looked for.
    if (reader_.AddressOf(frame->site - tracer::kNativeSpoolSite) == nullptr) break;
    const NativePlaces::Place& place = tables_.native.PlaceOf(reader_, frame->site - tracer::kNativeSpoolSite);
    if (!place.path.empty() && !place.is_cuda) {
      id->second = tables_.sites.IdOf({.file = place.path, .function = place.name, .line = tracer::kNoLine});
      break;
    }
    at = frame->parent;
  }
  return id->second;
}

// From the outermost frame in, of those that are not yet known. A spool's stacks end: each has a parent that was there
// before it (spool_reader.h).
std::optional<int64_t> ProcessRows::StackId(uint32_t stack) {
  std::vector<uint32_t> unknown;
  auto known = stacks_.end();
  bool is_cut = false;
  for (uint32_t at = stack; at >= tracer::kFirstSpoolStack;) {
    known = stacks_.find(at);
    const tracer::SpoolStack* const frame = known == stacks_.end() ? reader_.StackOf(at) : nullptr;
    if (frame == nullptr) break;
    unknown.push_back(at);
    at = frame->parent;
    is_cut = at == tracer::kCutSpoolStack;
  }
  std::optional<StackTable::Stack> found;
  if (known != stacks_.end()) found = known->second;
  for (; !unknown.empty(); unknown.pop_back()) {
    const uint32_t number = unknown.back();
    found = tables_.stacks.IdOf(FrameAt(reader_.StackOf(number)->site), found ? &*found : nullptr, is_cut);
    stacks_.emplace(number, *found);
  }
  return found ? std::optional(found->id) : std::nullopt;
}

// The system gives a thread's number anew once it has ended. In ThreadNames a number has one name, because reports join
// by it: that of its last thread which has one.
void ProcessRows::AddThreads() {
  std::map<int64_t, std::string> names;
  for (const auto& [number, thread] : reader_.threads()) {
    const int64_t global = GlobalTid(global_pid_, thread.id);
    tables_.own_threads.Row(number_, number, thread.id, global, TextOrNull(thread.name), thread.records, thread.dropped,
                            thread.ended);
    if (!thread.name.empty()) names[global] = thread.name;
  }
  for (const auto& [global, name] : names) tables_.thread_names.Row(tables_.strings.IdOf(name), kNull, global);
}

// And a row of all, which says that the process counted, also where it counted nothing.
void ProcessRows::AddCounters(int64_t kind, NameTable table) {
  const std::vector<tracer::CountersEntry>* const entries = reader_.CountersOf(table);
  if (entries == nullptr) return;
  tracer::Counted least;
  tracer::Counted most;
  const auto add = [](const tracer::Counted& one, tracer::Counted* sum) {
    sum->calls += one.calls;
    sum->errors += one.errors;
    sum->bytes += one.bytes;
    sum->time_ns += one.time_ns;
  };
  const auto row = [&](const NumberOrNull& name, const tracer::Counted& from, const tracer::Counted& to) {
    tables_.own_counters.Row(number_, kind, name, Size(from.calls), Size(from.errors), Size(from.bytes),
                             Size(from.time_ns), Size(to.calls), Size(to.errors), Size(to.bytes), Size(to.time_ns));
  };
  for (const tracer::CountersEntry& entry : *entries) {
    if (entry.number > std::numeric_limits<uint16_t>::max()) continue;
    const auto number = static_cast<uint16_t>(entry.number);
    const int64_t name = kind == kCountedCall ? FunctionOf(table, number).id : DecisionId(number);
    row({.known = true, .value = name}, entry.at_least, entry.at_most);
    add(entry.at_least, &least);
    add(entry.at_most, &most);
  }
  row({}, least, most);
}

void ProcessRows::AddProcess() {
  const tracer::SpoolReader::End& end = exported_.end;
  const std::string command = CommandText(survey_.Text(tracer::kFactCommandLine));
  const std::string executable = survey_.Text(tracer::kFactExecutable);
  const auto reason = end.complete ? std::optional(std::string_view(NameOf(end.reason))) : std::nullopt;
  const NumberOrNull later = {.known = end.later_calls_known, .value = Size(end.later_calls)};
  const NumberOrNull error = {.known = end.complete && end.error != 0, .value = end.error};
  tables_.own_processes.Row(number_, global_pid_, exported_.pid, exported_.parent_pid, host_ + 1, exported_.rank,
                            exported_.local_rank, exported_.world_size, TextOrNull(survey_.Text(tracer::kFactLauncher)),
                            TextOrNull(survey_.Text(tracer::kFactJob)), TextOrNull(executable), TextOrNull(command),
                            CleanText(survey_.file), survey_.start_unix_ns, exported_.first_ns, exported_.last_ns,
                            exported_.calls, end.records, end.dropped, end.complete, reason, error, end.read_bytes,
                            end.left_bytes, TextOrNull(end.left_why), end.skipped_chunks, end.skipped_records,
                            end.malformed_chunks, end.missing_records, end.late_records, end.damaged_bytes,
                            end.missing_chunks, later, Size(end.given_up_records), exported_.kept_from_ns);
  tables_.processes.Row(global_pid_, exported_.pid, CleanText(executable));
  for (const auto& [key, value] : reader_.facts()) {
    const bool is_command = key == tracer::kFactCommandLine;
    tables_.own_facts.Row(number_, CleanText(key), is_command ? command : CleanText(value));
  }
  if (survey_.step_launches) {
    tables_.own_facts.Row(number_, kFactLaunchesOfAStep, std::to_string(survey_.step_launches->launches));
  }
  if (!survey_.why_no_steps.empty()) tables_.own_facts.Row(number_, kFactWhyNoSteps, survey_.why_no_steps);
}

ExportedProcess ProcessRows::Finish() {
  exported_.end = reader_.end();
  if (paused_since_) AddSwitch(/*on=*/true, std::max(*paused_since_, exported_.last_ns.value_or(*paused_since_)));
  // What began in front of that is not there as a whole.
  if (exported_.end.given_up_chunks != 0) {
    exported_.kept_from_ns = At(exported_.end.kept_from_ns);
    if (exported_.first_ns) exported_.first_ns = std::max(*exported_.first_ns, *exported_.kept_from_ns);
    if (exported_.last_ns) exported_.last_ns = std::max(*exported_.last_ns, *exported_.kept_from_ns);
  }
  SumUpSteps();
  device_.Finish();
  for (const auto& [thread, waiting] : undecided_) {
    for (const SpoolRecord& decision : waiting) AddDecisionRow(decision, std::nullopt);
  }
  AddThreads();
  AddCounters(kCountedCall, NameTable::kHooks);
  AddCounters(kCountedDecision, NameTable::kDecisions);
  AddProcess();
  return exported_;
}

}  // namespace slipstream::trace_db
