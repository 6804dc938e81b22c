// Two recorded runs, compared: what of a step got longer or shorter. Start reading here.
//
//   step_difference.h   how much longer a step is, and how sure that is
//   notes.h             what makes the comparison unsound
//   text.h              what is made of a RunsComparison, as text and as JSON
//
// Everything is taken from the reports of the runs (tools/trace/report/report.h), so that it agrees with `slipstream
// report` of each.
//
// Threading: pure functions, but for ReadFacts, which belongs to its reader's thread.
// Times are ns of a step: sums over the measured steps, divided by their number.
#pragma once

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

struct RunsComparison {
  const RecordedRun* first = nullptr;
  const RecordedRun* second = nullptr;
  std::vector<Note> notes;             // the unsound ones first
  std::optional<StepDifference> step;  // nothing: a run has no measured steps, and what follows is empty
  bool by_device = false;              // the parts are what a device was at; else what the host's step thread was
  std::vector<PartChange> parts;       // those that there are in one of the runs; they add up to the step
};

// Both runs, which have that process, must outlive the comparison.
RunsComparison CompareRecorded(const RecordedRun& first, const RecordedRun& second);

}  // namespace slipstream::compare
