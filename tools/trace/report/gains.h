// What slipstream's decisions gained in host time, by kind. Two sorts of figures are kept apart and never added:
// measured ones, from the devices' records (host_ahead.h), and estimated ones, from calls of the same function that
// slipstream left to the driver in the same run. docs/report.md says how, and what neither of them says.
//
// Memory: a little for each function and power of two of sizes; never the calls.
// Threading: an object belongs to one thread.
// Times are ns of host time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "tools/trace/report/call_kind.h"

namespace slipstream::report {

struct ProcessReport;

enum class GainKind : uint8_t {
  kSynchronizations,  // skipped
  kCopiesToDevice,    // promoted
  kCopiesToHost,      // promoted
  kBlocks,            // cudaMalloc and cudaFree that the pool answered
  kLaterWaits,        // made up for in calls that do not wait by themselves
  kGivenBack,         // memory given back to the driver, allocations tried again
};
inline constexpr size_t kGainKinds = 6;

// Below zero: lost. Of the measured time, if nothing else is said.
struct GainRow {
  uint64_t calls = 0;           // in the whole run
  uint64_t measured_calls = 0;  // that began in the measured time
  std::optional<int64_t> measured;
  std::optional<int64_t> estimated;
  uint64_t estimated_calls = 0;  // those of measured_calls that the estimate is of
  std::string not_known;         // what is not, and why; empty: all is known
};

struct GainsReport {
  std::array<GainRow, kGainKinds> rows{};
  // Nothing: no row has one. What was lost alone is no gain: without the devices' records nothing is measured.
  std::optional<int64_t> measured;
  std::optional<int64_t> estimated;

  const GainRow& Of(GainKind kind) const { return rows[static_cast<size_t>(kind)]; }
};

// As the JSON spells it; as people read it.
const char* NameOf(GainKind kind);
const char* LabelOf(GainKind kind);

// How long calls took, each rounded down by at most 1/32, so that a rank of them is never too large.
class Durations {
 public:
  void Add(int64_t ns);
  void Add(const Durations& other);
  uint64_t count() const { return count_; }
  // The one at place ceil(count / 4) in ascending order; 0: there are none.
  int64_t LowerQuartile() const;

 private:
  std::map<int64_t, uint64_t> counts_;
  uint64_t count_ = 0;
};

class Gains {
 public:
  // With fewer calls to compare with there is no estimate.
  static constexpr uint64_t kFewest = 3;

  struct Call {
    const Function* function = nullptr;
    int64_t decision = 0;
    int64_t bytes = 0;
    int64_t time = 0;
    int64_t saved = 0;
    bool measured = false;   // it began in the measured time
    bool succeeded = false;  // a call that failed counts for nothing
  };
  // `name`: of the decision. `idle()`: whether nothing was running on a device when the call began; asked of copies.
  template <typename Idle>
  void Add(const Call& call, const std::string& name, const Idle& idle) {
    const Role role = RoleOf(call.decision, name);
    if (role == Role::kNone && call.saved >= 0) return;
    AddCall(call, role, IsCopy(role) && call.measured && idle());
  }
  // Its decisions, and what its devices' records say, are there. Functions must be, too.
  GainsReport Make(const ProcessReport& process) const;

 private:
  enum class Role : uint8_t {
    kNone,
    kSynchronization,
    kToDevice,
    kToHost,
    kBlock,
    kToDeviceLeftAlone,
    kToHostLeftAlone,
    kDriverBlock,
  };
  struct Served {
    uint64_t calls = 0;
    int64_t time = 0;
  };
  // By the power of two of the size.
  struct Sums {
    std::map<int, Served> served;
    std::map<int, Durations> driver;
  };

  static Role RoleOf(const std::string& decision);
  static bool IsCopy(Role role);
  static GainKind KindOf(Role role);
  static bool IsDriver(Role role) { return role >= Role::kToDeviceLeftAlone; }
  Role RoleOf(int64_t decision, const std::string& name);
  void AddCall(const Call& call, Role role, bool idle);
  void Estimate(GainKind kind, GainRow* row) const;
  void SetMeasured(const ProcessReport& process, GainsReport* report) const;

  std::unordered_map<int64_t, Role> roles_;
  std::map<std::pair<GainKind, const Function*>, Sums> sums_;
  std::array<GainRow, kGainKinds> rows_{};
  int64_t lost_ = 0;  // of the measured time, above zero
};

}  // namespace slipstream::report
