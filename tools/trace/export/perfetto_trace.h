// A trace in Perfetto's own format (.pftrace): packets of one sequence, in which each name, line and call stack stands
// once, before its first use. docs/exports.md says what is in it.
//
// A slice is two packets, one behind the other; readers sort packets by time and keep the order of those of one moment,
// which is why slices must be put onto lanes (lanes.h).
//
// Memory: numbers of tracks, of names and of lines.
// Threading: one thread.
// Errors: the file's.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "tools/trace/export/export_file.h"
#include "tools/trace/export/lanes.h"
#include "tools/trace/export/trace_rows.h"

namespace slipstream::trace_export {

class PerfettoTrace : public RowSink {
 public:
  // Both must outlive it.
  PerfettoTrace(ExportFile* file, TraceTexts* texts) : file_(*file), texts_(*texts) {}

  void Begin(const TraceFacts& facts) override;
  void Add(const StepRow& row) override;
  void Add(const RangeRow& row) override;
  void Add(const CallRow& row) override;
  void Add(const WorkRow& row) override;
  void Add(const MemoryRow& row) override;
  void Add(const MarkRow& row) override;
  void Add(const DropRow& row) override;
  void End() override;

 private:
  // In the order of their names in the .cpp; the numbers are the interned ones, from 1.
  enum class Category : uint8_t {
    kRuntime = 1,
    kDriver,
    kKernel,
    kCopy,
    kSet,
    kWait,
    kStep,
    kRange,
    kMemory,
    kOwn,
    kBehind
  };
  enum class Note : uint8_t {
    kCorrelation = 1,
    kBytes,
    kStreamHandle,
    kDevice,
    kReturned,
    kDecision,
    kSavedNs,
    kNumber,
    kContext,
    kStream,
    kGraphNode,
    kGrid,
    kBlock,
    kRegisters,
    kShared,
    kBlocksPerSm,
    kWarpsPerSm,
    kOccupancy,
    kBandwidth,
    kValue,
    kCount,
    kAskedForBy,
    kBehind
  };
  // What a track shows of its owner.
  enum class Shows : uint8_t { kProcess, kThread, kSteps, kRanges, kDrops, kDevice, kStream, kWaits, kCounter };

  // (what, process, thread or device, stream or counter, lane)
  using TrackKey = std::tuple<Shows, int64_t, int64_t, int64_t, size_t>;
  using LaneKey = std::tuple<Shows, int64_t, int64_t, int64_t>;
  // Texts by their numbers, from 1 on.
  struct Interned {
    uint64_t Find(std::string_view text, bool* is_new);

    struct Hash {
      using is_transparent = void;  // NOLINT(readability-identifier-naming): the library looks for it
      size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>> ids;
  };

  // Tracks: described before they are used.
  uint64_t ProcessTrack(const TraceProcess& process) const;
  uint64_t Track(Shows shows, const TraceProcess& process, int64_t owner, int64_t part, size_t lane);
  void DescribeTrack(uint64_t uuid, const TrackKey& key, const TraceProcess& process);
  void DescribeProcess(const TraceProcess& process);
  std::string ThreadName(const TraceProcess& process, int64_t tid) const;

  // Interned data of the packet that is being made.
  uint64_t Intern(Interned* texts, uint32_t field, std::string_view text);
  void InternSite(const CallSite& site);
  uint64_t InternFrame(const Line& line);

  // The event that is being made.
  void Name(Category category, std::string_view name);
  void Annotate(Note note, int64_t value);
  void Annotate(Note note, double value);
  void Annotate(Note note, std::string_view text);  // one of a few
  void AnnotateFully(Note note, const std::string& text);
  void Flow(int64_t correlation);
  void WriteEvent(int32_t type, uint64_t track, int64_t at);
  void WriteSlice(uint64_t track, int64_t start, int64_t end);
  void WriteCounter(const MemoryRow& row, int64_t which, int64_t value);
  void WritePacket();

  ExportFile& file_;
  TraceTexts& texts_;
  const TraceFacts* facts_ = nullptr;
  std::map<TrackKey, uint64_t> tracks_;
  std::map<LaneKey, Lanes> lanes_;
  uint64_t last_uuid_ = 0;
  Interned names_;
  Interned words_;
  Interned functions_;
  Interned paths_;
  std::unordered_map<int64_t, uint64_t> locations_;  // by siteId
  std::unordered_map<int64_t, uint64_t> frames_;     // by Line::id
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint64_t>
      stacks_;  // by stackId, nativeStackId and, of a line, siteId
  uint64_t last_stack_ = 0;
  // Their room is kept from packet to packet.
  std::string packet_;
  std::string framed_;
  std::string event_;
  std::string interned_;
};

}  // namespace slipstream::trace_export
