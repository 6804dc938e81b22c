#include "tools/trace/report/held_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/distribution.h"
#include "tools/trace/run/names.h"
#include "tracer/base/call_detail.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;
using tracer::MemoryKind;
using tracer::MemoryUse;

constexpr size_t kPartsOfRun = 400;

// A line and the file whose code made the call, by their numbers in the database; 0: not known.
using Holder = std::pair<int64_t, int64_t>;

struct Block {
  int64_t bytes = 0;
  int64_t device = -1;
  int64_t stream = 0;
  int64_t function = 0;
  Holder holder;
  bool counts = true;  // as memory of a device's
};

void Add(const Block& block, HeldSum* sum) {
  AddTo(&sum->bytes, block.bytes);
  ++sum->blocks;
}

// What a process has at one moment.
class Ledger {
 public:
  // A device's blocks, summed up.
  struct Device {
    int64_t bytes = 0;
    uint64_t blocks = 0;
    uint64_t allocations = 0;
    std::map<Holder, int64_t> of;  // bytes
  };
  using Blocks = std::map<std::pair<int64_t, int64_t>, Block>;  // by kind and address

  // The next row of the question below. The device whose memory it changed; nothing: none's.
  std::optional<int64_t> Apply(const Question& row) {
    const auto use = static_cast<MemoryUse>(row.Number(1));
    const int64_t kind = row.Number(2);
    const std::pair key(kind, row.Number(3));
    const auto there = blocks_.find(key);
    if (use == MemoryUse::kReset) return Reset();
    if (use == MemoryUse::kFreed) {
      if (there == blocks_.end()) {
        ++unknown_frees_;
        return std::nullopt;
      }
      return TakeAway(there);
    }
    if (use != MemoryUse::kAllocated) return std::nullopt;
    if (there != blocks_.end()) {
      ++unseen_frees_;
      TakeAway(there);
    }
    const Block block = {.bytes = trace_db::BoundedCount(row.Number(4)),
                         .device = row.NumberIfKnown(6).value_or(-1),
                         .stream = row.Number(5),
                         .function = row.Number(9),
                         .holder = {row.Number(7), row.Number(8)},
                         .counts = kind != static_cast<int64_t>(MemoryKind::kManaged)};
    blocks_.emplace(key, block);
    if (!block.counts) return std::nullopt;
    Device& device = devices_[block.device];
    AddTo(&device.bytes, block.bytes);
    AddTo(&device.of[block.holder], block.bytes);
    ++device.blocks;
    ++device.allocations;
    return block.device;
  }

  const std::map<int64_t, Device>& devices() const { return devices_; }
  const Device& Of(int64_t device) { return devices_[device]; }
  const Blocks& blocks() const { return blocks_; }
  // Of memory that was there before the recording, or whose allocation is not in the trace.
  uint64_t unknown_frees() const { return unknown_frees_; }
  // Addresses that were given out again while they were not free.
  uint64_t unseen_frees() const { return unseen_frees_; }
  // cudaDeviceReset where it is not known of which device.
  uint64_t unknown_resets() const { return unknown_resets_; }

 private:
  std::optional<int64_t> TakeAway(Blocks::iterator at) {
    const Block block = at->second;
    blocks_.erase(at);
    if (!block.counts) return std::nullopt;
    Device& device = devices_[block.device];
    int64_t& of = device.of[block.holder];
    device.bytes -= std::min(device.bytes, block.bytes);
    of -= std::min(of, block.bytes);
    --device.blocks;
    return block.device;
  }

  // A call says it of the device that is current, and the trace does not know which that was.
  std::optional<int64_t> Reset() {
    std::optional<int64_t> with_blocks;
    for (const auto& [number, device] : devices_) {
      if (device.blocks == 0) continue;
      if (with_blocks) {
        ++unknown_resets_;
        return std::nullopt;
      }
      with_blocks = number;
    }
    blocks_.clear();
    for (auto& [number, device] : devices_) device = {.allocations = device.allocations, .of = {}};
    return with_blocks;
  }

  Blocks blocks_;
  std::map<int64_t, Device> devices_;
  uint64_t unknown_frees_ = 0;
  uint64_t unseen_frees_ = 0;
  uint64_t unknown_resets_ = 0;
};

// Of what takes effect at one time, memory is given back first.
constexpr char kEvents[] =
    "SELECT time, event, kind, address, bytes, stream, deviceId, siteId, libraryId, nameId FROM SLIPSTREAM_ALLOCATIONS "
    "WHERE processId = ?1 ORDER BY time, event DESC";

class Reading {
 public:
  Reading(DatabaseReader* reader, ProcessReport* process) : reader_(reader), names_(reader), process_(*process) {}

  void FindPeaks() {
    Ledger ledger;
    uint64_t number = 0;
    Question row(*reader_, kEvents);
    for (row.Bind(1, process_.process); row.Next(); ++number) {
      const std::optional<int64_t> device = ledger.Apply(row);
      if (!device) continue;
      const Ledger::Device& now = ledger.Of(*device);
      Draft& draft = drafts_[*device];
      if (now.bytes <= draft.held.peak) continue;
      draft.held.peak = now.bytes;
      draft.held.peak_blocks = now.blocks;
      draft.held.peak_time = trace_db::BoundedTime(row.Number(0));
      draft.peak_event = number;
    }
    for (auto& [device, draft] : drafts_) {
      draft.held.device = device;
      draft.held.last = ledger.Of(device).bytes;
      draft.held.last_blocks = ledger.Of(device).blocks;
      draft.held.allocations = ledger.Of(device).allocations;
    }
    process_.unknown_frees = ledger.unknown_frees();
    process_.unseen_frees = ledger.unseen_frees();
    process_.unknown_resets = ledger.unknown_resets();
  }

  void LookAtPeaks() {
    Ledger ledger;
    uint64_t number = 0;
    size_t open = 0;  // devices whose blocks at their reading are not known yet
    for (auto& [device, draft] : drafts_) {
      draft.held.use = UseBefore(device, draft.held.peak_time, &draft.use_time);
      if (draft.held.use) ++open;
    }
    const auto close = [&](Draft* draft, int64_t device) {
      DeviceUse& use = *draft->held.use;
      use.blocks = ledger.Of(device).bytes;
      use.rest = use.used - Sum(use.blocks, use.idle);
      draft->use_is_complete = true;
      --open;
    };
    std::map<uint64_t, int64_t> devices;  // by the event of their peak
    for (const auto& [device, draft] : drafts_) devices.emplace(draft.peak_event, device);
    Question row(*reader_, kEvents);
    auto next = devices.begin();
    for (row.Bind(1, process_.process); (next != devices.end() || open != 0) && row.Next(); ++number) {
      for (auto& [device, draft] : drafts_) {
        if (draft.held.use && !draft.use_is_complete && row.Number(0) > draft.use_time) close(&draft, device);
      }
      ledger.Apply(row);
      if (next == devices.end() || number != next->first) continue;
      Describe(ledger, next->second, &drafts_[next->second]);
      ++next;
    }
    for (auto& [device, draft] : drafts_) {
      if (draft.held.use && !draft.use_is_complete) close(&draft, device);
    }
  }

  // The highest of each of kMemoryColumns parts of the run, by the holders that had most at the peak.
  void DrawColumns(int64_t first, int64_t last) {
    const int64_t length = std::max<int64_t>(1, (last - first) / static_cast<int64_t>(kMemoryColumns) + 1);
    const auto column_of = [&](int64_t time) {
      return static_cast<size_t>(std::clamp<int64_t>((time - first) / length, 0, kMemoryColumns - 1));
    };
    for (auto& [device, draft] : drafts_) {
      MemoryColumns& columns = draft.held.columns;
      columns = {.first = first, .length = length, .all = {}, .of = {}, .peak = column_of(draft.held.peak_time)};
      columns.all.highest.resize(kMemoryColumns);
      columns.of.resize(std::min(draft.holders.size(), kHoldersInColumns));
      for (MemoryColumns::Row& row : columns.of) row.highest.resize(kMemoryColumns);
    }
    Ledger ledger;
    Question row(*reader_, kEvents);
    for (row.Bind(1, process_.process); row.Next();) {
      const std::optional<int64_t> device = ledger.Apply(row);
      if (!device) continue;
      Draft& draft = drafts_[*device];
      MarkUpTo(column_of(trace_db::BoundedTime(row.Number(0))), &draft);
      const Ledger::Device& now = ledger.Of(*device);
      draft.now = {now.bytes};
      for (size_t i = 0; i < draft.held.columns.of.size(); ++i) {
        const auto of = now.of.find(draft.holders[i]);
        draft.now.push_back(of != now.of.end() ? of->second : 0);
      }
      Mark(&draft);
    }
    for (auto& [device, draft] : drafts_) MarkUpTo(column_of(last), &draft);
  }

  // The moment of each part in which the device had most, by the holders that had most at its peak.
  void Draw(int64_t first, int64_t last) {
    const int64_t part = std::max<int64_t>(1, (last - first) / static_cast<int64_t>(kPartsOfRun) + 1);
    Ledger ledger;
    Question row(*reader_, kEvents);
    for (row.Bind(1, process_.process); row.Next();) {
      const std::optional<int64_t> device = ledger.Apply(row);
      if (!device) continue;
      const Ledger::Device& now = ledger.Of(*device);
      Draft& draft = drafts_[*device];
      std::vector<HeldPoint>& points = draft.held.points;
      const int64_t time = trace_db::BoundedTime(row.Number(0));
      const bool is_next = points.empty() || points.back().time / part != time / part;
      if (!is_next && now.bytes < points.back().bytes) continue;
      if (is_next) points.emplace_back();
      HeldPoint& point = points.back();
      point = {.time = time, .bytes = now.bytes, .of = {}};
      for (size_t i = 0; i < std::min(draft.holders.size(), kHoldersDrawn); ++i) {
        const auto of = now.of.find(draft.holders[i]);
        point.of.push_back(of != now.of.end() ? of->second : 0);
      }
    }
  }

  void Finish() {
    for (auto& [device, draft] : drafts_) process_.held.push_back(std::move(draft.held));
  }

 private:
  struct Draft {
    HeldReport held;
    uint64_t peak_event = 0;
    std::vector<Holder> holders;  // as those of `held`
    int64_t use_time = 0;         // of its use, as the database has it
    bool use_is_complete = false;
    size_t column = 0;         // that DrawColumns is at
    std::vector<int64_t> now;  // what there is then: all of it, and of the holders drawn; empty: nothing yet
  };

  // What there is now has been there in the part that is being drawn.
  static void Mark(Draft* draft) {
    MemoryColumns& columns = draft->held.columns;
    for (size_t i = 0; i < draft->now.size(); ++i) {
      int64_t& highest = (i == 0 ? columns.all : columns.of[i - 1]).highest[draft->column];
      highest = std::max(highest, draft->now[i]);
    }
  }
  // And in all parts until then. Times that go back, as only a damaged trace has them, stay where they are.
  static void MarkUpTo(size_t column, Draft* draft) {
    while (draft->column < column) {
      ++draft->column;
      Mark(draft);
    }
  }

  // By the last reading up to `time` that has it; *read_at is its time. The blocks are not known yet.
  std::optional<DeviceUse> UseBefore(int64_t device, int64_t time, int64_t* read_at) {
    if (!reader_->HasColumn("SLIPSTREAM_MEMORY", "deviceUsedBytes")) return std::nullopt;
    Question row(*reader_,
                 "SELECT start, deviceUsedBytes, idleBytes FROM SLIPSTREAM_MEMORY WHERE processId = ?1 AND deviceId = "
                 "?2 AND start <= ?3 AND deviceUsedBytes IS NOT NULL ORDER BY start DESC LIMIT 1");
    if (!row.Bind(1, process_.process).Bind(2, device).Bind(3, time).Next()) return std::nullopt;
    *read_at = row.Number(0);
    return DeviceUse{.time = trace_db::BoundedTime(row.Number(0)),
                     .used = trace_db::BoundedCount(row.Number(1)),
                     .idle = trace_db::BoundedCount(row.Number(2))};
  }

  void Describe(const Ledger& ledger, int64_t device, Draft* draft) {
    std::map<Holder, HeldSum> by_holder;
    std::map<int64_t, HeldSum> by_library;
    std::map<int64_t, HeldSum> by_function;
    HeldReport& held = draft->held;
    for (const auto& [key, block] : ledger.blocks()) {
      if (!block.counts || block.device != device) continue;
      Add(block, &by_holder[block.holder]);
      Add(block, &by_library[block.holder.second]);
      Add(block, &by_function[block.function]);
      Add(block, &held.streams[block.stream]);
      Add(block, &held.sizes[ExponentOf(std::max<int64_t>(block.bytes, 1))]);
    }
    std::vector<std::pair<Holder, HeldSum>> sorted(by_holder.begin(), by_holder.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second.bytes != b.second.bytes ? a.second.bytes > b.second.bytes : a.first < b.first;
    });
    for (const auto& [holder, sum] : sorted) {
      draft->holders.push_back(holder);
      HolderReport& one = held.holders.emplace_back();
      one.library = LibraryOf(holder.second);
      one.sum = sum;
      const run::Line& line = names_.LineOf(holder.first);
      one.known = line.known();
      one.file = line.file;
      one.line = line.line;
      one.function = line.function;
    }
    for (const auto& [library, sum] : by_library) held.libraries.emplace_back(LibraryOf(library), sum);
    for (const auto& [function, sum] : by_function) held.functions.emplace_back(names_.TextOf(function), sum);
    for (auto* const sums : {&held.libraries, &held.functions}) {
      std::sort(sums->begin(), sums->end(), [](const auto& a, const auto& b) {
        return a.second.bytes != b.second.bytes ? a.second.bytes > b.second.bytes : a.first < b.first;
      });
    }
    Question pool(*reader_,
                  "SELECT start, liveBytes, idleBytes FROM SLIPSTREAM_MEMORY WHERE processId = ?1 AND deviceId = ?2 "
                  "AND start <= ?3 ORDER BY start DESC LIMIT 1");
    if (pool.Bind(1, process_.process).Bind(2, device).Bind(3, held.peak_time).Next()) {
      held.pool = MemoryPoint{trace_db::BoundedTime(pool.Number(0)), trace_db::BoundedCount(pool.Number(1)),
                              trace_db::BoundedCount(pool.Number(2))};
    }
  }

  // The dynamic linker has no name for the program itself.
  std::string LibraryOf(int64_t id) {
    if (id == 0) return "";
    std::string path = names_.TextOf(id);
    return path.empty() ? process_.executable : path;
  }

  DatabaseReader* const reader_;
  run::Names names_;
  ProcessReport& process_;
  std::map<int64_t, Draft> drafts_;  // by device
};

}  // namespace

void ReadHeldMemory(DatabaseReader* reader, bool points, int64_t first, int64_t last, ProcessTable* table) {
  for (const char* const name : {"SLIPSTREAM_ALLOCATIONS", "SLIPSTREAM_MEMORY", "SLIPSTREAM_SITES", "StringIds"}) {
    if (!reader->HasTable(name)) return;
  }
  for (ProcessReport& process : table->processes) {
    Reading reading(reader, &process);
    reading.FindPeaks();
    reading.LookAtPeaks();
    reading.DrawColumns(first, last);
    if (points) reading.Draw(first, last);
    reading.Finish();
  }
}

}  // namespace slipstream::report
