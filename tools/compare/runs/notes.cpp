#include "tools/compare/runs/notes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "tools/text/text.h"
#include "tools/trace/report/format.h"

namespace slipstream::compare {
namespace {

using report::Counted;
using report::ProcessReport;

constexpr int64_t kHostToDevice = 1;  // of ENUM_CUDA_MEMCPY_OPER
constexpr double kSeen = 0.01;        // a share from which on a difference is worth a line

class Notes {
 public:
  Notes(const RecordedRun& first, const RecordedRun& second) : a_(first), b_(second) {}

  std::vector<Note> Make() {
    Steps();
    Machine();
    Recording();
    Facts();
    Rest();
    std::stable_sort(notes_.begin(), notes_.end(),
                     [](const Note& a, const Note& b) { return a.unsound && !b.unsound; });
    return std::move(notes_);
  }

 private:
  void Say(bool unsound, const std::string& text) { notes_.push_back({.text = text, .unsound = unsound}); }
  // Where both are known and differ.
  void Differ(bool unsound, const std::string& what, const std::string& first, const std::string& second) {
    if (first.empty() || second.empty() || first == second) return;
    Say(unsound, what + " differ: " + first + " in the first run, " + second + " in the second");
  }
  static std::string Number(const std::optional<int64_t>& number) { return number ? std::to_string(*number) : ""; }
  std::string Fact(const RecordedRun& run, const std::string& key) const {
    const auto at = run.facts.find(key);
    return at == run.facts.end() ? "" : at->second;
  }

  void Steps();
  void Machine();
  void Recording();
  void Missing(const RecordedRun& run, const std::string& which);
  void Facts();
  void Rest();

  const RecordedRun& a_;
  const RecordedRun& b_;
  std::vector<Note> notes_;
};

void Notes::Steps() {
  if (!a_.HasSteps() || !b_.HasSteps()) return;
  if (a_.of().ran_ahead || b_.of().ran_ahead) {
    const bool both = a_.of().ran_ahead && b_.of().ran_ahead;
    const bool known = a_.of().work_time.total > 0 && b_.of().work_time.total > 0;
    const std::string which = both ? "both runs" : a_.of().ran_ahead ? "the first run" : "the second run";
    Say(!known, "in " + which + " the host ran ahead of its devices, so that a step is what its work takes" +
                    (known ? "" : "; of the other run that is not known"));
  }
  const std::string& first = a_.of().step_site;
  const std::string& second = b_.of().step_site;
  if (first == second) return;
  const auto begins = [](const std::string& site) {
    return site.empty() ? std::string("where the program says so") : "at " + site;
  };
  const StepSite a = SiteOf(first);
  const StepSite b = SiteOf(second);
  const auto name = [](const std::string& file) { return std::filesystem::path(file).filename(); };
  if (!first.empty() && a.function == b.function && name(a.file) == name(b.file)) {
    Say(false, "steps begin at " + first + " in the first run, at " + second + " in the second");
  } else {
    Say(true, "steps begin " + begins(first) + " in the first run, " + begins(second) +
                  " in the second: a step may not be the same work");
  }
}

void Notes::Machine() {
  const report::DeviceReport* const first = a_.Device();
  const report::DeviceReport* const second = b_.Device();
  if (first != nullptr && second != nullptr) {
    Differ(true, "GPUs", first->name, second->name);
    if (first->name == second->name) Differ(true, "SMs of the GPUs", Number(first->sms), Number(second->sms));
    const size_t devices = a_.of().devices.size();
    const size_t others = b_.of().devices.size();
    Differ(false, "numbers of GPUs that the process uses", std::to_string(devices), std::to_string(others));
    if (std::max(devices, others) > 1)
      Say(false, "of several GPUs of a process, the one that computes most is compared");
  }
  // A process without a launcher knows of none.
  Differ(true, "numbers of ranks (world size)", std::to_string(a_.of().world_size.value_or(1)),
         std::to_string(b_.of().world_size.value_or(1)));
  Differ(true, "ranks of the processes", Number(a_.of().rank), Number(b_.of().rank));
  Differ(false, "hosts", a_.of().host, b_.of().host);
  Differ(false, "processors that the process may use", Fact(a_, "processors"), Fact(b_, "processors"));
}

void Notes::Missing(const RecordedRun& run, const std::string& which) {
  const ProcessReport& process = run.of();
  if (run.partial) Say(true, which + " could not be read to its end: calls are missing in it");
  if (process.drops_everywhere) {
    Say(true, which + " lost records in every step: what they took counts as time outside CUDA calls");
  } else if (process.dropped != 0) {
    Say(true, which + " lost " + Counted(process.dropped, "record", "records") + ", and " +
                  Counted(process.dropped_steps, "step with such a gap is", "steps with such gaps are") + " left out");
  }
}

void Notes::Recording() {
  Missing(a_, "the first run");
  Missing(b_, "the second run");
  if ((a_.Device() == nullptr) != (b_.Device() == nullptr)) {
    Say(true, std::string("only the ") + (a_.Device() != nullptr ? "first" : "second") +
                  " run knows what devices did: recording that takes time by itself, and the parts are those of the "
                  "host");
  } else if (a_.Device() != nullptr && a_.report.device_copies_recorded != b_.report.device_copies_recorded) {
    Say(true, std::string("only the ") + (a_.report.device_copies_recorded ? "first" : "second") +
                  " run has the devices' copies: they count as idle time in the other");
  }
  Differ(true, "intercepted interfaces", a_.of().intercept, b_.of().intercept);
}

// What the processes noted about themselves.
void Notes::Facts() {
  struct Known {
    const char* key;
    const char* what;
    bool unsound;
    bool first_word;  // of the value; a path stands behind it
  };
  constexpr std::array<Known, 9> kKnown = {{{"policy", "policies", true, false},
                                            {"allocator", "allocators", true, false},
                                            {"transfer", "transfer engines", true, false},
                                            {"driver", "driver versions", true, false},
                                            {"runtime", "CUDA runtimes", true, true},
                                            {"pytorch", "PyTorch versions", true, false},
                                            {"torch", "PyTorch versions", true, false},
                                            {"cudnn", "cuDNN versions", true, false},
                                            {"python_lines", "Pythons", true, false}}};
  for (const Known& known : kKnown) {
    std::string first = Fact(a_, known.key);
    std::string second = Fact(b_, known.key);
    if (known.first_word) {
      first.resize(std::min(first.size(), first.find(' ')));
      second.resize(std::min(second.size(), second.find(' ')));
    }
    Differ(known.unsound, known.what, first, second);
  }
}

void Notes::Rest() {
  const auto uploaded = [](const ProcessReport& process) {
    double bytes = 0;
    const auto sizes = process.device_copies.find(kHostToDevice);
    if (sizes == process.device_copies.end()) return bytes;
    for (const auto& [exponent, size] : sizes->second) bytes += static_cast<double>(size.bytes);
    return bytes / process.divisor();
  };
  const auto bytes = [](double of) {
    return text::HumanBytes(static_cast<uint64_t>(std::llround(std::min(of, 9e18))));
  };
  const double first = uploaded(a_.of());
  const double second = uploaded(b_.of());
  if (a_.HasSteps() && b_.HasSteps() && a_.Device() != nullptr && b_.Device() != nullptr &&
      std::abs(second - first) > kSeen * std::max(first, second)) {
    Say(false, "a step uploads " + bytes(first) + " in the first run, " + bytes(second) +
                   " in the second: if the batch is not the same, neither is the work");
  }
  const double pause = a_.of().pause_time.mean();
  const double other_pause = b_.of().pause_time.mean();
  if (a_.HasSteps() && b_.HasSteps() && std::abs(other_pause - pause) > kSeen * a_.of().step_time.mean()) {
    Say(false, "between two steps, which is in none, pass " + report::Time(pause) + " in the first run, " +
                   report::Time(other_pause) + " in the second");
  }
  Differ(false, "commands", a_.of().command, b_.of().command);
}

}  // namespace

std::vector<Note> NotesOn(const RecordedRun& first, const RecordedRun& second) { return Notes(first, second).Make(); }

StepSite SiteOf(const std::string& step_site) {
  const size_t end = std::min(step_site.rfind(" ("), step_site.size());
  const size_t colon = step_site.rfind(':', end);
  if (colon == std::string::npos) return {.file = step_site, .function = ""};
  std::string function = step_site.substr(end);
  if (function.starts_with(" (") && function.ends_with(")")) function = function.substr(2, function.size() - 3);
  return {.file = step_site.substr(0, colon), .function = std::move(function)};
}

}  // namespace slipstream::compare
