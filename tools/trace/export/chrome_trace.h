// A trace as Chrome's JSON, in the dialect that Kineto (the PyTorch profiler) writes, for the tools that read its
// traces: the Perfetto UI, chrome://tracing, Holistic Trace Analysis. docs/exports.md says what is in it.
//
// Sources: "Trace Event Format" (Chrome); the names and arguments are those that Kineto's output has. An event is one
// line. The beginning, up to the list of events, is small: readers look for "rank" there, line by line.
//
// Threading: one thread.
// Errors: the file's.
#pragma once

#include <string>

#include "tools/trace/export/export_file.h"
#include "tools/trace/export/json_line.h"
#include "tools/trace/export/trace_rows.h"

namespace slipstream::trace_export {

class ChromeTrace : public RowSink {
 public:
  // Both must outlive it.
  ChromeTrace(ExportFile* file, TraceTexts* texts) : file_(*file), texts_(*texts) {}

  void Begin(const TraceFacts& facts) override;
  void Add(const StepRow& row) override;
  void Add(const RangeRow& row) override;
  void Add(const CallRow& row) override;
  void Add(const WorkRow& row) override;
  void Add(const MemoryRow& row) override;
  void Add(const MarkRow& row) override;
  void Add(const DropRow& row) override;
  void End() override;

 private:
  // Up to where the arguments begin.
  JsonLine& Event(char phase, std::string_view category, std::string_view name, int64_t pid, int64_t tid,
                  int64_t start);
  JsonLine& Span(std::string_view category, std::string_view name, int64_t pid, int64_t tid, int64_t start,
                 int64_t end);
  void Write();
  void Describe(const char* what, int64_t pid, int64_t tid, const char* key, std::string_view value);
  void Sort(int64_t pid, int64_t tid, const char* what, int64_t index);
  void DescribeDevices();
  int64_t PidOf(const TraceProcess& process, int64_t device) const;
  void Site(const CallSite& site);

  ExportFile& file_;
  TraceTexts& texts_;
  const TraceFacts* facts_ = nullptr;
  JsonLine line_;
  bool first_ = true;
};

}  // namespace slipstream::trace_export
