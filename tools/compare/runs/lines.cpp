#include "tools/compare/runs/lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <tuple>

#include "tools/compare/runs/notes.h"
#include "tools/trace/report/call_kind.h"

namespace slipstream::compare {
namespace {

using report::CallKind;
using report::LineReport;

constexpr double kAlike = 0.1;  // numbers of calls that differ by this share at most are alike

unsigned BitOf(CallKind kind) {
  const bool counts = kind == CallKind::kCopy || kind == CallKind::kSynchronize || kind == CallKind::kLaunch;
  return counts ? 1U << static_cast<unsigned>(kind) : 0;
}

bool HasAsManyCalls(const LineShape& a, const LineShape& b) {
  return std::abs(a.calls - b.calls) <= kAlike * std::max(a.calls, b.calls);
}

// How much speaks for it that they are one line; 0: they are not. What a line does says more than its number, since
// every line below one that was put in has the number of another one.
int Likeness(const LineShape& a, const LineShape& b) {
  const bool same_kinds = a.kinds == b.kinds;
  const bool same_calls = same_kinds && HasAsManyCalls(a, b);
  if (a.line != b.line && !same_calls) return 0;
  return (a.line == b.line ? 1 : 0) + (same_kinds ? 20 : 0) + (same_calls ? 8 : 0);
}

using Pairs = std::vector<std::pair<size_t, size_t>>;

// The one line of those kinds that is not taken; nothing: none is, or several are.
std::optional<size_t> OnlyLeft(const std::vector<LineShape>& shapes, const std::vector<bool>& taken, unsigned kinds) {
  std::optional<size_t> only;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (taken[i] || shapes[i].kinds != kinds) continue;
    if (only) return std::nullopt;
    only = i;
  }
  return only;
}

void AddOnlyOnes(const std::vector<LineShape>& first, const std::vector<LineShape>& second, Pairs* pairs) {
  std::vector<bool> first_taken(first.size());
  std::vector<bool> second_taken(second.size());
  for (const auto& [a, b] : *pairs) first_taken[a] = second_taken[b] = true;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first_taken[i] || first[i].kinds == 0 || OnlyLeft(first, first_taken, first[i].kinds) != i) continue;
    if (const auto other = OnlyLeft(second, second_taken, first[i].kinds)) pairs->emplace_back(i, *other);
  }
  std::sort(pairs->begin(), pairs->end());
}

// A line of the program, for threads of a sort.
struct Key {
  bool known = false;
  std::string file;
  std::optional<int64_t> line;
  std::string function;
  bool of_step_thread = true;

  auto Tied() const { return std::tie(known, file, line, function, of_step_thread); }
  bool operator<(const Key& other) const { return Tied() < other.Tied(); }
};

Key KeyOf(const LineReport& line) {
  return {.known = line.known,
          .file = line.file,
          .line = line.line,
          .function = line.function,
          .of_step_thread = line.of_step_thread};
}

struct Sum {
  std::array<double, kLineMeasures> times{};
  double calls = 0;
  unsigned kinds = 0;
};

using Lines = std::map<Key, Sum>;

// Of a step.
Lines LinesOf(const RecordedRun& run, bool by_device) {
  Lines lines;
  const double steps = run.of().divisor();
  const auto add = [&](Sum* sum, LineMeasure measure, int64_t time) {
    const bool of_device = measure == LineMeasure::kIdle || measure == LineMeasure::kKernels;
    sum->times[static_cast<size_t>(measure)] +=
        static_cast<double>(time) / (of_device ? run.of().device_divisor() : steps);
  };
  for (const report::SiteReport& site : run.of().sites) {
    Sum& sum = lines[{.known = site.known,
                      .file = site.file,
                      .line = site.line,
                      .function = site.function,
                      .of_step_thread = site.of_step_thread}];
    add(&sum, LineMeasure::kInCalls, site.time);
    add(&sum, LineMeasure::kBefore, site.gap);
    sum.calls += static_cast<double>(site.calls) / steps;
    for (const report::SiteReport::Function& function : site.functions) {
      sum.kinds |= BitOf(report::KindOf(function.name));
    }
  }
  if (!by_device) return lines;
  for (const report::IdleLineReport& idle : run.Device()->idle_lines) {
    add(&lines[KeyOf(idle.line)], LineMeasure::kIdle, idle.time);
  }
  for (const report::KernelLineReport& kernels : run.Device()->kernel_lines) {
    add(&lines[KeyOf(kernels.line)], LineMeasure::kKernels, kernels.time);
  }
  return lines;
}

// The lines of each function, whatever thread they ran in.
using Shapes = std::map<std::pair<std::string, std::string>, std::map<int64_t, LineShape>>;

Shapes ShapesOf(const Lines& lines, const std::map<std::string, std::string>& files) {
  Shapes shapes;
  for (const auto& [key, sum] : lines) {
    if (!key.known || !key.line) continue;
    const auto moved = files.find(key.file);
    LineShape& shape = shapes[{moved != files.end() ? moved->second : key.file, key.function}][*key.line];
    shape.line = *key.line;
    shape.kinds |= sum.kinds;
    shape.calls += sum.calls;
  }
  return shapes;
}

std::vector<LineShape> ListOf(const std::map<int64_t, LineShape>& lines) {
  std::vector<LineShape> list;
  for (const auto& [line, shape] : lines) list.push_back(shape);
  return list;
}

// Puts the lines of two runs together.
class Merge {
 public:
  Merge(const RecordedRun& first, const RecordedRun& second, bool by_device)
      : first_(LinesOf(first, by_device)), second_(LinesOf(second, by_device)) {
    files_ = MovedFiles(FilesOf(first_), FilesOf(second_), first.of().step_site, second.of().step_site);
    const Shapes shapes = ShapesOf(first_, {});
    for (const auto& [function, lines] : ShapesOf(second_, files_)) {
      const auto at = shapes.find(function);
      if (at == shapes.end()) continue;
      const std::vector<LineShape> a = ListOf(at->second);
      const std::vector<LineShape> b = ListOf(lines);
      for (const auto& [i, j] : AlignLines(a, b)) numbers_[{function, b[j].line}] = a[i].line;
    }
  }

  std::vector<LineChange> Make() {
    std::map<Key, size_t> rows;
    for (const auto& [key, sum] : first_) {
      rows[key] = changes_.size();
      Put(key, sum, 0, &changes_.emplace_back());
    }
    for (const auto& [key, sum] : second_) {
      const std::optional<Key> before = Before(key);
      const auto row = before ? rows.find(*before) : rows.end();
      LineChange& change = row != rows.end() ? changes_[row->second] : changes_.emplace_back();
      if (before && before->file != key.file) change.was_file = before->file;
      if (before && before->line != key.line) change.was_line = before->line;
      Put(key, sum, 1, &change);
    }
    return std::move(changes_);
  }

 private:
  static std::set<std::string> FilesOf(const Lines& lines) {
    std::set<std::string> files;
    for (const auto& [key, sum] : lines) {
      if (key.known) files.insert(key.file);
    }
    return files;
  }

  // What the first run calls a line of the second; nothing: it does not have it.
  std::optional<Key> Before(Key key) const {
    if (!key.known) return key;
    if (const auto moved = files_.find(key.file); moved != files_.end()) key.file = moved->second;
    if (!key.line) return key;
    const auto number = numbers_.find({{key.file, key.function}, *key.line});
    if (number == numbers_.end()) return std::nullopt;
    key.line = number->second;
    return key;
  }

  static void Put(const Key& key, const Sum& sum, size_t run, LineChange* change) {
    change->line = {.known = key.known,
                    .of_step_thread = key.of_step_thread,
                    .file = key.file,
                    .line = key.line,
                    .function = key.function};
    (run == 0 ? change->in_first : change->in_second) = true;
    for (size_t i = 0; i < kLineMeasures; ++i) change->times[i][run] = sum.times[i];
  }

  const Lines first_;
  const Lines second_;
  std::map<std::string, std::string> files_;
  // By file (as the first run has it), function and number in the second run: the number in the first.
  std::map<std::pair<std::pair<std::string, std::string>, int64_t>, int64_t> numbers_;
  std::vector<LineChange> changes_;
};

double LargestOf(const LineChange& change) {
  double largest = 0;
  for (const auto& times : change.times) largest = std::max(largest, std::abs(times[1] - times[0]));
  return largest;
}

}  // namespace

Pairs AlignLines(const std::vector<LineShape>& first, const std::vector<LineShape>& second) {
  // The best sum of what the lines from i and from j on can have (Needleman and Wunsch, without a price of gaps).
  std::vector<std::vector<int>> best(first.size() + 1, std::vector<int>(second.size() + 1));
  for (size_t i = first.size(); i-- > 0;) {
    for (size_t j = second.size(); j-- > 0;) {
      best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
      const int likeness = Likeness(first[i], second[j]);
      if (likeness > 0) best[i][j] = std::max(best[i][j], likeness + best[i + 1][j + 1]);
    }
  }
  Pairs pairs;
  for (size_t i = 0, j = 0; i < first.size() && j < second.size();) {
    const int likeness = Likeness(first[i], second[j]);
    if (likeness > 0 && best[i][j] == likeness + best[i + 1][j + 1]) {
      pairs.emplace_back(i++, j++);
    } else if (best[i][j] == best[i + 1][j]) {
      ++i;
    } else {
      ++j;
    }
  }
  AddOnlyOnes(first, second, &pairs);
  return pairs;
}

std::map<std::string, std::string> MovedFiles(const std::set<std::string>& first, const std::set<std::string>& second,
                                              const std::string& first_step_site, const std::string& second_step_site) {
  const auto only = [](const std::set<std::string>& files, const std::set<std::string>& others) {
    std::map<std::string, std::vector<std::string>> by_name;
    for (const std::string& file : files) {
      if (!others.contains(file)) by_name[std::filesystem::path(file).filename().string()].push_back(file);
    }
    return by_name;
  };
  std::map<std::string, std::string> moved;
  const auto of_first = only(first, second);
  for (const auto& [name, files] : only(second, first)) {
    const auto same = of_first.find(name);
    if (files.size() == 1 && same != of_first.end() && same->second.size() == 1) moved[files[0]] = same->second[0];
  }
  const std::string a = SiteOf(first_step_site).file;
  const std::string b = SiteOf(second_step_site).file;
  const bool is_other = first.contains(a) && second.contains(b) && !first.contains(b) && !second.contains(a);
  const bool is_taken =
      std::any_of(moved.begin(), moved.end(), [&](const auto& pair) { return pair.second == a || pair.first == b; });
  if (is_other && !is_taken) moved[b] = a;
  return moved;
}

std::vector<LineChange> CompareLines(const RecordedRun& first, const RecordedRun& second) {
  const bool by_device = first.Device() != nullptr && second.Device() != nullptr;
  std::vector<LineChange> changes = Merge(first, second, by_device).Make();
  std::stable_sort(changes.begin(), changes.end(),
                   [](const LineChange& a, const LineChange& b) { return LargestOf(a) > LargestOf(b); });
  return changes;
}

}  // namespace slipstream::compare
