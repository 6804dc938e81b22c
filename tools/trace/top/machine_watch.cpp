#include "tools/trace/top/machine_watch.h"

#include <time.h>

#include <algorithm>
#include <tuple>

#include "tools/text/user_name.h"
#include "tools/trace/top/words.h"
#include "tracer/base/clock.h"

namespace slipstream::top {

MachineWatch::MachineWatch(ProcFiles processes, bool for_everybody)
    : processes_(std::move(processes)), for_everybody_(for_everybody) {}

void MachineWatch::Find(uint64_t now_ns) {
  if (found_ns_ && now_ns - *found_ns_ < kFindNs) return;
  found_ns_ = now_ns;
  RunsHere here = FindAll(processes_);
  uncounted_ = std::move(here.uncounted);
  for (const auto& run : runs_) run->is_here = false;
  for (RunHere& found : here.runs) {
    // A directory of the name of one that has ended is another run's.
    const auto known = std::find_if(runs_.begin(), runs_.end(), [&](const auto& run) {
      return run->facts.directory == found.directory && !run->ended_ns;
    });
    if (known != runs_.end()) {
      (*known)->is_here = true;
      (*known)->facts.first = found.first;
      continue;
    }
    Run* const run = runs_.emplace_back(std::make_unique<Run>()).get();
    run->user = found.owner ? text::UserName(*found.owner) : "";
    run->watch =
        std::make_unique<RunWatch>(RunWatchOptions{.directories = {found.directory},
                                                   .owner = for_everybody_ ? found.owner : std::nullopt,
                                                   .is_alive = [this](int32_t pid) { return processes_.IsAlive(pid); },
                                                   .is_in_use = [run](const std::string&) { return run->is_here; }});
    run->facts = std::move(found);
  }
}

void MachineWatch::Read(uint64_t now_ns) {
  Find(now_ns);
  std::erase_if(runs_, [&](const auto& run) { return run->ended_ns && now_ns - *run->ended_ns > kEndedShownNs; });
  for (const auto& run : runs_) {
    if (!run->ended_ns) run->watch->Read(now_ns);
  }
}

bool MachineWatch::ReadOn() {
  bool all = true;
  for (const auto& run : runs_) all = (run->ended_ns || run->watch->ReadOn()) && all;
  return all;
}

ProcessView MachineWatch::First(const Run& run) const {
  ProcessView process = {.pid = run.facts.first, .executable = processes_.NameOf(run.facts.first)};
  process.directory = run.facts.directory;
  process.user = run.user;
  process.command = CommandLabel(processes_.CommandOf(run.facts.first));
  process.alive = true;
  process.no_counters = "no CUDA call yet: waiting for the first";
  return process;
}

void MachineWatch::AddProcesses(Run* run, uint64_t now_ns, View* view) {
  View own = run->watch->Look(now_ns);
  if (own.ended && !run->ended_ns) run->ended_ns = now_ns;
  if (!run->ended_ns) view->problems.insert(view->problems.end(), own.problems.begin(), own.problems.end());
  // Where they stand does not depend on whether they live.
  std::stable_sort(own.processes.begin(), own.processes.end(), [](const ProcessView& a, const ProcessView& b) {
    return std::tie(a.rank, a.start_unix_ns, a.pid) < std::tie(b.rank, b.start_unix_ns, b.pid);
  });
  bool any = false;
  for (ProcessView& process : own.processes) {
    const Who who(process.pid, process.start_unix_ns);
    if (process.alive) {
      run->ended[who] = std::nullopt;
      const auto [command, is_new] = run->commands.try_emplace(who);
      if (is_new && process.host.empty()) command->second = CommandLabel(processes_.CommandOf(process.pid));
    } else {
      const auto known = run->ended.find(who);
      if (known == run->ended.end()) continue;
      if (!known->second) known->second = now_ns;
      if (now_ns - *known->second > kEndedShownNs) continue;
    }
    any = any || process.alive;
    process.user = run->user;
    process.command = run->commands[who];
    view->processes.push_back(std::move(process));
  }
  if (!any && !run->ended_ns && run->is_here && processes_.IsAlive(run->facts.first)) {
    view->processes.push_back(First(*run));
  }
}

View MachineWatch::Look(uint64_t now_ns) {
  View view = {.unix_ns = tracer::UnixNs(), .uncounted = uncounted_};
  for (const auto& run : runs_) {
    view.directories.push_back(run->facts.directory);
    AddProcesses(run.get(), now_ns, &view);
  }
  view.ended = std::none_of(view.processes.begin(), view.processes.end(), [](const auto& each) { return each.alive; });
  return view;
}

}  // namespace slipstream::top
