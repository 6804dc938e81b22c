// Two recorded runs, compared: what of a step got longer or shorter. Start reading here.
//
//   step_difference.h   how much longer a step is, and how sure that is
//   lines.h             lines of the program, found again where they have moved
//   work.h              kernels and copies
//   notes.h             what makes the comparison unsound
//   text.h              what is made of a RunsComparison, as text and as JSON
//
// Everything is taken from the reports of the runs (tools/trace/report/report.h), so that it agrees with `slipstream
// report` of each.
//
// Threading: pure functions, but for ReadFacts, which belongs to its reader's thread.
// Times are ns of a step: sums over the measured steps, divided by their number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/compare/runs/step_difference.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"

namespace slipstream::compare {

struct RecordedRun {
  std::string name;  // as it was named
  report::Report report;
  size_t process = 0;                        // of the report: the one that is compared
  std::map<std::string, std::string> facts;  // about it, of the table SLIPSTREAM_FACTS
  bool partial = false;                      // files of it could not be read to their ends

  const report::ProcessReport& of() const { return report.processes[process]; }
  bool HasSteps() const { return of().has_steps && of().measured_steps != 0; }
  // The one that computes most; null: what devices did in the steps is not known.
  const report::DeviceReport* Device() const;
};

// `process`: of the database.
std::map<std::string, std::string> ReadFacts(trace_db::DatabaseReader* reader, int64_t process);

// A part of the step, in both runs.
struct PartChange {
  std::string name;   // as the JSON spells it
  std::string label;  // for people
  double first = 0;
  double second = 0;
  double difference() const { return second - first; }
};

struct Note {
  std::string text;
  bool unsound = false;  // what is compared may not be the same work, or not measured alike
};

// What a line of the program has of a step.
enum class LineMeasure : uint8_t {
  kIdle,     // the device was idle while the host was in its calls, or before one of them
  kInCalls,  // on the host, in its calls
  kBefore,   // on the host, outside all calls, before one of its own
  kKernels,  // durations of the kernels that it launched, summed up
};
inline constexpr size_t kLineMeasures = 4;

// A line, in both runs.
struct LineChange {
  report::LineReport line;          // as the second run has it; else as the first one does
  std::string was_file;             // in the first run; empty: the same
  std::optional<int64_t> was_line;  // likewise
  bool in_first = false;
  bool in_second = false;
  std::array<std::array<double, 2>, kLineMeasures> times{};  // by measure and run

  double Of(LineMeasure measure, size_t run) const { return times[static_cast<size_t>(measure)][run]; }
  double Difference(LineMeasure measure) const { return Of(measure, 1) - Of(measure, 0); }
};

// Kernels of one name, or copies of one kind, in both runs.
struct WorkChange {
  std::string name;
  std::array<double, 2> counts{};  // of a step; 0: only the other run has some
  std::array<double, 2> bytes{};   // of copies
  std::array<double, 2> times{};   // their durations, summed up

  double difference() const { return times[1] - times[0]; }
};

struct RunsComparison {
  const RecordedRun* first = nullptr;
  const RecordedRun* second = nullptr;
  std::vector<Note> notes;                 // the unsound ones first
  std::optional<StepDifference> step;      // nothing: a run has no measured steps, and what follows is empty
  std::optional<double> fail_if_slower{};  // a share; nothing: that was not asked
  // One of them ran ahead of its devices: of both, a step is what its work takes (ProcessReport::work_time).
  bool by_work = false;
  bool by_device = false;         // the parts are what a device was at; else what the host's step thread was
  std::vector<PartChange> parts;  // those that there are in one of the runs; they add up to the step
  std::vector<LineChange> lines;  // by the largest of their changes
  bool lines_of_kernels = false;  // both runs know which line launched what
  // Of the device, by their changes; empty where parts are the host's.
  std::vector<WorkChange> kernels;
  std::vector<WorkChange> copies;
};

// Both runs, which have that process, must outlive the comparison. `floor`: what two runs of one program may differ by
// (step_difference.h).
RunsComparison CompareRecorded(const RecordedRun& first, const RecordedRun& second, double floor = kFloor);

}  // namespace slipstream::compare
