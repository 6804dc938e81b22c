// What the tests of traces share: a program under the library with a trace, and the trace read whole.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/preload/counts.h"
#include "tests/support/process.h"
#include "tracer/spool/activity_record.h"
#include "tracer/spool/device_work.h"
#include "tracer/spool/spool_reader.h"
#include "tracer/spool/trace_record.h"

namespace slipstream::test {

struct Trace {
  std::unique_ptr<tracer::SpoolReader> reader;
  std::vector<tracer::SpoolRecord> records;
  std::string error;

  const tracer::SpoolReader::End& end() const { return reader->end(); }
  std::vector<tracer::TraceRecord> Of(tracer::RecordKind kind) const {
    std::vector<tracer::TraceRecord> some;
    for (const tracer::SpoolRecord& record : records) {
      if (record.record.kind == kind) some.push_back(record.record);
    }
    return some;
  }
  // Empty: the file has no name for it.
  std::string NameOf(tracer::NameTable table, uint32_t number) const {
    const std::string* const name = reader->NameOf(table, number);
    return name != nullptr ? *name : "";
  }
  std::string HookOf(const tracer::TraceRecord& record) const { return NameOf(tracer::NameTable::kHooks, record.hook); }
  std::string DecisionOf(const tracer::TraceRecord& record) const {
    return NameOf(tracer::NameTable::kDecisions, record.decision);
  }
  std::string KernelOf(const tracer::ActivityRecord& record) const {
    return NameOf(tracer::NameTable::kKernels, tracer::KernelOf(record).name);
  }
  // What the devices did.
  std::vector<tracer::ActivityRecord> Activities(tracer::ActivityKind kind) const {
    std::vector<tracer::ActivityRecord> some;
    for (const tracer::SpoolRecord& record : records) {
      const bool is_one = record.record.kind == tracer::RecordKind::kActivity;
      if (is_one && record.activity.kind == kind) some.push_back(record.activity);
    }
    return some;
  }
  // Calls by function.
  CallCounts Calls() const {
    CallCounts counts;
    for (const tracer::TraceRecord& record : Of(tracer::RecordKind::kCall)) ++counts[HookOf(record)];
    return counts;
  }
  // Kernels by name.
  CallCounts Kernels() const {
    CallCounts counts;
    for (const tracer::ActivityRecord& record : Activities(tracer::ActivityKind::kKernel)) ++counts[KernelOf(record)];
    return counts;
  }
};

inline Trace ReadTrace(const std::string& path) {
  Trace trace;
  trace.reader = tracer::SpoolReader::Open(path, &trace.error);
  EXPECT_NE(trace.reader, nullptr) << trace.error;
  tracer::SpoolRecord record;
  while (trace.reader != nullptr && trace.reader->Next(&record)) trace.records.push_back(record);
  if (trace.reader != nullptr) {
    EXPECT_EQ(trace.end().malformed_chunks, 0U) << path;
    EXPECT_EQ(trace.end().missing_records, 0U) << path;
    EXPECT_EQ(trace.end().skipped_chunks + trace.end().skipped_records, 0U) << path;
  }
  return trace;
}

inline std::vector<std::string> Spools(const std::string& directory) {
  std::string error;
  std::vector<std::string> paths = tracer::ListSpools(directory, &error);
  EXPECT_EQ(error, "");
  return paths;
}

// The only one in the directory.
inline Trace ReadOnlyTrace(const std::string& directory) {
  const std::vector<std::string> paths = Spools(directory);
  EXPECT_EQ(paths.size(), 1U) << directory;
  return paths.empty() ? Trace{} : ReadTrace(paths[0]);
}

// As a bare preload that records into `directory`; the engines are on, as they are by default.
inline Variables TracingPreload(const std::string& library, const std::string& directory) {
  Variables variables = Preload(library);
  variables["SLIPSTREAM_RUN_DIRECTORY"] = directory;
  variables["SLIPSTREAM_TRACER_RECORD"] = "on";
  variables["SLIPSTREAM_TRANSFER_START"] = "now";  // what an engine decides depends on no thread's speed
  variables["SIMCUDA_SEED"] = "0";
  return variables;
}

inline Finished RunTraced(const std::vector<std::string>& command, const std::string& directory,
                          const Variables& more = {}) {
  Variables variables = TracingPreload(SLIPSTREAM_LIBRARY, directory);
  for (const auto& [name, value] : more) variables[name] = value;
  return RunProgram(command, variables);
}

// `slipstream run OPTIONS -- COMMAND`, with a working directory of its own.
inline Finished RunIn(const std::string& place, const std::vector<std::string>& options,
                      const std::vector<std::string>& command, Variables variables = {}) {
  std::vector<std::string> words = {"env", "-C", place, SLIPSTREAM_COMMAND, "run"};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  const Variables sanitized = Preload("");
  if (sanitized.count("ASAN_OPTIONS") != 0) variables.try_emplace("ASAN_OPTIONS", sanitized.at("ASAN_OPTIONS"));
  return RunProgram(words, variables);
}

}  // namespace slipstream::test
