#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tools/cli/export.h"
#include "tools/text/json_text.h"

namespace slipstream::cli {
namespace {

using text::Json;
using text::OrNull;

Json EndReasonJson(const tracer::SpoolReader::End& end) {
  return end.complete ? Json(trace_db::NameOf(end.reason)) : Json(nullptr);
}

Json LaterCallsJson(const tracer::SpoolReader::End& end) {
  return end.later_calls_known ? Json(end.later_calls) : Json(nullptr);
}

Json ProcessJson(const trace_db::ExportedProcess& process) {
  const tracer::SpoolReader::End& end = process.end;
  return {{"spool", process.file},
          {"pid", OrNull(process.pid)},
          {"parent_pid", OrNull(process.parent_pid)},
          {"rank", OrNull(process.rank)},
          {"local_rank", OrNull(process.local_rank)},
          {"world_size", OrNull(process.world_size)},
          {"host", process.host},
          {"executable", process.executable},
          {"calls", process.calls},
          {"records", end.records},
          {"dropped", end.dropped},
          {"first_ns", OrNull(process.first_ns)},
          {"last_ns", OrNull(process.last_ns)},
          {"steps", process.steps},
          {"median_step_ns", OrNull(process.median_step_ns)},
          {"step_line", OrNull(process.step_line)},
          {"step_name", OrNull(process.step_name)},
          {"complete", end.complete},
          {"end_reason", EndReasonJson(end)},
          {"error", end.error},
          {"later_calls", LaterCallsJson(end)},
          {"given_up_records", end.given_up_records},
          {"kept_from_ns", OrNull(process.kept_from_ns)},
          {"damaged", process.damaged()},
          {"left_bytes", end.left_bytes},
          {"left_why", end.left_why},
          {"damaged_bytes", end.damaged_bytes},
          {"missing_chunks", end.missing_chunks},
          {"missing_records", end.missing_records}};
}

Json UnreadableJson(const trace_db::BuildResult& built) {
  Json unreadable = Json::array();
  for (const auto& spool : built.unreadable) unreadable.push_back({{"spool", spool.file}, {"why", spool.why}});
  return unreadable;
}

// What is said of a database.
Json DatabaseJson(const trace_db::BuildResult& result) {
  Json processes = Json::array();
  uint64_t calls = 0;
  uint64_t dropped = 0;
  for (const trace_db::ExportedProcess& process : result.processes) {
    processes.push_back(ProcessJson(process));
    calls += process.calls;
    dropped += process.end.dropped;
  }
  Json hosts = Json::array();
  for (const trace_db::Host& host : result.hosts) hosts.push_back(host.name);
  return {{"bytes", result.database_bytes},
          {"partial", result.partial()},
          {"calls", calls},
          {"dropped", dropped},
          {"start_unix_ns", result.start_unix_ns},
          {"hosts", std::move(hosts)},
          {"processes", std::move(processes)},
          {"unreadable", UnreadableJson(result)}};
}

// What is said of another file.
Json TraceJson(const trace_export::ExportOutcome& outcome, bool partial, const trace_db::BuildResult& built) {
  Json processes = Json::array();
  for (const trace_export::ExportedTrace& process : outcome.processes) {
    processes.push_back({{"pid", process.pid},
                         {"shown_pid", process.shown_pid},
                         {"rank", OrNull(process.rank)},
                         {"host", process.host},
                         {"executable", process.name}});
  }
  const trace_export::RowCounts& rows = outcome.rows;
  return {{"bytes", outcome.bytes},
          {"partial", partial},
          {"calls", rows.calls},
          {"kernels", rows.kernels},
          {"copies", rows.copies},
          {"memsets", rows.sets},
          {"synchronizations", rows.waits},
          {"steps", rows.steps},
          {"ranges", rows.ranges},
          {"memory", rows.memory},
          {"allocations", rows.blocks},
          {"frees", rows.frees},
          {"marks", rows.marks},
          {"drops", rows.drops},
          {"left_out", rows.strays},
          {"processes", std::move(processes)},
          {"unreadable", UnreadableJson(built)}};
}

void Append(Json* object, const Json& more) {
  for (const auto& [key, value] : more.items()) (*object)[key] = value;
}

// `facts`: null where the file could not be made.
Json FileJson(const std::string& format, const std::string& path, const Json& facts) {
  Json file = {{"format", format}, {"path", path}, {"made", !facts.is_null()}};
  if (!facts.is_null()) Append(&file, facts);
  return file;
}

}  // namespace

std::string ExportsJson(const Exports& exports) {
  Json files = Json::array();
  if (exports.database) {
    files.push_back(
        FileJson("sqlite", *exports.database, exports.database_made ? DatabaseJson(exports.built) : Json(nullptr)));
  }
  for (const Exports::Trace& trace : exports.traces) {
    files.push_back(
        FileJson(NameOf(trace.request.format), trace.request.file,
                 trace.made() ? TraceJson(trace.outcome, exports.partial(trace), exports.built) : Json(nullptr)));
  }
  Json root = {{"schema", kExportSchema}};
  if (files.size() == 1) {
    // As it was before there could be several.
    const Json& only = files.front();
    root["format"] = only["format"];
    root["file"] = only["path"];
    for (const auto& [key, value] : only.items()) {
      if (key != "format" && key != "path" && key != "made") root[key] = value;
    }
  } else {
    root["partial"] = exports.partial();
  }
  root["files"] = std::move(files);
  return text::JsonText(root);
}

}  // namespace slipstream::cli
