#include "tracer/spool/spool_writer.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "tracer/base/clock.h"
#include "tracer/base/hook_id.h"
#include "tracer/counters/counter_file.h"
#include "tracer/spool/activity_record.h"

namespace slipstream::tracer {
namespace {

constexpr uint64_t kRecordsPerChunk = (kMaxPayloadBytes - sizeof(RecordsHead)) / sizeof(TraceRecord);
constexpr uint64_t kActivitiesPerChunk = (kMaxPayloadBytes - sizeof(RecordsHead)) / sizeof(ActivityRecord);
constexpr size_t kMaxSiteBytes = 4 * sizeof(uint32_t) + 2 * kMaxSpoolText;
constexpr size_t kMaxTextBytes = sizeof(uint32_t) + kMaxSpoolText;

uint64_t Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Whoever is interrupted in between makes the others look later than they are: the narrowest of a few.
TraceRecord ReadClocks() {
  constexpr int kTries = 5;
  TraceRecord best;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = NowNs();
    const uint64_t realtime = Now(CLOCK_REALTIME);
    const uint64_t raw = Now(CLOCK_MONOTONIC_RAW);
    const uint64_t after = NowNs();
    if (i == 0 || after - before < best.end_ns - best.start_ns) best = ClockRecord(before, after, realtime, raw);
  }
  return best;
}

// Chunks of a count and as many entries as fit.
class Entries {
 public:
  // Each chunk begins with `head`, if that is not 0.
  Entries(ChunkWriter* chunks, ChunkKind kind, uint32_t head = 0) : chunks_(*chunks), kind_(kind), head_(head) {}
  ~Entries() { Close(); }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  // Before each entry, which takes at most `bytes`.
  ChunkWriter& Next(size_t bytes) {
    if (count_ != 0 && chunks_.room() < bytes) Close();
    if (count_++ == 0) {
      chunks_.Begin(kind_);
      if (head_ != 0) chunks_.PutNumber(head_);
      count_at_ = chunks_.payload();
      chunks_.PutNumber(0);
    }
    return chunks_;
  }
  void Close() {
    if (count_ == 0) return;
    chunks_.Replace(count_at_, count_);
    chunks_.End();
    count_ = 0;
  }

 private:
  ChunkWriter& chunks_;
  const ChunkKind kind_;
  const uint32_t head_;
  uint32_t count_ = 0;
  size_t count_at_ = 0;
};

}  // namespace

SpoolWriter::SpoolWriter(const Sources& sources, const FileCalls& calls, uint64_t max_file_bytes, uint32_t max_rings)
    : sources_(sources), file_(calls, &files_), chunks_(&file_, max_file_bytes), announced_(max_rings) {}

SpoolFailure SpoolWriter::Open(const std::string& directory, const JobIdentity& job, const Facts& more,
                               const std::vector<std::string>& decisions) {
  if (!chunks_.valid()) return {SpoolProblem::kNoMemory, 0};
  int error_of_files = 0;
  if (const OwnFiles::Started started = files_.Start(&error_of_files); started != OwnFiles::Started::kYes) {
    const bool has_thread = started == OwnFiles::Started::kNoDescriptors;
    return {has_thread ? SpoolProblem::kSharedDescriptors : SpoolProblem::kNoThread, error_of_files};
  }
  const uint64_t start_unix_ns = Now(CLOCK_REALTIME);
  const SpoolFailure failure = file_.Create(directory, SpoolName(HostName(), getpid(), start_unix_ns));
  if (failure.problem != SpoolProblem::kNone) return failure;
  if (keep_newest_) {
    cannot_keep_newest_ = file_.CanGiveBack();
    if (cannot_keep_newest_ == 0) chunks_.KeepNewest();
  }

  chunks_.Start(start_unix_ns);
  chunks_.SetPass(NowNs());
  WriteFacts(ProcessFacts(&files_, job));
  WriteFacts(more);
  if (samples_tasks_) {
    tasks_.emplace(&files_);
    if (const auto limit = tasks_->LimitThousandths()) WriteFacts({{kFactProcessorLimit, std::to_string(*limit)}});
  }
  if (keep_newest_) {
    const std::string why = "first: the file cannot be given back in parts (errno ";
    WriteFacts({{kFactKeep, cannot_keep_newest_ == 0 ? "newest" : why + std::to_string(cannot_keep_newest_) + ")"}});
  }
  for (size_t i = 0; i < kHookCount; ++i) hooks_.emplace_back(NameOf(static_cast<HookId>(i)));
  decisions_ = decisions;
  WriteNames(NameTable::kHooks, hooks_);
  WriteNames(NameTable::kDecisions, decisions_);
  WriteClock();
  chunks_.Flush();
  if (sources_.counters != nullptr) counted_before_ = sources_.counters->Totals();
  if (stopped() == EndReason::kError) return {SpoolProblem::kWriting, error()};
  return {};
}

// Everything that records refer to is written once more before they come.
void SpoolWriter::BeginSection() {
  if (!chunks_.BeginSection(own_records_, NowNs())) return;
  std::fill(announced_.begin(), announced_.end(), 0U);
  written_sites_.clear();
  first_unwritten_site_ = 1;
  written_stacks_.clear();
  first_unwritten_stack_ = StackTree::kFirst;
  written_modules_.clear();
  first_unwritten_module_ = 1;
  written_addresses_.clear();
  first_unwritten_address_ = 1;
  texts_.clear();
  WriteFacts(Facts(said_facts_.begin(), said_facts_.end()));
  WriteNames(NameTable::kHooks, hooks_);
  WriteNames(NameTable::kDecisions, decisions_);
  WriteDeviceNames(said_names_);
  WriteClock();
  if (paused_) BeginPaused();
}

void SpoolWriter::WriteFacts(const Facts& facts) {
  if (chunks_.keeps_newest()) {
    for (const auto& [key, value] : facts) said_facts_[key] = value;
  }
  Entries entries(&chunks_, ChunkKind::kFacts);
  for (const auto& [key, value] : facts) {
    ChunkWriter& to = entries.Next(2 * kMaxTextBytes);
    to.PutText(key);
    to.PutText(value);
  }
}

// Hooks are numbered from 0 and decisions from 1, as in records.
void SpoolWriter::WriteNames(NameTable table, const std::vector<std::string>& names) {
  Entries entries(&chunks_, ChunkKind::kNames, static_cast<uint32_t>(table));
  uint32_t number = table == NameTable::kDecisions ? 1 : 0;
  for (const std::string& name : names) {
    ChunkWriter& to = entries.Next(sizeof(uint32_t) + kMaxTextBytes);
    to.PutNumber(number++);
    to.PutText(name);
  }
}

void SpoolWriter::WriteClock() {
  const TraceRecord clock = ReadClocks();
  next_clock_ns_ = clock.end_ns + kClockPeriodNs;
  WriteOwn(clock);
}

void SpoolWriter::WriteOwn(const TraceRecord& record) {
  const RecordsHead head = {
      .record_bytes = sizeof(TraceRecord), .first = own_records_, .count = 1, .version = kRecordVersion};
  chunks_.Begin(ChunkKind::kRecords);
  chunks_.PutBytes(&head, sizeof(head));
  chunks_.PutBytes(&record, sizeof(record));
  if (chunks_.End(1)) ++own_records_;
}

void SpoolWriter::WriteSwitch(const RecordSwitch::Change& change) {
  paused_ = !change.on;
  was_paused_ = true;
  WriteOwn(SwitchRecord(change.at_ns, change.on));
}

// Without memory for it the recording goes on, and nobody looks any more.
void SpoolWriter::WriteTasks(uint64_t now_ns) {
  std::vector<TaskSample> samples;
  try {
    std::vector<TaskSampler::Thread> threads;
    for (uint32_t i = 0; i < sources_.rings->mapped() && threads.size() < kMostSampledThreads; ++i) {
      const RecordRing::Owner* const owner = sources_.rings->ring(i)->owner();
      if (owner != nullptr) threads.push_back({.number = owner->number, .tid = owner->thread});
    }
    samples = tasks_->Look(now_ns, threads);
  } catch (const std::bad_alloc&) {
    tasks_.reset();
    return;
  }
  for (const TaskSample& sample : samples) WriteOwn(RecordOf(sample));
  next_tasks_ns_ = now_ns + tasks_->PeriodNs();
}

// As thread 0, because the threads that a profiler delivers on are nobody's.
void SpoolWriter::WriteDeviceWork() {
  DeviceRecords* const device = sources_.device != nullptr ? sources_.device->load(std::memory_order_acquire) : nullptr;
  if (device == nullptr) return;
  device->Take(&device_);
  if (!device_.facts.empty()) WriteFacts(device_.facts);
  WriteDeviceNames(device_.names);
  if (chunks_.keeps_newest()) said_names_.insert(said_names_.end(), device_.names.begin(), device_.names.end());
  const std::vector<ActivityRecord>& activities = device_.activities;
  for (size_t i = 0; i < activities.size();) {
    if (chunks_.SectionIsFull()) BeginSection();
    const size_t count = std::min<size_t>(activities.size() - i, kActivitiesPerChunk);
    const RecordsHead head = {.record_bytes = sizeof(ActivityRecord),
                              .first = own_records_,
                              .count = static_cast<uint32_t>(count),
                              .version = kActivityVersion};
    chunks_.Begin(ChunkKind::kActivities);
    chunks_.PutBytes(&head, sizeof(head));
    chunks_.PutBytes(&activities[i], count * sizeof(ActivityRecord));
    (chunks_.End(count) ? own_records_ : unwritten_activities_) += count;
    i += count;
  }
  for (const TraceRecord& reading : device_.readings) WriteOwn(reading);
}

// Whatever still waits when nothing is written any more.
void SpoolWriter::CountUnwrittenDeviceWork() {
  DeviceRecords* const device = sources_.device != nullptr ? sources_.device->load(std::memory_order_acquire) : nullptr;
  if (device == nullptr || device_dropped_.has_value()) return;
  device->Take(&device_);
  unwritten_activities_ += device_.activities.size();
  device_dropped_ = device->dropped();
}

void SpoolWriter::WriteDeviceNames(const std::vector<DeviceRecords::Name>& names) {
  for (const NameTable table : {NameTable::kKernels, NameTable::kDriverFunctions, NameTable::kLibraries}) {
    Entries entries(&chunks_, ChunkKind::kNames, static_cast<uint32_t>(table));
    for (const DeviceRecords::Name& name : names) {
      if (name.table != table) continue;
      ChunkWriter& to = entries.Next(sizeof(uint32_t) + kMaxTextBytes);
      to.PutNumber(name.number);
      to.PutText(name.text);
    }
  }
}

// And by the device's, which have none either.
uint64_t SpoolWriter::DroppedWithoutRing() const {
  const DeviceRecords* const device =
      sources_.device != nullptr ? sources_.device->load(std::memory_order_acquire) : nullptr;
  const uint64_t by_device = device != nullptr ? device->dropped() : 0;
  return sources_.dropped_without_ring->load(std::memory_order_relaxed) + device_dropped_.value_or(by_device);
}

// A site that is still being written by the thread that saw it first is looked at again in the next round. No record
// refers to it yet: that thread records after it has its number.
void SpoolWriter::WriteNewSites() {
  const CodeSites* const sites = sources_.sites->load(std::memory_order_acquire);
  if (sites == nullptr) return;
  const uint32_t end = sites->size();
  if (first_unwritten_site_ >= end) return;
  if (written_sites_.size() < end) written_sites_.resize(end);
  if (!said_pytorch_folder_ && !sites->pytorch_folder().empty()) {
    WriteFacts({{kFactPyTorchFolder, std::string(sites->pytorch_folder())}});
    said_pytorch_folder_ = true;
  }
  Entries entries(&chunks_, ChunkKind::kSites);
  for (uint32_t site = first_unwritten_site_; site < end; ++site) {
    CallSite description;
    if (written_sites_[site] || !sites->Describe(site, &description)) continue;
    ChunkWriter& to = entries.Next(kMaxSiteBytes);
    to.PutNumber(site);
    to.PutNumber(static_cast<uint32_t>(description.line));
    to.PutText(description.file);
    to.PutText(description.function);
    written_sites_[site] = true;
  }
  while (first_unwritten_site_ < end && written_sites_[first_unwritten_site_]) ++first_unwritten_site_;
}

// As with sites. Each comes behind the one that it was called from, which was described before this one had a number.
void SpoolWriter::WriteNewStacks() {
  const uint32_t end = sources_.stacks != nullptr ? sources_.stacks->size() : 0;
  if (first_unwritten_stack_ >= end) return;
  if (written_stacks_.size() < end) written_stacks_.resize(end);
  Entries entries(&chunks_, ChunkKind::kStacks);
  for (uint32_t number = first_unwritten_stack_; number < end; ++number) {
    StackTree::Stack stack;
    if (written_stacks_[number] || !sources_.stacks->Describe(number, &stack)) continue;
    ChunkWriter& to = entries.Next(3 * sizeof(uint32_t));
    to.PutNumber(number);
    to.PutNumber(stack.parent);
    to.PutNumber(stack.site);
    written_stacks_[number] = true;
  }
  while (first_unwritten_stack_ < end && written_stacks_[first_unwritten_stack_]) ++first_unwritten_stack_;
}

// As with sites; an address's module was described before the address had a number.
void SpoolWriter::WriteNewModules() {
  const uint32_t end = sources_.native != nullptr ? sources_.native->modules() : 0;
  if (first_unwritten_module_ >= end) return;
  if (written_modules_.size() < end) written_modules_.resize(end);
  Entries entries(&chunks_, ChunkKind::kModules);
  for (uint32_t number = first_unwritten_module_; number < end; ++number) {
    NativeFrames::Module module;
    if (written_modules_[number] || !sources_.native->DescribeModule(number, &module)) continue;
    ChunkWriter& to = entries.Next(sizeof(uint32_t) + 2 * sizeof(uint64_t) + 2 * kMaxTextBytes);
    to.PutNumber(number);
    to.PutBytes(&module.start, sizeof(module.start));
    to.PutBytes(&module.end, sizeof(module.end));
    to.PutText(module.path);
    to.PutText(module.build_id);
    written_modules_[number] = true;
  }
  while (first_unwritten_module_ < end && written_modules_[first_unwritten_module_]) ++first_unwritten_module_;
}

void SpoolWriter::WriteNewAddresses() {
  const uint32_t end = sources_.native != nullptr ? sources_.native->addresses() : 0;
  if (first_unwritten_address_ >= end) return;
  if (written_addresses_.size() < end) written_addresses_.resize(end);
  Entries entries(&chunks_, ChunkKind::kAddresses);
  for (uint32_t number = first_unwritten_address_; number < end; ++number) {
    NativeFrames::Address address;
    if (written_addresses_[number] || !sources_.native->Describe(number, &address)) continue;
    ChunkWriter& to = entries.Next(2 * sizeof(uint32_t) + sizeof(uint64_t));
    to.PutNumber(number);
    to.PutNumber(address.module);
    to.PutBytes(&address.offset, sizeof(address.offset));
    written_addresses_[number] = true;
  }
  while (first_unwritten_address_ < end && written_addresses_[first_unwritten_address_]) ++first_unwritten_address_;
}

uint64_t SpoolWriter::Refused(std::string_view key) const {
  if (key == kFactStacksRefused) return sources_.stacks != nullptr ? sources_.stacks->refused() : 0;
  if (key == kFactFramesRefused) return sources_.native != nullptr ? sources_.native->refused() : 0;
  if (key == kFactSitesRefused) {
    const CodeSites* const sites =
        sources_.sites != nullptr ? sources_.sites->load(std::memory_order_acquire) : nullptr;
    return sites != nullptr ? sites->unknown() : 0;
  }
  if (key == kFactRangesRefused) {
    const std::atomic<uint64_t>* const lost =
        sources_.lost_ranges != nullptr ? sources_.lost_ranges->load(std::memory_order_acquire) : nullptr;
    return lost != nullptr ? lost->load(std::memory_order_relaxed) : 0;
  }
  const NameTable table = key == kFactRangeNamesRefused ? NameTable::kRanges : NameTable::kCallers;
  for (const TextSource& source : sources_.texts) {
    const RangeNames* const names = source.names.load(std::memory_order_acquire);
    if (source.table == table && names != nullptr) return names->unknown();
  }
  return 0;
}

// In every round, so that a process that is killed has said so too.
void SpoolWriter::WriteWhatHadNoRoom() {
  for (size_t i = 0; i < std::size(kRefusedFacts); ++i) {
    const uint64_t refused = Refused(kRefusedFacts[i].key);
    if (refused == said_refused_[i]) continue;
    WriteFacts({{kRefusedFacts[i].key, std::to_string(refused)}});
    said_refused_[i] = refused;
  }
}

// All that is in these totals was recorded before it was counted, and nobody had ended the recording then.
void SpoolWriter::RecordingEnds() {
  if (sources_.counters != nullptr) counted_surely_ = sources_.counters->Totals();
}

// What the records in the file must add up to. Read behind all of them: what is recorded is counted a moment later.
void SpoolWriter::WriteCounters() {
  // Of what was not recorded, or is not in the file any more, nobody knows how much it was.
  if (sources_.counters == nullptr || was_paused_ || chunks_.gave_up()) return;
  const CounterTotals last = sources_.counters->Totals();
  WriteCounted(NameTable::kHooks, counted_before_.hooks, counted_surely_.hooks, last.hooks);
  WriteCounted(NameTable::kDecisions, counted_before_.decisions, counted_surely_.decisions, last.decisions);
}

// One chunk: a table has room for fewer hooks than a chunk has for entries.
void SpoolWriter::WriteCounted(NameTable table, const std::vector<Counted>& before, const std::vector<Counted>& sure,
                               const std::vector<Counted>& last) {
  static_assert(2 * sizeof(uint32_t) + (kHookCount + kMaxDecisions) * sizeof(CountersEntry) <= kMaxPayloadBytes);
  const uint32_t first = table == NameTable::kDecisions ? 1 : 0;
  uint32_t count = 0;
  chunks_.Begin(ChunkKind::kCounters);
  chunks_.PutNumber(static_cast<uint32_t>(table));
  const size_t count_at = chunks_.payload();
  chunks_.PutNumber(0);
  for (size_t i = 0; i < std::min({before.size(), sure.size(), last.size()}); ++i) {
    if (last[i] == before[i]) continue;
    const CountersEntry entry = {.number = static_cast<uint32_t>(i) + first,
                                 .at_least = Since(before[i], sure[i]),
                                 .at_most = Since(before[i], last[i])};
    chunks_.PutBytes(&entry, sizeof(entry));
    ++count;
  }
  chunks_.Replace(count_at, count);
  chunks_.End();
}

// As for sites.
void SpoolWriter::WriteNewTexts() {
  texts_.resize(sources_.texts.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    const RangeNames* const names = sources_.texts[i].names.load(std::memory_order_acquire);
    const uint32_t end = names != nullptr ? names->size() : 0;
    WrittenTexts& so_far = texts_[i];
    if (so_far.first_unwritten >= end) continue;
    if (so_far.written.size() < end) so_far.written.resize(end);
    Entries entries(&chunks_, ChunkKind::kNames, static_cast<uint32_t>(sources_.texts[i].table));
    for (uint32_t name = so_far.first_unwritten; name < end; ++name) {
      std::string_view text;
      if (so_far.written[name] || !names->Describe(name, &text)) continue;
      ChunkWriter& to = entries.Next(sizeof(uint32_t) + kMaxTextBytes);
      to.PutNumber(name);
      to.PutText(text);
      so_far.written[name] = true;
    }
    while (so_far.first_unwritten < end && so_far.written[so_far.first_unwritten]) ++so_far.first_unwritten;
  }
}

void SpoolWriter::WriteThread(const RecordRing& ring) {
  const RecordRing::Owner& owner = *ring.owner();
  const uint64_t before = ring.taken();
  chunks_.Begin(ChunkKind::kThread);
  chunks_.PutNumber(owner.number);
  chunks_.PutNumber(owner.thread);
  chunks_.PutText(std::string_view(owner.name));
  chunks_.PutBytes(&before, sizeof(before));
  chunks_.End();
}

// Of a ring that has an owner.
void SpoolWriter::WriteWhatRecordsReferTo(uint32_t ring) {
  const RecordRing& of = *sources_.rings->ring(ring);
  if (announced_[ring] != of.owner()->number) {
    WriteThread(of);
    announced_[ring] = of.owner()->number;
  }
  if (of.Available() == 0) return;
  WriteNewSites();
  WriteNewModules();
  WriteNewAddresses();
  WriteNewStacks();
  WriteNewTexts();
}

void SpoolWriter::WriteThreadEnd(const RecordRing& ring) {
  const ThreadEnd end = {.thread = ring.owner()->number, .records = ring.taken(), .dropped = ring.dropped()};
  chunks_.Begin(ChunkKind::kThreadEnd);
  chunks_.PutBytes(&end, sizeof(end));
  chunks_.End();
}

// What is there now, and not what comes while this runs: a thread that never stops must not keep the others waiting.
bool SpoolWriter::Drain(uint32_t number) {
  RecordRing* const ring = sources_.rings->ring(number);
  uint64_t available = ring->Available();
  WriteWhatRecordsReferTo(number);
  while (available > 0) {
    if (chunks_.SectionIsFull()) {
      BeginSection();
      WriteWhatRecordsReferTo(number);
    }
    const uint64_t count = std::min(available, kRecordsPerChunk);
    const RecordsHead head = {.thread = ring->owner()->number,
                              .record_bytes = sizeof(TraceRecord),
                              .first = ring->taken(),
                              .count = static_cast<uint32_t>(count),
                              .version = kRecordVersion};
    chunks_.Begin(ChunkKind::kRecords);
    chunks_.PutBytes(&head, sizeof(head));
    char* const space = chunks_.PutSpace(count * sizeof(TraceRecord));
    if (space == nullptr) return false;
    ring->Copy(count, space);
    if (!chunks_.End(count)) return false;
    ring->Advance(count);
    available -= count;
  }
  return true;
}

bool SpoolWriter::Pass(bool last) {
  const uint64_t now = NowNs();
  chunks_.SetPass(now);
  if (sources_.record_switch != nullptr) {
    for (RecordSwitch::Change change; sources_.record_switch->Next(&change);) WriteSwitch(change);
  }
  if (sources_.late_facts != nullptr) WriteFacts(sources_.late_facts->Take());
  if (sources_.native != nullptr && now >= next_look_ns_) {
    sources_.native->ForgetUnloaded();
    next_look_ns_ = now + kLookPeriodNs;
  }
  RecordRings& rings = *sources_.rings;
  const uint32_t mapped = rings.mapped();
  for (uint32_t i = 0; i < mapped && stopped() == EndReason::kFinished; ++i) {
    RecordRing* const ring = rings.ring(i);
    const RecordRing::Owner* const owner = ring->owner();
    if (owner == nullptr) continue;
    const bool ended = ring->HasEnded();  // before its records are looked at: then they are its last
    if (!Drain(i)) break;
    if (ended || last) WriteThreadEnd(*ring);
    if (ended) {
      dropped_by_ended_ += ring->dropped();
      ring->Free();
      rings.Freed();
    }
  }
  if (stopped() == EndReason::kFinished) WriteDeviceWork();
  const uint64_t without_ring = DroppedWithoutRing();
  if (without_ring != said_without_ring_) {
    const uint64_t since = said_without_ring_at_ns_ != 0 ? said_without_ring_at_ns_ : now;
    WriteOwn(DropRecord(since, now, without_ring - said_without_ring_, without_ring));
    said_without_ring_ = without_ring;
  }
  said_without_ring_at_ns_ = now;
  WriteWhatHadNoRoom();
  if (last && stopped() == EndReason::kFinished) WriteCounters();
  if (tasks_ && !paused_ && (last || now >= next_tasks_ns_)) WriteTasks(NowNs());
  if (last || now >= next_clock_ns_) WriteClock();
  chunks_.Flush();
  return stopped() == EndReason::kFinished;
}

uint64_t SpoolWriter::Dropped() const {
  uint64_t dropped = dropped_by_ended_ + unwritten_activities_ + DroppedWithoutRing() + chunks_.lost();
  for (uint32_t i = 0; i < sources_.rings->mapped(); ++i) {
    const RecordRing* const ring = sources_.rings->ring(i);
    if (ring->owner() != nullptr) dropped += ring->dropped() + ring->AvailableOwn();
  }
  return dropped;
}

SpoolEnd SpoolWriter::EndAsOfNow() const {
  return {.reason = static_cast<uint32_t>(stopped()),
          .error = error(),
          .records = chunks_.records(),
          .dropped = Dropped(),
          .given_up_records = chunks_.given_up_records()};
}

// What a device does from here on is not dropped: it comes after the recording, as calls do.
void SpoolWriter::Stop() {
  chunks_.Flush();
  CountUnwrittenDeviceWork();
  chunks_.Stop(EndAsOfNow());
}

bool SpoolWriter::End(uint64_t later_calls) {
  chunks_.Flush();
  CountUnwrittenDeviceWork();
  SpoolEnd end = EndAsOfNow();
  end.later_calls = later_calls;
  const bool written = chunks_.Finish(end);
  file_.Close();
  return written;
}

}  // namespace slipstream::tracer
