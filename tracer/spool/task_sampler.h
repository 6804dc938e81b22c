// Looks at what this process has at work, in /proc, and at what its control group lets it have.
//
// A look reads two files for each of its threads and four for each of its children, by a thread of ours: 0.6 ms with
// 100 threads and 16 children. It never looks at more than kMostThreads and kMostChildren: of a process that has more,
// it says how many threads there are and nothing else.
//
// Threading: an object belongs to one thread, which is none of the program's.
// Errors: what cannot be read is not known. Out of memory throws.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tracer/spool/own_files.h"
#include "tracer/spool/task_record.h"

namespace slipstream::tracer {

class TaskSampler {
 public:
  static constexpr size_t kMostThreads = 1024;
  static constexpr size_t kMostChildren = 256;
  // Between two looks: it doubles from the first period to the early one, so that a short run is looked at too, and is
  // long after a while.
  static constexpr uint64_t kFirstPeriodNs = 50'000'000;
  static constexpr uint64_t kEarlyPeriodNs = 1'000'000'000;
  static constexpr uint64_t kPeriodNs = 5'000'000'000;
  static constexpr uint64_t kEarlyLooks = 25;

  // Reads by `files`, which have been started and live longer. Tests have a tree of their own.
  explicit TaskSampler(OwnFiles* files, std::string proc = "/proc", std::string cgroups = "/sys/fs/cgroup");

  // A thread that calls CUDA.
  struct Thread {
    uint32_t number = 0;  // as records have it
    uint32_t tid = 0;
  };

  // How long after this look the next one is due.
  uint64_t PeriodNs() const;
  // One for the process, one for its workers if they can be counted, and one for each of the threads that were there at
  // the look before too. Nothing: /proc is not there.
  std::vector<TaskSample> Look(uint64_t now_ns, std::span<const Thread> threads);

  // Processors that the control group lets the process use, in thousandths; nothing: no limit, or none that is known.
  std::optional<uint64_t> LimitThousandths() const;

 private:
  struct Times {
    uint64_t ran_ns = 0;
    uint64_t waited_ns = 0;
  };
  using ByNumber = std::map<uint32_t, Times>;
  struct Group {
    std::string folder;
    bool is_second_version = false;
  };

  bool ReadText(const std::string& path, std::string* text) const;
  template <typename Use>
  void ReadTexts(const std::vector<std::string>& paths, const Use& use) const;
  ByNumber TimesOf(std::span<const uint32_t> numbers, const std::string& folder) const;
  static bool IsNew(const ByNumber& before, uint32_t number, const Times& times);
  void AddTimes(const ByNumber& before, const ByNumber& now, TaskSample* sample) const;
  bool ReadThreads(uint64_t* threads, std::vector<uint32_t>* tids) const;
  bool ReadChildren(uint32_t pid, std::span<const uint32_t> tids, std::vector<uint32_t>* children) const;
  bool ReadWorkers(std::span<const uint32_t> tids, std::vector<uint32_t>* workers) const;
  void FindGroup();
  std::optional<double> QuotaIn(const Group& group) const;
  bool ReadThrottled(uint64_t* periods, uint64_t* ns) const;

  OwnFiles& files_;
  const std::string proc_;
  const std::string cgroups_;
  std::optional<Group> group_;  // the one whose limit is the lowest
  std::optional<double> quota_;
  uint64_t looks_ = 0;
  uint64_t last_ns_ = 0;
  ByNumber threads_;  // of the look before
  ByNumber workers_;
  bool had_workers_ = false;  // they could be counted
  bool had_throttled_ = false;
  uint64_t throttled_ = 0;
  uint64_t throttled_ns_ = 0;
};

}  // namespace slipstream::tracer
