#include "tools/trace/report/fragmentation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "tools/trace/db/bounded.h"
#include "tools/trace/report/distribution.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

enum class Effect : uint8_t { kTakes, kGives, kReleases, kGrows, kTriesAgain, kIsRefused };

struct Rule {
  std::string_view decision;
  Effect effect;
  bool whole_pieces;  // of what it is about, the device's memory is taken in pieces
};
constexpr Rule kRules[] = {
    {"allocator.reused", Effect::kTakes, true},
    {"allocator.reused.behind", Effect::kTakes, true},
    {"allocator.parked", Effect::kGives, false},
    {"allocator.reserved", Effect::kGives, false},
    {"allocator.trimmed", Effect::kReleases, true},
    {"allocator.reclaimed", Effect::kReleases, true},
    {"allocator.grown", Effect::kGrows, false},
    {"allocator.retried", Effect::kTriesAgain, false},
    {"allocator.passed.memory", Effect::kIsRefused, false},
};

// The driver gives more than 1 MiB in pieces of 2 MiB, and so the pool counts its idle blocks. Rounding up what leaves
// and not what comes says at most too little of what is idle.
int64_t Pieces(int64_t bytes) {
  constexpr int64_t kPiece = int64_t{2} << 20;
  return bytes > kPiece / 2 ? (bytes + kPiece - 1) / kPiece * kPiece : bytes;
}

class IdleMemory {
 public:
  explicit IdleMemory(Fragmentation* found) : found_(*found) {}

  void Read(int64_t idle, std::optional<int64_t> largest) {
    idle_ = idle;
    largest_ = largest;
    before_release_.reset();
  }

  void Decided(int64_t time, std::string_view decision, int64_t bytes) {
    const auto* const rule =
        std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& one) { return one.decision == decision; });
    if (rule == std::end(kRules)) return;
    const int64_t size = rule->whole_pieces ? Pieces(bytes) : bytes;
    switch (rule->effect) {
      case Effect::kTakes:
        Less(size);
        break;
      case Effect::kGives:
        if (idle_) AddTo(&*idle_, size);
        break;
      case Effect::kGrows:
        ++found_.grown;
        AddTo(&found_.grown_bytes, bytes);
        if (bytes == 0 || idle_.value_or(0) < bytes) break;
        ++found_.not_fitting;
        AddTo(&found_.not_fitting_bytes, bytes);
        break;
      case Effect::kTriesAgain:
        ++found_.tried_again;
        IsShort(time, decision, bytes);
        break;
      case Effect::kIsRefused:
        ++found_.refused;
        IsShort(time, decision, bytes);
        break;
      case Effect::kReleases:
        if (!before_release_) before_release_ = idle_;
        Less(size);
        return;
    }
    before_release_.reset();
  }

 private:
  void Less(int64_t bytes) {
    if (idle_) *idle_ -= std::min(*idle_, bytes);
  }

  void IsShort(int64_t time, std::string_view decision, int64_t bytes) {
    if (found_.shortages.size() == kShortagesListed) return;
    found_.shortages.push_back({.time = time,
                                .decision = std::string(decision),
                                .bytes = bytes,
                                .idle = before_release_ ? before_release_ : idle_,
                                .largest_idle = largest_});
  }

  Fragmentation& found_;
  std::optional<int64_t> idle_;
  std::optional<int64_t> largest_;
  std::optional<int64_t> before_release_;  // what was idle before a row of blocks was given back
};

// Of one time, what was decided comes first: a reading is made behind it.
std::string FragmentationRows(bool has_largest) {
  return std::string(
             "SELECT time AS at, 0 AS isReading, value, bytes, NULL, e.rowid AS place FROM SLIPSTREAM_DECISION_EVENTS "
             "e JOIN StringIds ON id = decisionId WHERE processId = ?1 AND value LIKE 'allocator.%' UNION ALL SELECT "
             "start, 1, '', idleBytes, ") +
         (has_largest ? "largestIdleBytes" : "NULL") +
         ", rowid FROM SLIPSTREAM_MEMORY WHERE processId = ?1 ORDER BY at, isReading, place";
}

}  // namespace

void ReadFragmentation(DatabaseReader* reader, ProcessTable* table) {
  for (const char* const name : {"SLIPSTREAM_DECISION_EVENTS", "SLIPSTREAM_MEMORY", "StringIds"}) {
    if (!reader->HasTable(name)) return;
  }
  const std::string rows = FragmentationRows(reader->HasColumn("SLIPSTREAM_MEMORY", "largestIdleBytes"));
  for (ProcessReport& process : table->processes) {
    if (process.memory.size() != 1) continue;
    IdleMemory idle(&process.memory[0].fragmentation.emplace());
    Question row(*reader, rows);
    for (row.Bind(1, process.process); row.Next();) {
      const int64_t bytes = trace_db::BoundedCount(row.Number(3));
      if (row.Number(1) == 0) {
        idle.Decided(trace_db::BoundedTime(row.Number(0)), row.Text(2), bytes);
        continue;
      }
      std::optional<int64_t> largest = row.NumberIfKnown(4);
      if (largest) largest = trace_db::BoundedCount(*largest);
      idle.Read(bytes, largest);
    }
  }
}

}  // namespace slipstream::report
