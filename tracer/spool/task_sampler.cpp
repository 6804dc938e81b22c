#include "tracer/spool/task_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "policy/number.h"

namespace slipstream::tracer {
namespace {

constexpr size_t kMostText = 4096;
constexpr uint64_t kBusyShare = 10;  // a tenth

// Up to the next blank or line; takes it off. Empty: there is no more.
std::string_view NextWord(std::string_view* text) {
  constexpr std::string_view kBlanks = " \t\n";
  text->remove_prefix(std::min(text->find_first_not_of(kBlanks), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kBlanks));
  text->remove_prefix(word.size());
  return word;
}

// The number behind a word at the beginning of a line.
std::optional<uint64_t> NumberBehind(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (NextWord(&line) == key) return policy::NumberIn<uint64_t>(NextWord(&line));
  }
  return std::nullopt;
}

bool Numbers(std::string_view text, size_t most, std::vector<uint32_t>* numbers) {
  std::string_view left = text;
  for (std::string_view word = NextWord(&left); !word.empty(); word = NextWord(&left)) {
    const auto number = policy::NumberIn<uint32_t>(word);
    if (!number || numbers->size() == most) return false;
    numbers->push_back(*number);
  }
  return text.size() < kMostText;
}

}  // namespace

TaskSampler::TaskSampler(OwnFiles* files, std::string proc, std::string cgroups)
    : files_(*files), proc_(std::move(proc)), cgroups_(std::move(cgroups)) {
  FindGroup();
}

// At most kMostText bytes. False: it is not there.
bool TaskSampler::ReadText(const std::string& path, std::string* text) const {
  char bytes[kMostText];
  const ssize_t used = files_.Read(path.c_str(), bytes);
  text->assign(bytes, static_cast<size_t>(std::max<ssize_t>(used, 0)));
  return used >= 0;
}

// Calls use(i, text) for each path whose file is there, with at most kMostText bytes. Many at a time: handing work to
// the thread of files takes longer than to read one.
template <typename Use>
void TaskSampler::ReadTexts(const std::vector<std::string>& paths, const Use& use) const {
  constexpr size_t kAtOnce = 32;
  std::vector<char> bytes(std::min(paths.size(), kAtOnce) * kMostText);
  std::array<ssize_t, kAtOnce> used{};
  for (size_t first = 0; first < paths.size(); first += kAtOnce) {
    const size_t count = std::min(paths.size() - first, kAtOnce);
    files_.Do([&] {
      for (size_t i = 0; i < count; ++i) {
        used[i] = ReadFile(paths[first + i].c_str(), {&bytes[i * kMostText], kMostText});
      }
    });
    for (size_t i = 0; i < count; ++i) {
      if (used[i] >= 0) use(first + i, std::string_view(&bytes[i * kMostText], static_cast<size_t>(used[i])));
    }
  }
}

uint64_t TaskSampler::PeriodNs() const {
  if (looks_ > kEarlyLooks) return kPeriodNs;
  return std::min(kEarlyPeriodNs, kFirstPeriodNs << (looks_ > 1 ? looks_ - 2 : 0));
}

// Of threads, or of processes' first ones: how long they ran, how long they waited to, in ns (the kernel's
// sched-stats).
TaskSampler::ByNumber TaskSampler::TimesOf(std::span<const uint32_t> numbers, const std::string& folder) const {
  std::vector<std::string> paths;
  paths.reserve(numbers.size());
  for (const uint32_t number : numbers) paths.push_back(folder + std::to_string(number) + "/schedstat");
  ByNumber times;
  ReadTexts(paths, [&](size_t i, std::string_view left) {
    const auto ran = policy::NumberIn<uint64_t>(NextWord(&left));
    const auto waited = policy::NumberIn<uint64_t>(NextWord(&left));
    if (ran && waited) times[numbers[i]] = {*ran, *waited};
  });
  return times;
}

// A number may have been given anew.
bool TaskSampler::IsNew(const ByNumber& before, uint32_t number, const Times& times) {
  const auto was = before.find(number);
  return was == before.end() || was->second.ran_ns > times.ran_ns;
}

// What was not there before began since.
void TaskSampler::AddTimes(const ByNumber& before, const ByNumber& now, TaskSample* sample) const {
  const uint64_t busy = (sample->end_ns - sample->start_ns) / kBusyShare;
  for (const auto& [number, times] : now) {
    const auto was = before.find(number);
    const bool is_new = IsNew(before, number, times);
    const uint64_t ran = times.ran_ns - (is_new ? 0 : was->second.ran_ns);
    const uint64_t waited_before = is_new ? 0 : was->second.waited_ns;
    sample->ran_ns += ran;
    sample->waited_ns += times.waited_ns > waited_before ? times.waited_ns - waited_before : 0;
    if (ran >= busy) ++sample->busy;
  }
}

// False: there are too many to be looked at, or they cannot be listed.
bool TaskSampler::ReadThreads(uint64_t* threads, std::vector<uint32_t>* tids) const {
  std::string text;
  if (!ReadText(proc_ + "/self/status", &text)) return false;
  *threads = NumberBehind(text, "Threads:").value_or(0);
  if (*threads > kMostThreads) return false;
  tids->reserve(kMostThreads);
  return files_.ListNumbers((proc_ + "/self/task").c_str(), tids) == 0;
}

// `pid` 0: this process. False: it cannot be told (the kernel may have been built without it), or there are too many.
bool TaskSampler::ReadChildren(uint32_t pid, std::span<const uint32_t> tids, std::vector<uint32_t>* children) const {
  const std::string folder = proc_ + "/" + (pid == 0 ? "self" : std::to_string(pid)) + "/task/";
  std::vector<std::string> paths;
  paths.reserve(tids.size());
  for (const uint32_t tid : tids) paths.push_back(folder + std::to_string(tid) + "/children");
  bool any = false;  // a thread may have ended
  bool all = true;
  ReadTexts(paths, [&](size_t, std::string_view text) {
    any = true;
    all = all && Numbers(text, kMostChildren, children);
  });
  return any && all;
}

// Children that are copies of this process, or of a server that forks for it, or that Python's multiprocessing or
// PyTorch's loader names so: not compilers, loggers and whatever else a program starts.
bool TaskSampler::ReadWorkers(std::span<const uint32_t> tids, std::vector<uint32_t>* workers) const {
  std::vector<uint32_t> children;
  if (!ReadChildren(0, tids, &children)) return false;
  std::string mine;
  if (!ReadText(proc_ + "/self/cmdline", &mine)) return false;
  const auto add = [&](const std::vector<uint32_t>& from, const std::string& parent, std::vector<uint32_t>* servers) {
    for (const uint32_t pid : from) {
      const std::string folder = proc_ + "/" + std::to_string(pid);
      std::string name;
      std::string command;
      if (!ReadText(folder + "/comm", &name) || !ReadText(folder + "/cmdline", &command) || command.empty()) continue;
      const bool is_worker = command == parent || name.starts_with("pt_data_worker") ||
                             command.find("--multiprocessing-fork") != std::string::npos;
      if (is_worker) workers->push_back(pid);
      if (!is_worker && servers != nullptr && command.find("multiprocessing.forkserver") != std::string::npos) {
        servers->push_back(pid);
      }
    }
  };
  std::vector<uint32_t> servers;
  add(children, mine, &servers);
  for (const uint32_t server : servers) {
    std::vector<uint32_t> forked;
    std::string command;
    if (!ReadText(proc_ + "/" + std::to_string(server) + "/cmdline", &command)) continue;  // it has ended
    if (ReadChildren(server, std::array{server}, &forked)) add(forked, command, nullptr);
  }
  return workers->size() <= kMostChildren;
}

std::vector<TaskSample> TaskSampler::Look(uint64_t now_ns, std::span<const Thread> threads) {
  TaskSample process = {.start_ns = looks_ != 0 ? std::min(last_ns_, now_ns) : now_ns, .end_ns = now_ns};
  TaskSample workers = {.start_ns = process.start_ns, .end_ns = now_ns, .of = TasksOf::kWorkers};
  uint64_t count = 0;
  std::vector<uint32_t> tids;
  const bool has_threads = ReadThreads(&count, &tids);
  if (count == 0) return {};
  ++looks_;
  last_ns_ = now_ns;
  process.count = static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX));
  std::vector<uint32_t> pids;
  const bool has_workers = has_threads && ReadWorkers(tids, &pids);
  ByNumber now_threads;
  if (has_threads) now_threads = TimesOf(tids, proc_ + "/self/task/");
  ByNumber now_workers = TimesOf(pids, proc_ + "/");
  workers.count = static_cast<uint32_t>(pids.size());
  const bool is_later = process.end_ns > process.start_ns;
  process.has_times = is_later && !threads_.empty() && !now_threads.empty();
  workers.has_times = is_later && had_workers_ && now_workers.size() == pids.size();
  if (process.has_times) AddTimes(threads_, now_threads, &process);
  if (workers.has_times) {
    AddTimes(workers_, now_workers, &workers);
    workers.has_began = true;
    for (const auto& [pid, times] : now_workers) workers.began += IsNew(workers_, pid, times) ? 1 : 0;
  }

  uint64_t throttled = 0;
  uint64_t throttled_ns = 0;
  const bool has_throttled = ReadThrottled(&throttled, &throttled_ns);
  process.has_throttled = is_later && has_throttled && had_throttled_ && throttled >= throttled_;
  if (process.has_throttled) {
    process.throttled = static_cast<uint32_t>(std::min<uint64_t>(throttled - throttled_, UINT32_MAX));
    process.throttled_ns = throttled_ns > throttled_ns_ ? throttled_ns - throttled_ns_ : 0;
  }

  std::vector<TaskSample> samples = {process};
  if (has_workers) samples.push_back(workers);
  for (const Thread& thread : threads) {
    const auto at = now_threads.find(thread.tid);
    const auto was = threads_.find(thread.tid);
    if (!process.has_times || at == now_threads.end() || was == threads_.end()) continue;
    TaskSample sample = {.start_ns = process.start_ns,
                         .end_ns = now_ns,
                         .of = TasksOf::kThread,
                         .thread = thread.number,
                         .count = 1,
                         .has_times = true};
    AddTimes({*was}, {*at}, &sample);
    samples.push_back(sample);
  }
  threads_ = std::move(now_threads);
  workers_ = std::move(now_workers);
  had_workers_ = has_workers;
  had_throttled_ = has_throttled;
  throttled_ = throttled;
  throttled_ns_ = throttled_ns;
  return samples;
}

std::optional<uint64_t> TaskSampler::LimitThousandths() const {
  if (!quota_) return std::nullopt;
  return static_cast<uint64_t>(std::llround(*quota_ * 1000));
}

// Processors. cpu.max: "max 100000", or quota and period in us; cpu.cfs_quota_us: -1, or the quota.
std::optional<double> TaskSampler::QuotaIn(const Group& group) const {
  std::string text;
  std::optional<uint64_t> quota;
  std::optional<uint64_t> period;
  if (group.is_second_version) {
    if (!ReadText(group.folder + "/cpu.max", &text)) return std::nullopt;
    std::string_view left = text;
    quota = policy::NumberIn<uint64_t>(NextWord(&left));
    period = policy::NumberIn<uint64_t>(NextWord(&left));
  } else {
    std::string period_text;
    if (!ReadText(group.folder + "/cpu.cfs_quota_us", &text)) return std::nullopt;
    if (!ReadText(group.folder + "/cpu.cfs_period_us", &period_text)) return std::nullopt;
    std::string_view left = text;
    std::string_view period_left = period_text;
    quota = policy::NumberIn<uint64_t>(NextWord(&left));
    period = policy::NumberIn<uint64_t>(NextWord(&period_left));
  }
  if (quota.value_or(0) == 0 || period.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// The limits of all groups that hold this one hold for it. A container may see its own group as the outermost one, and
// the path to it not at all: then those that are there count. cgroups(7).
void TaskSampler::FindGroup() {
  std::string text;
  if (!ReadText(proc_ + "/self/cgroup", &text)) return;
  std::string_view left = text;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    const size_t names = line.find(':');
    const size_t path_at = names != std::string_view::npos ? line.find(':', names + 1) : names;
    if (path_at == std::string_view::npos) continue;
    const std::string controllers(line.substr(names + 1, path_at - names - 1));
    const bool second = controllers.empty();
    if (!second && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    std::string path(line.substr(path_at + 1));
    if (path == "/") path.clear();
    for (bool last = false; !last;) {
      last = path.empty();
      std::vector<std::string> roots = {cgroups_ + (second ? "" : "/" + controllers)};
      if (!second) roots.push_back(cgroups_ + "/cpu");
      for (const std::string& root : roots) {
        const Group group = {root + path, second};
        const auto quota = QuotaIn(group);
        if (!quota || (quota_ && *quota_ <= *quota)) continue;
        quota_ = quota;
        group_ = group;
      }
      if (!last) path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
}

bool TaskSampler::ReadThrottled(uint64_t* periods, uint64_t* ns) const {
  if (!group_) return false;
  std::string text;
  if (!ReadText(group_->folder + "/cpu.stat", &text)) return false;
  const auto count = NumberBehind(text, "nr_throttled");
  const auto us = NumberBehind(text, "throttled_usec");
  const auto time = NumberBehind(text, "throttled_time");
  if (!count) return false;
  *periods = *count;
  *ns = us ? *us * 1000 : time.value_or(0);
  return true;
}

}  // namespace slipstream::tracer
