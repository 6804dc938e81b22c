#include "tools/cli/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/top_terminal.h"
#include "tools/cli/trace_build.h"
#include "tools/trace/top/find_run.h"
#include "tools/trace/top/json.h"
#include "tools/trace/top/lines.h"
#include "tools/trace/top/run_watch.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

using top::View;
using tracer::NowNs;

constexpr char kCommand[] = "top";
constexpr uint64_t kMillisecondNs = 1'000'000;
// The first figures are there soon.
constexpr uint64_t kFirstNs = 300 * kMillisecondNs;
// Signals come between two looks at the flag, too.
constexpr uint64_t kLongestWaitNs = 200 * kMillisecondNs;

void SleepUntil(uint64_t time_ns) {
  for (uint64_t now = NowNs(); now < time_ns; now = NowNs()) {
    poll(nullptr, 0, static_cast<int>(std::min<uint64_t>((time_ns - now) / kMillisecondNs + 1, 1000)));
  }
}

int WriteText(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kSuccess;
  Complain(kCommand, "standard output cannot be written");
  return kFailed;
}

std::string Ended(const View& view) {
  std::string text = policy::Escape(view.directories.front()) + ": the run has ended";
  const bool recorded = std::any_of(view.processes.begin(), view.processes.end(),
                                    [](const top::ProcessView& process) { return process.trace.has_value(); });
  if (recorded) text += "\n  It was recorded: slipstream report " + policy::Escape(view.directories.front());
  return text;
}

// Of a line of text: a terminal's own; of a log nobody knows.
size_t TextColumns() {
  constexpr size_t kOfALog = 100;
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kOfALog;
  return size.ws_col;
}

// One look after another as text.
int Print(const TopOptions& options, uint64_t interval_ns, top::RunWatch* watch) {
  uint64_t next = NowNs();
  bool first = true;
  while (true) {
    next += interval_ns;
    SleepUntil(next);
    watch->Read(NowNs());
    while (!watch->ReadOn()) {
    }
    const View view = watch->Look(NowNs());
    const std::string text =
        options.json ? top::ViewJson(view) : top::PlainText(top::Draw(view, {.columns = TextColumns(), .rows = 0}));
    if (const int written = WriteText((options.json || first ? "" : "\n") + text); written != kSuccess) return written;
    first = false;
    if (options.once || view.ended) return kSuccess;
  }
}

// What the keys of a terminal have done so far.
class Session {
 public:
  Session(top::RunWatch* watch, TopTerminal* terminal, uint64_t interval_ns, std::optional<int32_t> pid)
      : watch_(*watch), terminal_(*terminal), interval_ns_(interval_ns), selected_pid_(pid) {}

  void Run() {
    picture_.keys = true;
    Look(NowNs());
    uint64_t next = NowNs() + std::min(interval_ns_, kFirstNs);
    bool caught_up = false;
    while (!EndingSignals::stop()->load()) {
      const uint64_t now = NowNs();
      if (!view_.ended && now >= next) {
        watch_.Read(now);
        caught_up = false;
        Look(now);
        next = now + interval_ns_;
      } else if (!caught_up) {
        caught_up = watch_.ReadOn();
        if (caught_up) Look(now);
      }
      const uint64_t wait = next > now ? std::min(next - now, kLongestWaitNs) : kLongestWaitNs;
      const Key key = terminal_.Wait(caught_up ? static_cast<int>(wait / kMillisecondNs) + 1 : 0);
      if (key == Key::kQuit || key == Key::kGone) return;
      if (key != Key::kNone) Press(key);
    }
  }

 private:
  void Look(uint64_t now) {
    if (picture_.paused && !view_.ended) return;
    view_ = watch_.Look(now);
    Paint();
  }

  // The one that was selected may stand elsewhere now.
  size_t Selected(const std::vector<size_t>& order) const {
    if (!selected_pid_) return 0;
    const auto at = std::find_if(order.begin(), order.end(),
                                 [&](size_t index) { return view_.processes[index].pid == *selected_pid_; });
    return at == order.end() ? 0 : static_cast<size_t>(at - order.begin());
  }

  void Paint() {
    picture_.columns = terminal_.columns();
    picture_.rows = terminal_.rows();
    picture_.selected = Selected(top::Order(view_, picture_.sort));
    terminal_.Paint(top::Draw(view_, picture_));
  }

  void Move(int by) {
    const std::vector<size_t> order = top::Order(view_, picture_.sort);
    if (order.empty()) return;
    const auto last = static_cast<int64_t>(order.size()) - 1;
    const int64_t to = std::clamp<int64_t>(static_cast<int64_t>(Selected(order)) + by, 0, last);
    selected_pid_ = view_.processes[order[static_cast<size_t>(to)]].pid;
  }

  void Press(Key key) {
    switch (key) {
      case Key::kUp:
        Move(-1);
        break;
      case Key::kDown:
        Move(1);
        break;
      case Key::kEnter:
        if (picture_.help) {
          picture_.help = false;
        } else {
          picture_.only_selected = !picture_.only_selected;
        }
        break;
      case Key::kPause:
        picture_.paused = !picture_.paused;
        if (!picture_.paused) Look(NowNs());
        break;
      case Key::kSort:
        picture_.sort = static_cast<top::SortBy>((static_cast<size_t>(picture_.sort) + 1) % top::kSorts);
        break;
      case Key::kHelp:
        picture_.help = !picture_.help;
        break;
      default:
        break;
    }
    Paint();
  }

  top::RunWatch& watch_;
  TopTerminal& terminal_;
  const uint64_t interval_ns_;
  std::optional<int32_t> selected_pid_;
  top::Picture picture_;
  View view_;
};

// False: there is no terminal to draw on, and *why says so, or is empty where nobody would expect one.
bool Show(uint64_t interval_ns, top::RunWatch* watch, std::optional<int32_t> pid, std::string* why) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return false;
  const policy::Environment environment = policy::Environment::FromProcess();
  const EndingSignals signals;
  {
    const std::unique_ptr<TopTerminal> terminal =
        TopTerminal::Open(environment.Get("NO_COLOR").value_or("").empty(), why);
    if (terminal == nullptr) return false;
    Session(watch, terminal.get(), interval_ns, pid).Run();
  }
  return true;
}

}  // namespace

int Top(const TopOptions& options) {
  const top::ProcFiles processes;
  const top::FoundRun found = options.run.empty() ? top::FindOnlyRun(processes) : top::FindRun(processes, options.run);
  if (!found.error.empty()) {
    Complain(kCommand, found.error);
    return kFailed;
  }
  top::RunWatch watch({.directories = found.directories,
                       .is_alive = [&](int32_t pid) { return processes.IsAlive(pid); },
                       .is_in_use = [&](const std::string& each) { return top::IsInUse(processes, each); }});
  const auto interval_ns = static_cast<uint64_t>(options.interval_s * 1e9);
  watch.Read(NowNs());
  const View view = watch.Look(NowNs());
  if (view.ended) {
    std::string why = view.processes.empty() && !view.problems.empty() ? policy::Escape(view.problems.front()) : "";
    Complain(kCommand, why.empty() ? Ended(view) : why);
    return kFailed;
  }
  if (!options.once && !options.json) {
    std::string why;
    if (Show(interval_ns, &watch, found.pid, &why)) {
      if (EndingSignals::stop()->load()) EndingSignals::EndAsAsked();
      return kSuccess;
    }
    if (!why.empty()) Complain(kCommand, why + "; text instead");
  }
  return Print(options, interval_ns, &watch);
}

}  // namespace slipstream::cli
