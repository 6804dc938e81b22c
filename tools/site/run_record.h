// What a run leaves for its site: one file in the directory that run.summaries names (record_file.h writes it,
// records.h reads all of them, totals.h adds them up).
//
// Threading: plain data and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream::site {

// The number behind it grows when what is there changes its meaning; additions do not change it.
inline constexpr std::string_view kRecordSchemaName = "slipstream-run-";
inline constexpr uint64_t kRecordSchema = 1;

// An engine, or another part of slipstream, that did nothing in some processes of the run.
struct StoodAside {
  std::string engine{};  // "allocator", "transfer", "trace", "counters"; "all": the policy says enabled = false
  std::string reason{};
  uint64_t processes = 0;  // 0: not counted
};

// Calls that an engine would have served, had nothing of its own failed: the program's call was made.
struct FailedOpen {
  std::string engine{};
  std::string reason{};
  uint64_t calls = 0;
};

struct RunRecord {
  std::string host{};
  std::string user{};
  std::string program{};  // base name only: arguments may hold secrets
  std::string version{};  // of slipstream
  int64_t pid = 0;
  int64_t start_unix_ns = 0;
  std::optional<double> duration_s{};
  std::optional<int> exit_status{};  // as a shell shows it; nothing: it was killed, or left without exiting
  uint64_t processes = 0;            // that made an intercepted call
  uint64_t estimated_gain_ns = 0;
  bool gain_unknown = false;  // and by copies what nobody knows
  std::vector<StoodAside> stood_aside{};
  std::vector<FailedOpen> failed_open{};
};

// The signal that ended it, as far as the status says so.
std::optional<int> SignalOf(const RunRecord& record);

// The file's text. `summary`: the run's summary as JSON text, which it holds too.
std::string RecordJson(const RunRecord& record, const std::string& summary);

enum class RecordIs : uint8_t {
  kGood,
  kDamaged,  // no whole JSON object, or with values that no run has
  kForeign,  // something else
  kNewer,    // of a newer schema
};
// Reads what it may: bounded in depth, and in memory by the text's size. Only kGood fills all of *record.
RecordIs ParseRecord(std::string_view text, RunRecord* record);

}  // namespace slipstream::site
