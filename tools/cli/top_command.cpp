#include "tools/cli/top_command.h"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/top_terminal.h"
#include "tools/cli/trace_build.h"
#include "tools/trace/top/find_run.h"
#include "tools/trace/top/json.h"
#include "tools/trace/top/lines.h"
#include "tools/trace/top/machine_watch.h"
#include "tools/trace/top/run_watch.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

using top::View;
using tracer::NowNs;

constexpr char kTopCommand[] = "top";
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
  Complain(kTopCommand, "standard output cannot be written");
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
size_t TextColumns(size_t of_a_log) {
  winsize size{};
  const bool known = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  return known ? size.ws_col : of_a_log;
}

// What is looked at, and how it is shown at first.
struct Subject {
  std::unique_ptr<top::Watch> watch;
  bool is_machine = false;
  std::optional<int32_t> pid{};  // that was named; it need not be one that is shown
};

// The process to show for the one that was named.
std::optional<int32_t> ShownPid(const top::ProcFiles& processes, const View& view, std::optional<int32_t> named) {
  if (!named) return std::nullopt;
  std::vector<int32_t> shown;
  for (const top::ProcessView& process : view.processes) {
    if (process.alive) shown.push_back(process.pid);
  }
  return top::ShownFor(processes, *named, shown);
}

// Where the process stands in the order; nothing: nowhere.
std::optional<size_t> PlaceOf(const View& view, const std::vector<size_t>& order, std::optional<int32_t> pid) {
  const auto find = [&](bool alive) {
    return std::find_if(order.begin(), order.end(), [&](size_t index) {
      return view.processes[index].pid == pid && (view.processes[index].alive || !alive);
    });
  };
  auto at = find(true);
  if (at == order.end()) at = find(false);
  return at == order.end() ? std::nullopt : std::optional(static_cast<size_t>(at - order.begin()));
}

std::string AsText(const top::ProcFiles& processes, const Subject& subject, const View& view) {
  constexpr size_t kListColumns = 80;
  constexpr size_t kColumns = 100;
  top::Picture picture = {.columns = TextColumns(subject.is_machine ? kListColumns : kColumns),
                          .rows = 0,
                          .list = subject.is_machine,
                          .utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
  const auto order = top::Order(view, picture.sort);
  if (const auto at = PlaceOf(view, order, ShownPid(processes, view, subject.pid))) {
    picture.selected = *at;
    picture.only_selected = true;
  }
  return top::PlainText(top::Draw(view, picture));
}

// One look after another as text.
int Print(const TopOptions& options, uint64_t interval_ns, const top::ProcFiles& processes, const Subject& subject) {
  std::setlocale(LC_CTYPE, "");
  uint64_t next = NowNs();
  bool first = true;
  while (true) {
    next += interval_ns;
    SleepUntil(next);
    subject.watch->Read(NowNs());
    while (!subject.watch->ReadOn()) {
    }
    const View view = subject.watch->Look(NowNs());
    const std::string text = options.json ? top::ViewJson(view) : AsText(processes, subject, view);
    if (const int written = WriteText((options.json || first ? "" : "\n") + text); written != kSuccess) return written;
    first = false;
    if (options.once || view.ended) return kSuccess;
  }
}

// What the keys of a terminal have done so far.
class Session {
 public:
  Session(const Subject& subject, const top::ProcFiles& processes, TopTerminal* terminal, uint64_t interval_ns)
      : subject_(subject), processes_(processes), terminal_(*terminal), interval_ns_(interval_ns) {}

  void Run() {
    picture_.keys = true;
    picture_.list = picture_.has_list = subject_.is_machine;
    picture_.utf8 = terminal_.is_utf8();
    Look(NowNs());
    uint64_t next = NowNs() + std::min(interval_ns_, kFirstNs);
    bool caught_up = false;
    while (!EndingSignals::stop()->load()) {
      const uint64_t now = NowNs();
      // Of the machine others may begin.
      const bool goes_on = subject_.is_machine || !view_.ended;
      if (goes_on && now >= next) {
        subject_.watch->Read(now);
        caught_up = false;
        Look(now);
        next = now + interval_ns_;
      } else if (!caught_up) {
        caught_up = subject_.watch->ReadOn();
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
    if (picture_.paused && (subject_.is_machine || !view_.ended)) return;
    view_ = subject_.watch->Look(now);
    if (!is_chosen_) ChooseNamed();
    Paint();
  }

  // The process that was named, as soon as it, or one that stands for it, is there.
  void ChooseNamed() {
    const std::optional<int32_t> shown = ShownPid(processes_, view_, subject_.pid);
    if (!shown) return;
    is_chosen_ = true;
    selected_pid_ = shown;
    picture_.only_selected = true;
  }

  // The one that was selected may stand elsewhere now.
  std::optional<size_t> Selected(const std::vector<size_t>& order) const {
    return PlaceOf(view_, order, selected_pid_);
  }

  void Paint() {
    const std::vector<size_t> order = top::Order(view_, picture_.sort);
    const std::optional<size_t> selected = Selected(order);
    // Never another process in its place.
    if (!selected && picture_.has_list && !picture_.list) ShowList();
    picture_.columns = terminal_.columns();
    picture_.rows = terminal_.rows();
    picture_.selected = selected.value_or(0);
    terminal_.Paint(top::Draw(view_, picture_));
  }

  void ShowList() {
    picture_.list = true;
    picture_.only_selected = false;
  }

  void Move(int by) {
    const std::vector<size_t> order = top::Order(view_, picture_.sort);
    if (order.empty()) return;
    is_chosen_ = true;
    const auto last = static_cast<int64_t>(order.size()) - 1;
    const int64_t to = std::clamp<int64_t>(static_cast<int64_t>(Selected(order).value_or(0)) + by, 0, last);
    selected_pid_ = view_.processes[order[static_cast<size_t>(to)]].pid;
  }

  void Enter() {
    if (picture_.help) {
      picture_.help = false;
    } else if (!picture_.has_list) {
      picture_.only_selected = !picture_.only_selected;
    } else if (picture_.list) {
      Move(0);
      if (!selected_pid_) return;
      picture_.list = false;
      picture_.only_selected = true;
    }
  }

  void Back() {
    if (picture_.help) {
      picture_.help = false;
    } else if (picture_.has_list) {
      ShowList();
    } else {
      picture_.only_selected = false;
    }
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
        Enter();
        break;
      case Key::kBack:
        Back();
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

  const Subject& subject_;
  const top::ProcFiles& processes_;
  TopTerminal& terminal_;
  const uint64_t interval_ns_;
  bool is_chosen_ = false;  // by a key, or because it was named
  std::optional<int32_t> selected_pid_;
  top::Picture picture_;
  View view_;
};

// False: there is no terminal to draw on, and *why says so, or is empty where nobody would expect one.
bool Show(uint64_t interval_ns, const Subject& subject, const top::ProcFiles& processes, std::string* why) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return false;
  const policy::Environment environment = policy::Environment::FromProcess();
  const EndingSignals signals;
  {
    const std::unique_ptr<TopTerminal> terminal =
        TopTerminal::Open(environment.Get("NO_COLOR").value_or("").empty(), why);
    if (terminal == nullptr) return false;
    Session(subject, processes, terminal.get(), interval_ns).Run();
  }
  return true;
}

std::string NobodyIsHere(const View& view) {
  const std::string whose = geteuid() == 0 ? "" : " of yours";
  std::string text = "no process" + whose + " on this machine is under slipstream";
  if (!view.uncounted.empty()) {
    text += " and keeps counters: process " + std::to_string(view.uncounted.front());
    if (view.uncounted.size() > 1) text += " and " + std::to_string(view.uncounted.size() - 1) + " more";
    text += view.uncounted.size() == 1 ? " does not" : " do not";
  }
  return text +
         "\n  Start a program with: slipstream run -- COMMAND (with --record for steps, lines and the GPU too)\n"
         "  One that is started with --quiet and without --summary keeps no counters.";
}

// Of root the files of whoever the run belongs to are read.
std::optional<uid_t> OwnerOf(const std::string& directory) {
  struct stat facts {};
  if (geteuid() != 0 || stat(directory.c_str(), &facts) != 0) return std::nullopt;
  return facts.st_uid;
}

// False: said why not.
bool Find(const TopOptions& options, const top::ProcFiles& processes, Subject* subject) {
  if (options.run.empty()) {
    subject->is_machine = true;
    subject->watch = std::make_unique<top::MachineWatch>(processes, geteuid() == 0);
    return true;
  }
  const top::FoundRun found = top::FindRun(processes, options.run);
  if (!found.error.empty()) {
    Complain(kTopCommand, found.error);
    return false;
  }
  subject->pid = found.pid;
  subject->watch = std::make_unique<top::RunWatch>(top::RunWatchOptions{
      .directories = found.directories,
      .owner = OwnerOf(found.directories.front()),
      .is_alive = [&processes](int32_t pid) { return processes.IsAlive(pid); },
      .is_in_use = [&processes](const std::string& each) { return top::IsInUse(processes, each); }});
  return true;
}

}  // namespace

int Top(const TopOptions& options) {
  const top::ProcFiles processes(options.proc);
  Subject subject;
  if (!Find(options, processes, &subject)) return kFailed;
  const auto interval_ns = static_cast<uint64_t>(options.interval_s * 1e9);
  subject.watch->Read(NowNs());
  const View view = subject.watch->Look(NowNs());
  if (view.ended) {
    std::string why = view.processes.empty() && !view.problems.empty() ? policy::Escape(view.problems.front()) : "";
    if (why.empty()) why = subject.is_machine ? NobodyIsHere(view) : Ended(view);
    Complain(kTopCommand, why);
    // Scripts get an object, with nobody in it.
    if (subject.is_machine && options.json) WriteText(top::ViewJson(view));
    return kFailed;
  }
  if (!options.once && !options.json) {
    std::string why;
    if (Show(interval_ns, subject, processes, &why)) {
      if (EndingSignals::stop()->load()) EndingSignals::EndAsAsked();
      return kSuccess;
    }
    if (!why.empty()) Complain(kTopCommand, why + "; text instead");
  }
  return Print(options, interval_ns, processes, subject);
}

}  // namespace slipstream::cli
