#include "tools/trace/export/perfetto_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "tools/trace/export/perfetto_fields.h"

namespace slipstream::trace_export {
namespace {

using perfetto::EventType;
using protozero::pbf_writer;

constexpr uint32_t kSequence = 1;

constexpr const char* kCategories[] = {"cuda_runtime", "cuda_driver", "kernel",          "gpu_memcpy", "gpu_memset",
                                       "cuda_sync",    "step",        "user_annotation", "memory",     "slipstream"};
constexpr const char* kNotes[] = {"correlation",
                                  "bytes",
                                  "stream handle",
                                  "device",
                                  "returned",
                                  "decision",
                                  "saved ns",
                                  "number",
                                  "context",
                                  "stream",
                                  "graph node id",
                                  "grid",
                                  "block",
                                  "registers per thread",
                                  "shared memory",
                                  "blocks per SM",
                                  "warps per SM",
                                  "est. achieved occupancy %",
                                  "memory bandwidth (GB/s)",
                                  "value",
                                  "count",
                                  "asked for by"};

struct Counter {
  const char* name;
  int32_t unit;
};
constexpr Counter kCounters[] = {{"live", perfetto::counter::kBytes},
                                 {"idle", perfetto::counter::kBytes},
                                 {"parked", perfetto::counter::kBytes},
                                 {"trims", perfetto::counter::kCount},
                                 {"retries", perfetto::counter::kCount}};

std::string ThreeText(const int64_t (&values)[3]) {
  return std::to_string(values[0]) + " x " + std::to_string(values[1]) + " x " + std::to_string(values[2]);
}

}  // namespace

uint64_t PerfettoTrace::Interned::Find(std::string_view text, bool* is_new) {
  const auto found = ids.find(text);
  *is_new = found == ids.end();
  return *is_new ? ids.emplace(std::string(text), ids.size() + 1).first->second : found->second;
}

uint64_t PerfettoTrace::Intern(Interned* texts, uint32_t field, std::string_view text) {
  bool is_new = false;
  const uint64_t id = texts->Find(text, &is_new);
  if (is_new) {
    pbf_writer all(interned_);
    pbf_writer one(all, field);
    one.add_uint64(perfetto::interned::kId, id);
    one.add_bytes(perfetto::interned::kText, text.data(), text.size());
  }
  return id;
}

uint64_t PerfettoTrace::InternFrame(const Line& line) {
  const auto [frame, is_new] = frames_.try_emplace(line.id, frames_.size() + 1);
  if (is_new) {
    const uint64_t function = Intern(&functions_, perfetto::interned::kFunctions, line.function);
    const uint64_t path = Intern(&paths_, perfetto::interned::kSourcePaths, line.file);
    pbf_writer all(interned_);
    pbf_writer one(all, perfetto::interned::kFrames);
    one.add_uint64(perfetto::interned::kId, frame->second);
    one.add_uint64(perfetto::frame::kFunction, function);
    one.add_uint64(perfetto::frame::kSourcePath, path);
    if (line.line) one.add_uint32(perfetto::frame::kLine, static_cast<uint32_t>(*line.line));
  }
  return frame->second;
}

// The line as the event's source, and the stack; without a stack the line is all of it.
void PerfettoTrace::InternSite(const CallSite& site) {
  pbf_writer event(event_);
  if (site.line != nullptr) {
    const auto [location, is_new] = locations_.try_emplace(site.line->id, locations_.size() + 1);
    if (is_new) {
      pbf_writer all(interned_);
      pbf_writer one(all, perfetto::interned::kSourceLocations);
      one.add_uint64(perfetto::interned::kId, location->second);
      one.add_string(perfetto::location::kFile, site.line->file);
      one.add_string(perfetto::location::kFunction, site.line->function);
      if (site.line->line) one.add_uint32(perfetto::location::kLine, static_cast<uint32_t>(*site.line->line));
    }
    event.add_uint64(perfetto::event::kSourceLocation, location->second);
  }
  const bool has_stack = texts_.HasStack(site);
  if (!has_stack && site.line == nullptr) return;
  // A line alone is no stack's number.
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  const Key key = has_stack ? Key(site.stack, site.native_stack, 0) : Key(0, 0, site.line->id);
  const auto [stack, is_new] = stacks_.try_emplace(key, 0);
  if (is_new) {
    std::vector<uint64_t> frames;
    for (const Line* const line : texts_.StackOf(site)) frames.push_back(InternFrame(*line));
    if (!frames.empty()) {
      stack->second = ++last_stack_;
      pbf_writer all(interned_);
      pbf_writer one(all, perfetto::interned::kCallstacks);
      one.add_uint64(perfetto::interned::kId, stack->second);
      for (const uint64_t frame : frames) one.add_uint64(perfetto::callstack::kFrames, frame);
    }
  }
  if (stack->second != 0) event.add_uint64(perfetto::event::kCallstack, stack->second);
}

void PerfettoTrace::WritePacket() {
  framed_.clear();
  pbf_writer(framed_).add_message(perfetto::kTracePacket, packet_);
  file_.Write(framed_);
  packet_.clear();
}

void PerfettoTrace::Name(Category category, std::string_view name) {
  const uint64_t id = Intern(&names_, perfetto::interned::kEventNames, name);
  pbf_writer event(event_);
  event.add_uint64(perfetto::event::kCategory, static_cast<uint64_t>(category));
  event.add_uint64(perfetto::event::kName, id);
}

void PerfettoTrace::Annotate(Note note, int64_t value) {
  pbf_writer event(event_);
  pbf_writer one(event, perfetto::event::kAnnotation);
  one.add_uint64(perfetto::annotation::kName, static_cast<uint64_t>(note));
  one.add_int64(perfetto::annotation::kInt, value);
}

void PerfettoTrace::Annotate(Note note, double value) {
  pbf_writer event(event_);
  pbf_writer one(event, perfetto::event::kAnnotation);
  one.add_uint64(perfetto::annotation::kName, static_cast<uint64_t>(note));
  one.add_double(perfetto::annotation::kDouble, value);
}

void PerfettoTrace::Annotate(Note note, std::string_view text) {
  const uint64_t id = Intern(&words_, perfetto::interned::kTexts, text);
  pbf_writer event(event_);
  pbf_writer one(event, perfetto::event::kAnnotation);
  one.add_uint64(perfetto::annotation::kName, static_cast<uint64_t>(note));
  one.add_uint64(perfetto::annotation::kInternedText, id);
}

void PerfettoTrace::AnnotateFully(Note note, const std::string& text) {
  pbf_writer event(event_);
  pbf_writer one(event, perfetto::event::kAnnotation);
  one.add_uint64(perfetto::annotation::kName, static_cast<uint64_t>(note));
  one.add_string(perfetto::annotation::kText, text);
}

void PerfettoTrace::Flow(int64_t correlation) {
  pbf_writer(event_).add_fixed64(perfetto::event::kFlow, static_cast<uint64_t>(correlation));
}

// What was named, annotated and interned so far, as an event of `type`.
void PerfettoTrace::WriteEvent(int32_t type, uint64_t track, int64_t at) {
  {
    pbf_writer event(event_);
    event.add_enum(perfetto::event::kType, type);
    event.add_uint64(perfetto::event::kTrack, track);
  }
  pbf_writer packet(packet_);
  packet.add_uint64(perfetto::packet::kTimestamp, static_cast<uint64_t>(at - facts_->first_ns));
  packet.add_uint32(perfetto::packet::kSequence, kSequence);
  packet.add_uint32(perfetto::packet::kSequenceFlags, perfetto::kNeedsState);
  if (!interned_.empty()) packet.add_message(perfetto::packet::kInternedData, interned_);
  packet.add_message(perfetto::packet::kTrackEvent, event_);
  WritePacket();
  event_.clear();
  interned_.clear();
}

void PerfettoTrace::WriteSlice(uint64_t track, int64_t start, int64_t end) {
  WriteEvent(static_cast<int32_t>(EventType::kBegin), track, start);
  WriteEvent(static_cast<int32_t>(EventType::kEnd), track, std::max(start, end));
}

std::string PerfettoTrace::ThreadName(const TraceProcess& process, int64_t tid) const {
  const auto thread = facts_->threads.find(process.global_pid | tid);
  return thread == facts_->threads.end() ? "" : thread->second.name;
}

uint64_t PerfettoTrace::ProcessTrack(const TraceProcess& process) const {
  return tracks_.at({Shows::kProcess, process.id, 0, 0, 0});
}

void PerfettoTrace::DescribeProcess(const TraceProcess& process) {
  const uint64_t uuid = tracks_[{Shows::kProcess, process.id, 0, 0, 0}] = ++last_uuid_;
  {
    pbf_writer packet(packet_);
    packet.add_uint32(perfetto::packet::kSequence, kSequence);
    pbf_writer track(packet, perfetto::packet::kTrackDescriptor);
    track.add_uint64(perfetto::track::kUuid, uuid);
    pbf_writer described(track, perfetto::track::kProcess);
    described.add_int32(perfetto::process::kPid, static_cast<int32_t>(process.shown_pid));
    if (!process.command.empty()) described.add_string(perfetto::process::kCommand, process.command);
    described.add_string(perfetto::process::kName, process.name);
    if (process.rank) described.add_string(perfetto::process::kLabel, "rank " + std::to_string(*process.rank));
    if (!process.host.empty()) described.add_string(perfetto::process::kLabel, process.host);
  }
  WritePacket();
}

uint64_t PerfettoTrace::Track(Shows shows, const TraceProcess& process, int64_t owner, int64_t part, size_t lane) {
  const TrackKey key = {shows, process.id, owner, part, lane};
  const auto found = tracks_.find(key);
  if (found != tracks_.end()) return found->second;
  const uint64_t uuid = tracks_[key] = ++last_uuid_;
  DescribeTrack(uuid, key, process);
  return uuid;
}

// A thread's further lanes, and those of a stream, have the name of the first: the UI shows such as one.
void PerfettoTrace::DescribeTrack(uint64_t uuid, const TrackKey& key, const TraceProcess& process) {
  const auto [shows, ignored, owner, part, lane] = key;
  uint64_t parent = ProcessTrack(process);
  std::string name;
  bool is_thread = false;
  std::optional<int32_t> unit;
  switch (shows) {
    case Shows::kThread:
      is_thread = lane == 0 && owner != 0;
      if (!is_thread && owner != 0) parent = Track(Shows::kThread, process, owner, 0, 0);
      name = owner == 0 ? "slipstream" : ThreadName(process, owner);
      if (name.empty()) name = "thread " + std::to_string(owner);
      break;
    case Shows::kSteps:
      name = "steps";
      break;
    case Shows::kRanges:
      name = "NVTX of thread " + std::to_string(owner);
      break;
    case Shows::kDrops:
      name = "records missing, of thread " + std::to_string(owner);
      break;
    case Shows::kDevice:
      name = "GPU " + std::to_string(owner);
      break;
    case Shows::kStream:
      parent = Track(Shows::kDevice, process, owner, 0, 0);
      name = "stream " + std::to_string(part);
      break;
    case Shows::kWaits:
      parent = Track(Shows::kDevice, process, owner, 0, 0);
      name = part < 0 ? "synchronizations of the context" : "synchronizations of stream " + std::to_string(part);
      break;
    case Shows::kCounter:
      name = "device " + std::to_string(owner) + " pool: " + kCounters[part].name;
      unit = kCounters[part].unit;
      break;
    case Shows::kProcess:
      break;
  }
  {
    pbf_writer packet(packet_);
    packet.add_uint32(perfetto::packet::kSequence, kSequence);
    pbf_writer track(packet, perfetto::packet::kTrackDescriptor);
    track.add_uint64(perfetto::track::kUuid, uuid);
    track.add_uint64(perfetto::track::kParent, parent);
    if (is_thread) {
      pbf_writer thread(track, perfetto::track::kThread);
      thread.add_int32(perfetto::thread::kPid, static_cast<int32_t>(process.shown_pid));
      thread.add_int64(perfetto::thread::kTid, owner);
      thread.add_string(perfetto::thread::kName, name);
    } else {
      track.add_string(perfetto::track::kName, name);
    }
    if (unit) {
      pbf_writer counter(track, perfetto::track::kCounter);
      counter.add_enum(perfetto::counter::kUnit, *unit);
    }
  }
  WritePacket();
}

void PerfettoTrace::Begin(const TraceFacts& facts) {
  facts_ = &facts;
  {
    pbf_writer names(interned_);
    const auto all = [&](uint32_t field, const auto& texts) {
      uint64_t id = 0;
      for (const char* const text : texts) {
        pbf_writer one(names, field);
        one.add_uint64(perfetto::interned::kId, ++id);
        one.add_string(perfetto::interned::kText, text);
      }
    };
    static_assert(std::size(kCategories) == static_cast<size_t>(Category::kBehind) - 1);
    static_assert(std::size(kNotes) == static_cast<size_t>(Note::kBehind) - 1);
    all(perfetto::interned::kCategories, kCategories);
    all(perfetto::interned::kAnnotationNames, kNotes);
  }
  {
    pbf_writer packet(packet_);
    packet.add_uint32(perfetto::packet::kSequence, kSequence);
    packet.add_uint32(perfetto::packet::kSequenceFlags, perfetto::kStateCleared | perfetto::kNeedsState);
    packet.add_bool(perfetto::packet::kFirstOnSequence, true);
    packet.add_message(perfetto::packet::kInternedData, interned_);
  }
  WritePacket();
  interned_.clear();
  {
    // When the trace's first moment was.
    pbf_writer packet(packet_);
    packet.add_uint32(perfetto::packet::kSequence, kSequence);
    pbf_writer snapshot(packet, perfetto::packet::kClockSnapshot);
    const auto clock = [&](uint32_t id, int64_t time) {
      pbf_writer one(snapshot, perfetto::clocks::kClock);
      one.add_uint32(perfetto::clocks::kId, id);
      one.add_uint64(perfetto::clocks::kTimestamp, static_cast<uint64_t>(time));
    };
    clock(perfetto::clocks::kBoottime, 0);
    // Modulo 2^64: a damaged trace may say any time.
    clock(perfetto::clocks::kRealtime,
          static_cast<int64_t>(static_cast<uint64_t>(facts.start_unix_ns) + static_cast<uint64_t>(facts.first_ns)));
  }
  WritePacket();
  for (const TraceProcess& process : facts.processes) DescribeProcess(process);
}

void PerfettoTrace::Add(const StepRow& row) {
  const TraceProcess& process = *row.at.process;
  const size_t lane = lanes_[{Shows::kSteps, process.id, 0, 0}].Take(row.start, row.end, false);
  const uint64_t track = Track(Shows::kSteps, process, 0, 0, lane);
  Name(Category::kStep, "step " + std::to_string(row.number));
  Annotate(Note::kNumber, row.number);
  InternSite(row.site);
  WriteSlice(track, row.start, row.end);
}

void PerfettoTrace::Add(const RangeRow& row) {
  const TraceProcess& process = *row.at.process;
  // One that never ended is open to the end of the trace.
  const int64_t end = row.is_mark ? row.start : row.end.value_or(INT64_MAX);
  const size_t lane = row.is_mark ? 0 : lanes_[{Shows::kRanges, process.id, row.at.tid, 0}].Take(row.start, end, true);
  const uint64_t track = Track(Shows::kRanges, process, row.at.tid, 0, lane);
  Name(Category::kRange, row.text);
  if (row.is_mark || !row.end) {
    WriteEvent(static_cast<int32_t>(row.is_mark ? EventType::kInstant : EventType::kBegin), track, row.start);
  } else {
    WriteSlice(track, row.start, end);
  }
}

void PerfettoTrace::Add(const CallRow& row) {
  const TraceProcess& process = *row.at.process;
  const size_t lane = lanes_[{Shows::kThread, process.id, row.at.tid, 0}].Take(row.start, row.end, true);
  const uint64_t track = Track(Shows::kThread, process, row.at.tid, 0, lane);
  Name(row.is_driver ? Category::kDriver : Category::kRuntime, row.function);
  if (row.correlation != 0) Annotate(Note::kCorrelation, row.correlation);
  if (row.bytes != 0) Annotate(Note::kBytes, row.bytes);
  if (row.stream != 0) Annotate(Note::kStreamHandle, row.stream);
  if (row.device) Annotate(Note::kDevice, *row.device);
  if (row.status != 0) Annotate(Note::kReturned, row.status);
  if (!row.decision.empty()) Annotate(Note::kDecision, row.decision);
  if (row.decided) Annotate(Note::kSavedNs, row.saved_ns);
  InternSite(row.site);
  if (row.has_work) Flow(row.correlation);
  WriteSlice(track, row.start, row.end);
}

void PerfettoTrace::Add(const WorkRow& row) {
  constexpr Category kCategoryOf[] = {Category::kKernel, Category::kCopy, Category::kSet, Category::kWait};
  const TraceProcess& process = *row.process;
  const bool is_wait = row.kind == WorkKind::kWait;
  const Shows shows = is_wait ? Shows::kWaits : Shows::kStream;
  const size_t lane = lanes_[{shows, process.id, row.device, row.stream}].Take(row.start, row.end, false);
  const uint64_t track = Track(shows, process, row.device, row.stream, lane);
  Name(kCategoryOf[static_cast<size_t>(row.kind)], row.name);
  if (row.correlation != 0) Annotate(Note::kCorrelation, row.correlation);
  Annotate(Note::kDevice, row.device);
  Annotate(Note::kContext, row.context);
  Annotate(Note::kStream, row.stream);
  if (row.graph_node) Annotate(Note::kGraphNode, *row.graph_node);
  if (row.is_own) Annotate(Note::kAskedForBy, "slipstream");
  if (row.kind == WorkKind::kKernel) {
    AnnotateFully(Note::kGrid, ThreeText(row.shape.grid));
    AnnotateFully(Note::kBlock, ThreeText(row.shape.block));
    Annotate(Note::kRegisters, row.shape.registers);
    Annotate(Note::kShared, row.shape.shared);
    const trace_db::Device* const device = facts_->properties.Find(process.id, process.pid, row.device);
    const auto load = device == nullptr ? std::nullopt : trace_db::LoadOf(row.shape, *device);
    if (load) {
      Annotate(Note::kBlocksPerSm, load->blocks);
      Annotate(Note::kWarpsPerSm, load->warps);
      if (load->occupancy) Annotate(Note::kOccupancy, int64_t{std::lround(*load->occupancy * 100)});
    }
  } else if (!is_wait) {
    Annotate(Note::kBytes, row.bytes);
    // Bytes a nanosecond are GB/s.
    if (row.end > row.start) {
      Annotate(Note::kBandwidth, static_cast<double>(row.bytes) / static_cast<double>(row.end - row.start));
    }
  }
  if (row.has_call && !is_wait) Flow(row.correlation);
  WriteSlice(track, row.start, row.end);
}

void PerfettoTrace::WriteCounter(const MemoryRow& row, int64_t which, int64_t value) {
  const uint64_t track = Track(Shows::kCounter, *row.process, row.device, which, 0);
  pbf_writer(event_).add_int64(perfetto::event::kCounterValue, value);
  WriteEvent(static_cast<int32_t>(EventType::kCounter), track, row.start);
}

void PerfettoTrace::Add(const MemoryRow& row) {
  int64_t which = 0;
  for (const int64_t value : {row.live, row.idle, row.parked, row.trims, row.retries}) {
    WriteCounter(row, which++, value);
  }
}

void PerfettoTrace::Add(const MarkRow& row) {
  const uint64_t track = Track(Shows::kThread, *row.at.process, row.at.tid, 0, 0);
  Name(Category::kOwn, "mark");
  Annotate(Note::kValue, row.value);
  InternSite(row.site);
  WriteEvent(static_cast<int32_t>(EventType::kInstant), track, row.start);
}

void PerfettoTrace::Add(const DropRow& row) {
  const TraceProcess& process = *row.at.process;
  const size_t lane = lanes_[{Shows::kDrops, process.id, row.at.tid, 0}].Take(row.start, row.end, false);
  const uint64_t track = Track(Shows::kDrops, process, row.at.tid, 0, lane);
  Name(Category::kOwn, "records missing");
  Annotate(Note::kCount, row.count);
  WriteSlice(track, row.start, row.end);
}

void PerfettoTrace::End() {}

}  // namespace slipstream::trace_export
