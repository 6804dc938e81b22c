#include "tools/trace/export/allocation_trace.h"

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tools/trace/db/bounded.h"
#include "tracer/base/call_detail.h"

namespace slipstream::trace_export {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;
using tracer::MemoryKind;
using tracer::MemoryUse;

// Behind the numbers of MemoryUse.
constexpr int64_t kWaitForStream = 100;
constexpr int64_t kWaitForDevice = 101;
constexpr uint64_t kProgressRows = 1 << 16;

// Names have their ABI version behind them (cudaFree_v3020), and the variant of per-thread streams (_ptsz).
constexpr char kOfMemory[] =
    "SELECT time AS at, event, address, bytes, stream, deviceId, thread FROM SLIPSTREAM_ALLOCATIONS "
    "WHERE processId = ?1 AND (kind = 0 OR event = 3)";
constexpr char kOfWaits[] =
    "SELECT r.\"end\", CASE WHEN s.value LIKE 'cudaStreamSynchronize%' OR s.value LIKE 'cuStreamSynchronize%' THEN 100 "
    "ELSE 101 END, 0, 0, c.stream, NULL, c.thread FROM SLIPSTREAM_CALLS c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
    "ON r.correlationId = c.correlationId JOIN StringIds s ON s.id = r.nameId WHERE c.processId = ?1 AND r.returnValue "
    "= "
    "0 AND (s.value LIKE 'cudaStreamSynchronize%' OR s.value LIKE 'cuStreamSynchronize%' OR s.value LIKE "
    "'cudaDeviceSynchronize%' OR s.value LIKE 'cuCtxSynchronize%')";

class Writer {
 public:
  Writer(ExportFile* file, RowCounts* counts) : file_(*file), counts_(*counts) {}

  void Add(const Question& row) {
    const int64_t event = row.Number(1);
    const int64_t address = row.Number(2);
    const uint32_t thread = NumberOf(row.Number(6), &threads_);
    const int64_t stream = row.Number(4);
    if (event == kWaitForStream || event == kWaitForDevice) {
      AddWait(event, thread, stream);
    } else if (event == static_cast<int64_t>(MemoryUse::kAllocated)) {
      const auto there = blocks_.find(address);
      if (there != blocks_.end()) Free(there, thread, stream);
      const int64_t device = row.NumberIfKnown(5).value_or(0);
      const Block block = {.number = ++last_block_, .device = device};
      blocks_.emplace(address, block);
      device_of_thread_[thread] = device;
      Line('m', {thread, device, StreamOf(stream, thread, device), static_cast<int64_t>(block.number),
                 trace_db::BoundedCount(row.Number(3))});
      ++counts_.blocks;
    } else if (event == static_cast<int64_t>(MemoryUse::kFreed)) {
      const auto there = blocks_.find(address);
      if (there != blocks_.end()) Free(there, thread, stream);
    } else if (event == static_cast<int64_t>(MemoryUse::kReset)) {
      // Of which device is not known where there are several (held_memory.h); what was there is then freed by nobody.
      std::map<int64_t, bool> devices;
      for (const auto& [at, block] : blocks_) devices[block.device] = true;
      while (devices.size() == 1 && !blocks_.empty()) Free(blocks_.begin(), thread, 0);
    }
  }

 private:
  struct Block {
    uint64_t number = 0;
    int64_t device = 0;
  };
  using Blocks = std::map<int64_t, Block>;

  template <typename Key>
  static uint32_t NumberOf(const Key& key, std::map<Key, uint32_t>* numbers) {
    return numbers->try_emplace(key, static_cast<uint32_t>(numbers->size())).first->second;
  }

  // A handle is of one device, and of one thread where it stands for each thread's own default stream.
  int64_t StreamOf(int64_t handle, uint32_t thread, int64_t device) {
    constexpr int64_t kLegacy = 1;
    constexpr int64_t kPerThread = 2;
    if (handle == 0 || handle == kLegacy) return 0;
    device_of_stream_.try_emplace(handle, device);
    return 1 + NumberOf(std::tuple(handle, handle == kPerThread ? int64_t{thread} : -1, device), &streams_);
  }

  void Free(Blocks::iterator at, uint32_t thread, int64_t stream) {
    const Block block = at->second;
    blocks_.erase(at);
    Line('f', {thread, block.device, StreamOf(stream, thread, block.device), static_cast<int64_t>(block.number)});
    ++counts_.frees;
  }

  // Of a device that nothing was allocated on nobody needs to know.
  void AddWait(int64_t event, uint32_t thread, int64_t stream) {
    const auto of_thread = device_of_thread_.find(thread);
    const auto of_stream = device_of_stream_.find(stream);
    int64_t device = of_thread != device_of_thread_.end() ? of_thread->second : 0;
    if (event == kWaitForDevice) {
      Line('d', {thread, device});
    } else {
      if (of_stream != device_of_stream_.end()) device = of_stream->second;
      Line('s', {thread, device, StreamOf(stream, thread, device)});
    }
    ++counts_.waits;
  }

  void Line(char what, std::initializer_list<int64_t> fields) {
    std::string line(1, what);
    for (const int64_t field : fields) line += " " + std::to_string(field);
    file_.Write(line + "\n");
  }

  ExportFile& file_;
  RowCounts& counts_;
  Blocks blocks_;  // by address
  uint64_t last_block_ = 0;
  std::map<int64_t, uint32_t> threads_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> streams_;
  std::unordered_map<uint32_t, int64_t> device_of_thread_;  // of its last allocation
  std::unordered_map<int64_t, int64_t> device_of_stream_;
};

bool HasThem(DatabaseReader& database) { return database.HasTable("SLIPSTREAM_ALLOCATIONS"); }

}  // namespace

std::vector<size_t> ProcessesWithAllocations(DatabaseReader& database, const TraceFacts& facts) {
  std::vector<size_t> found;
  for (size_t i = 0; i < facts.processes.size() && HasThem(database); ++i) {
    Question row(database,
                 "SELECT 1 FROM SLIPSTREAM_ALLOCATIONS WHERE processId = ?1 AND event = 1 AND kind = 0 LIMIT 1");
    if (row.Bind(1, facts.processes[i].id).Next()) found.push_back(i);
  }
  return found;
}

RowCounts WriteAllocations(DatabaseReader& database, const TraceProcess& process, ExportFile* file,
                           const std::function<bool(uint64_t, uint64_t)>& progress) {
  RowCounts counts;
  file->Write(
      "slipstream-allocations 1\n# m THREAD DEVICE STREAM BLOCK BYTES, f THREAD DEVICE STREAM BLOCK, "
      "s THREAD DEVICE STREAM, d THREAD DEVICE\n");
  const bool has_calls = database.HasTable("CUPTI_ACTIVITY_KIND_RUNTIME");
  const std::string events = std::string(kOfMemory) + (has_calls ? " UNION ALL " + std::string(kOfWaits) : "");
  uint64_t all = 0;
  {
    Question row(database, "SELECT count(*) FROM (" + events + ")");
    if (row.Bind(1, process.id).Next()) all = static_cast<uint64_t>(trace_db::BoundedCount(row.Number(0)));
  }
  // Of what takes effect at one time, memory is given back first.
  Question row(database, events + " ORDER BY at, event DESC");
  Writer writer(file, &counts);
  uint64_t done = 0;
  for (row.Bind(1, process.id); row.Next();) {
    writer.Add(row);
    if (++done % kProgressRows == 0 && !progress(done, all)) break;
  }
  return counts;
}

}  // namespace slipstream::trace_export
