#include "tools/trace/db/survey.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "policy/number.h"
#include "tools/trace/db/step_names.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/range_record.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::trace_db {
namespace {

// The ranges of a process that are named as steps are, by kind of name and thread.
class NamedRanges {
 public:
  // Of more than `most`, none is remembered.
  NamedRanges(const tracer::SpoolReader& reader, size_t most) : reader_(reader), most_(most) {}

  void Add(const tracer::SpoolRecord& spooled) {
    const tracer::RangeRecord range = tracer::RangeOf(spooled.record);
    if (range.kind == tracer::RangeKind::kMark || range.name == 0) return;
    const auto [known, is_new] = bases_.try_emplace(range.name);
    if (is_new) {
      const std::string* const text = reader_.NameOf(tracer::NameTable::kRanges, range.name);
      const auto name = text != nullptr ? StepNameOf(*text) : std::nullopt;
      if (name) known->second = name->base;
    }
    if (known->second.empty() || count_ > most_) return;
    if (++count_ > most_) {
      ranges_.clear();
      return;
    }
    ranges_[{known->second, spooled.thread}].push_back({range.start_ns, range.end_ns});
  }

  // Those of PyTorch's profiler, if there are any, else those that have the most steps. One is no loop.
  std::optional<SpoolSurvey::StepRanges> Most() const {
    std::optional<SpoolSurvey::StepRanges> most;
    std::pair<bool, int64_t> highest;
    for (const auto& [key, ranges] : ranges_) {
      std::vector<bool> steps = StepsAmong(ranges);
      const std::pair<bool, int64_t> rank(key.first == "profilerstep", std::count(steps.begin(), steps.end(), true));
      if (rank.second < 2 || (most && rank <= highest)) continue;
      highest = rank;
      most = {.thread = key.second, .base = key.first, .are_steps = std::move(steps)};
    }
    return most;
  }

 private:
  const tracer::SpoolReader& reader_;
  const size_t most_;
  size_t count_ = 0;
  std::unordered_map<uint32_t, std::string> bases_;  // by name; empty: no step's
  std::map<std::pair<std::string, uint32_t>, std::vector<RangeTimes>> ranges_;
};

// Reads the file once more: what it takes is only kept where it is needed.
std::optional<LaunchSequence::Found> FindLaunches(const std::string& path, const std::function<bool(uint64_t)>& look,
                                                  uint64_t bytes) {
  std::string ignored;
  const auto reader = tracer::SpoolReader::Open(path, &ignored);
  if (reader == nullptr) return std::nullopt;
  LaunchSequence sequence;
  LinesOfSites lines(*reader);
  struct Function {
    bool asks = false;
    bool is_graph = false;
  };
  std::unordered_map<uint16_t, Function> functions;
  uint64_t records = 0;
  tracer::SpoolRecord spooled;
  while (reader->Next(&spooled)) {
    const tracer::TraceRecord& record = spooled.record;
    if (record.kind == tracer::RecordKind::kActivity && spooled.activity.kind == tracer::ActivityKind::kKernel) {
      sequence.Ran(spooled.activity.correlation, tracer::KernelOf(spooled.activity).name);
    }
    if (record.kind == tracer::RecordKind::kCall) {
      const auto [function, is_new] = functions.try_emplace(record.hook);
      if (is_new) {
        const std::string* const name = reader->NameOf(tracer::NameTable::kHooks, record.hook);
        if (name != nullptr) function->second = {AsksForWork(*name), name->find("GraphLaunch") != std::string::npos};
      }
      const uint32_t line = lines.LineOf(record);
      if (function->second.asks) {
        sequence.Add(spooled.thread, {.site = line,
                                      .function = record.hook,
                                      .is_graph = function->second.is_graph,
                                      .correlation = record.correlation,
                                      .start_ns = record.start_ns,
                                      .end_ns = record.end_ns});
      }
    }
    if (++records % kRecordsBetweenLooks == 0 && !look(bytes)) return std::nullopt;
  }
  return sequence.Find();
}

// By its launches, where no line brings a batch to the device. Where both find about as many steps, the line tells
// more.
void FindSteps(const StepFinder& finder, const std::function<bool(uint64_t)>& look, SpoolSurvey* survey) {
  survey->step_line = finder.Find();
  if (survey->step_line && survey->step_line->copies) return;
  survey->step_launches = FindLaunches(survey->path, look, survey->bytes);
  if (survey->step_launches && survey->step_line) {
    if (LineTellsMore(survey->step_launches->steps.size(), survey->step_line->visits)) {
      survey->step_launches.reset();
    } else {
      survey->step_line.reset();
    }
  }
  if (survey->step_line || survey->step_launches) return;
  const size_t most = finder.most_visits();
  if (most == 0) {
    survey->why_no_steps = "no call was made at a line of the program that is known";
  } else if (most <= StepFinder::kLeastSteps) {
    survey->why_no_steps = "no line of the program made calls more than " + std::to_string(most) +
                           (most == 1 ? " time" : " times") + ", and fewer than five steps are not found";
  } else {
    survey->why_no_steps = "no line of the program was seen to begin each of them, and no sequence of launches repeats";
  }
}

}  // namespace

void ClockReadings::Add(const tracer::TraceRecord& clock) {
  if (clock.end_ns < clock.start_ns) return;
  const uint64_t took = clock.end_ns - clock.start_ns;
  const auto seen = static_cast<int64_t>(clock.bytes - (clock.start_ns + took / 2));
  Add({.count = 1, .difference = seen, .error = (took + 1) / 2, .lowest = seen, .highest = seen});
}

void ClockReadings::Add(const ClockReadings& others) {
  if (others.count == 0) return;
  if (count == 0 || others.error < error) {
    difference = others.difference;
    error = others.error;
  }
  lowest = count == 0 ? others.lowest : std::min(lowest, others.lowest);
  highest = count == 0 ? others.highest : std::max(highest, others.highest);
  count += others.count;
}

std::optional<int64_t> SpoolSurvey::Number(const char* key) const { return policy::NumberIn<int64_t>(Text(key)); }

std::string SpoolSurvey::Text(const char* key) const {
  const auto found = facts.find(key);
  return found != facts.end() ? found->second : std::string();
}

SpoolSurvey SurveySpool(const std::string& path, const std::function<bool(uint64_t)>& look, size_t most_named_ranges) {
  SpoolSurvey survey;
  survey.path = path;
  survey.file = std::filesystem::path(path).filename().string();
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(path, ignored);
  survey.bytes = ignored ? 0 : bytes;
  const auto reader = tracer::SpoolReader::Open(path, &survey.error);
  if (reader == nullptr) return survey;
  survey.start_unix_ns = reader->start_unix_ns();
  StepFinder finder;
  LinesOfSites lines(*reader);
  std::unordered_map<uint16_t, bool> copies;  // by the spool's number of the function
  NamedRanges ranges(*reader, most_named_ranges);
  bool has_steps = false;
  tracer::SpoolRecord record;
  while (reader->Next(&record)) {
    ++survey.records;
    if (record.thread == 0 && record.missing != 0) survey.device_periods.Interrupt();
    if (record.record.kind == tracer::RecordKind::kClock) survey.clocks.Add(record.record);
    if (record.record.kind == tracer::RecordKind::kDeviceClock) {
      survey.device_clock.Add(record.record);
      survey.device_periods.Add(record.record);
    }
    if (record.record.kind == tracer::RecordKind::kActivity) survey.context_devices.Add(record.activity);
    if (record.record.kind == tracer::RecordKind::kStep) has_steps = true;
    if (record.record.kind == tracer::RecordKind::kRange) ranges.Add(record);
    if (record.record.kind == tracer::RecordKind::kCall) {
      const auto [copy, is_new] = copies.try_emplace(record.record.hook);
      if (is_new) {
        const std::string* const name = reader->NameOf(tracer::NameTable::kHooks, record.record.hook);
        copy->second = name != nullptr && IsCopy(*name);
      }
      finder.AddCall(record.thread, lines.LineOf(record.record), copy->second, record.record.start_ns);
    }
    // As ProcessRows::Add has it.
    const bool is_look = record.record.kind == tracer::RecordKind::kTasks;
    const uint64_t since_ns = is_look ? record.record.end_ns : record.record.start_ns;
    survey.first_ns = std::min(survey.first_ns.value_or(since_ns), since_ns);
    if (survey.records % kRecordsBetweenLooks == 0 && !look(reader->end().read_bytes)) break;
  }
  survey.facts = reader->facts();
  if (!has_steps) survey.step_ranges = ranges.Most();
  if (!has_steps && !survey.step_ranges) FindSteps(finder, look, &survey);
  return survey;
}

}  // namespace slipstream::trace_db
