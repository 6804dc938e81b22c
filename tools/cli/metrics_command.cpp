#include "tools/cli/metrics_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/run_state.h"
#include "tools/cli/summary_gains.h"
#include "tools/site/metrics.h"
#include "tools/site/metrics_file.h"
#include "tools/site/node.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

// What its summary will say: the same program, and the number of the run's process where that can be told apart here.
site::RunMetrics FiguresOf(const top::ProcFiles& processes, const site::NodeRun& run) {
  site::RunMetrics metrics = site::MetricsOf(run);
  metrics.user = run.user;
  metrics.program = run.program;
  int64_t number = run.facts.first;
  if (const std::optional<RunState> state = ParseRunState(run.state)) {
    metrics.program = state->command;
    metrics.start_unix_s = static_cast<double>(state->start_unix_ns) / 1e9;
    // In a namespace of its own it has another number, which another run here may have too.
    const auto root = static_cast<int32_t>(state->root);
    if (processes.VariablesOf(root).run_directory == run.facts.directory) number = root;
  }
  metrics.run = std::to_string(number);
  for (const site::NodeProcess& process : run.processes) {
    const SummaryGains gains = GainsOf({process.counts});
    metrics.estimated_gain_ns += gains.estimated_ns();
    metrics.gain_unknown = metrics.gain_unknown || gains.unknown;
  }
  return metrics;
}

std::string TextOf(const MetricsOptions& options, const top::ProcFiles& processes) {
  site::NodeMetrics node = {.version = options.version};
  node.left = site::ReadNode(processes, geteuid() == 0, kRunStateName, [&](const site::NodeRun& run) {
    if (node.runs.size() < site::kMostRunsShown) {
      node.runs.push_back(FiguresOf(processes, run));
    } else {
      ++node.runs_left_out;
    }
  });
  return site::MetricsText(node, options.open_metrics ? site::Format::kOpenMetrics : site::Format::kPrometheus);
}

void SayWhyNot(const MetricsOptions& options, const std::string& why) {
  std::fprintf(stderr, "slipstream metrics: %s cannot be written: %s. Name a file in a folder that you may write\n",
               policy::Escape(options.output).c_str(), why.c_str());
}

// Signals that end the process wait until they are asked for.
class AwaitedSignals {
 public:
  AwaitedSignals() {
    sigemptyset(&awaited_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&awaited_, number);
    sigprocmask(SIG_BLOCK, &awaited_, nullptr);
  }

  // False: the time is over, and none has come.
  bool ComesBefore(uint64_t end_ns) const {
    while (true) {
      const uint64_t now = tracer::NowNs();
      const uint64_t left = end_ns > now ? end_ns - now : 0;
      const timespec time = {.tv_sec = static_cast<time_t>(left / kSecondNs),
                             .tv_nsec = static_cast<long>(left % kSecondNs)};
      if (sigtimedwait(&awaited_, nullptr, &time) > 0) return true;
      if (errno != EINTR) return false;
    }
  }

 private:
  sigset_t awaited_{};
};

int WriteAgainAndAgain(const MetricsOptions& options, const top::ProcFiles& processes) {
  const AwaitedSignals signals;
  const auto interval_ns = static_cast<uint64_t>(options.interval_s * 1e9);
  site::MetricsFile file(options.output);
  std::string last_error;
  uint64_t next = tracer::NowNs();
  for (bool first = true;; first = false) {
    const std::string error = file.Write(TextOf(options, processes));
    if (!error.empty()) {
      if (error != last_error) SayWhyNot(options, error);
      if (first) return kFailed;
      file.Remove();
    }
    last_error = error;
    // After a night's sleep of the machine not once for each interval of it.
    next = std::max(next + interval_ns, tracer::NowNs());
    if (signals.ComesBefore(next)) break;
  }
  file.Remove();
  return kSuccess;
}

}  // namespace

int Metrics(const MetricsOptions& options) {
  const top::ProcFiles processes(options.proc);
  if (options.output.empty()) {
    const std::string text = TextOf(options, processes);
    return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? kSuccess : kFailed;
  }
  if (options.interval_s > 0) return WriteAgainAndAgain(options, processes);
  const std::string error = site::MetricsFile(options.output).Write(TextOf(options, processes));
  if (error.empty()) return kSuccess;
  SayWhyNot(options, error);
  return kFailed;
}

}  // namespace slipstream::cli
