// What the runs of a site gained and lost, added up by user, by program and by version of slipstream.
//
// Memory: kMostGroups of each, and kMostReasons; what comes when these are there is added to one called kOthers.
// Threading: an object belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tools/site/records.h"
#include "tools/site/run_record.h"

namespace slipstream::site {

enum class By : uint8_t { kUser, kProgram, kVersion };
inline constexpr std::array<By, 3> kAllBy = {By::kUser, By::kProgram, By::kVersion};
// "user", "program", "version"
std::string_view NameOf(By by);

struct Figures {
  uint64_t runs = 0;
  uint64_t untimed = 0;  // of them, those whose duration nobody knows
  double duration_s = 0;
  double estimated_gain_s = 0;
  uint64_t gain_unknown = 0;  // runs that gained what nobody knows, too
  uint64_t failed = 0;        // ended with a status other than 0, and by no signal
  uint64_t crashed = 0;       // by a signal, or nobody saw the end
  uint64_t failed_open = 0;   // runs with calls that failed open
  uint64_t stood_aside = 0;   // runs in which an engine did
};

struct Reason {
  uint64_t runs = 0;
  uint64_t count = 0;  // processes that stood aside, or calls that failed open
};

class Totals {
 public:
  static constexpr size_t kMostGroups = 10'000;
  static constexpr size_t kMostReasons = 1000;
  static constexpr std::string_view kOthers = "(others)";

  using Groups = std::map<std::string, Figures>;
  using Reasons = std::map<std::pair<std::string, std::string>, Reason>;  // by engine and reason

  void Add(const RunRecord& record);

  const Figures& all() const { return all_; }
  const Groups& Of(By by) const { return groups_[static_cast<size_t>(by)]; }
  const Reasons& stood_aside() const { return stood_aside_; }
  const Reasons& failed_open() const { return failed_open_; }
  // Of the first run's start and the last one's end; 0: there is none.
  int64_t first_unix_ns() const { return first_unix_ns_; }
  int64_t last_unix_ns() const { return last_unix_ns_; }

 private:
  static void AddTo(Figures* sum, const RunRecord& record);
  static Figures& GroupFor(Groups* groups, const std::string& name);
  static void AddReason(Reasons* reasons, const std::string& engine, const std::string& reason, uint64_t count);

  Figures all_;
  std::array<Groups, kAllBy.size()> groups_;
  Reasons stood_aside_;
  Reasons failed_open_;
  int64_t first_unix_ns_ = 0;
  int64_t last_unix_ns_ = 0;
};

// What `slipstream site` shows.
struct SiteView {
  std::string directory{};
  std::string since{};  // as it was asked for; empty: all
  Totals totals{};
  Skipped skipped{};
};

// Tables of at most 80 columns: of all three kinds, or of the one.
std::string SiteText(const SiteView& view, const By* only);
// One JSON object.
std::string SiteJson(const SiteView& view, const By* only);

}  // namespace slipstream::site
