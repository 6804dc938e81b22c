#include "tools/trace/report/json.h"

#include <utility>

#include "tools/text/json_text.h"
#include "tools/trace/report/lines_json.h"

namespace slipstream::report {
namespace {

using text::Json;
using text::OrNull;

// A share of nothing is not known.
Json Share(int64_t part, int64_t whole) {
  return whole > 0 ? Json(static_cast<double>(part) / static_cast<double>(whole)) : Json(nullptr);
}

Json DistributionJson(const Distribution& of) {
  return {{"total_ns", of.total},   {"mean_ns", of.mean()}, {"min_ns", of.min}, {"p10_ns", of.p10},
          {"median_ns", of.median}, {"p90_ns", of.p90},     {"max_ns", of.max}};
}

const char* NameOf(StepUse use) {
  switch (use) {
    case StepUse::kMeasured:
      return "measured";
    case StepUse::kWarmUp:
      return "warm_up";
    case StepUse::kDropped:
      return "dropped_records";
    case StepUse::kUnwatched:
      return "devices_not_recorded";
    case StepUse::kUnfinished:
      return "end_not_known";
    case StepUse::kAhead:
      return "host_ran_ahead";
  }
  return "";
}

const char* NameOf(Slowest::By by) {
  switch (by) {
    case Slowest::By::kCommunication:
      return "communication";
    case Slowest::By::kStepTime:
      return "step_time";
    case Slowest::By::kOutsideWaits:
      return "time_outside_waits";
  }
  return "";
}

Json PartsJson(const Parts& parts) {
  Json json = Json::object();
  for (size_t i = 0; i < kParts; ++i) json[std::string(NameOf(static_cast<Part>(i)))] = parts[i];
  return json;
}

Json PlaceJson(const std::optional<Place>& place) {
  if (!place) return nullptr;
  return {{"file", place->file},
          {"line", OrNull(place->line)},
          {"function", OrNull(place->function)},
          {"before_its_calls", place->before},
          {"time_ns", place->time}};
}

Json WallJson(const WallReport& wall) {
  const int64_t whole = wall.end - wall.begin;
  Json parts = Json::array();
  for (const WallPartReport& part : wall.parts) {
    parts.push_back({{"part", NameOf(part.part)},
                     {"time_ns", part.time},
                     {"share", Share(part.time, whole)},
                     {"count", part.count},
                     {"most_at", PlaceJson(part.most)}});
  }
  return {{"begin_ns", wall.begin},
          {"end_ns", wall.end},
          {"time_ns", whole},
          {"from_process_start", wall.from_process_start},
          {"parts", std::move(parts)}};
}

Json SlowStepsJson(const ProcessReport& process) {
  Json list = Json::array();
  for (const SlowStep& step : process.slow_steps) {
    list.push_back({{"number", step.number},
                    {"start_ns", step.start},
                    {"time_ns", step.time},
                    {"part", step.part ? Json(NameOf(*step.part)) : Json(nullptr)},
                    {"longer_ns", step.grew},
                    {"most_at", PlaceJson(step.place)}});
  }
  return list;
}

Json StepsJson(const ProcessReport& process) {
  Json list = Json::array();
  for (const Step& step : process.steps) {
    list.push_back({{"number", step.number},
                    {"start_ns", step.start},
                    {"time_ns", step.time()},
                    {"backlog_ns", step.backlog},
                    {"work_time_ns", step.work_time},
                    {"use", NameOf(step.use)},
                    {"calls", step.calls},
                    {"calls_of_other_threads", step.calls_elsewhere},
                    {"parts_ns", PartsJson(step.parts)}});
  }
  Json parts = Json::object();
  for (size_t i = 0; i < kParts; ++i) {
    parts[std::string(NameOf(static_cast<Part>(i)))] = DistributionJson(process.parts[i]);
  }
  return {{"found", process.has_steps},
          {"why_none", OrNull(process.why_no_steps)},
          {"line", process.has_steps ? OrNull(process.step_site) : Json(nullptr)},
          {"launches", OrNull(process.step_launches)},
          {"thread", process.step_thread},
          {"thread_name", OrNull(process.step_thread_name)},
          {"measured", process.measured_steps},
          {"warm_up", process.warm_up_steps},
          {"with_dropped_records", process.dropped_steps},
          {"with_devices_not_recorded", process.unwatched_steps},
          {"with_unknown_end", process.unfinished_steps},
          {"with_recording_paused", process.paused_steps},
          {"with_host_running_ahead", process.ahead_steps},
          {"all_have_host_running_ahead", process.ran_ahead},
          {"waited_after_ns", OrNull(process.waited_after)},
          {"all_have_devices_not_recorded", process.unwatched_everywhere},
          {"all_have_dropped_records", process.drops_everywhere},
          {"measured_ns", process.measured_time},
          {"time", DistributionJson(process.step_time)},
          {"work_time", DistributionJson(process.work_time)},
          {"time_before_devices_were_recorded", process.step_time_before_devices.count != 0
                                                    ? DistributionJson(process.step_time_before_devices)
                                                    : Json(nullptr)},
          {"time_outside_waits", DistributionJson(process.time_outside_waits)},
          {"between", process.pause_time.count != 0 ? DistributionJson(process.pause_time) : Json(nullptr)},
          {"start_to_start", process.pace.count != 0 ? DistributionJson(process.pace) : Json(nullptr)},
          {"parts", std::move(parts)},
          {"slow", process.slow_step_count},
          {"slow_steps", SlowStepsJson(process)},
          {"steps", process.has_steps ? std::move(list) : Json::array()}};
}

Json SitesJson(const ProcessReport& process) {
  Json list = Json::array();
  for (const SiteReport& site : process.sites) {
    Json functions = Json::array();
    for (const SiteReport::Function& function : site.functions) {
      functions.push_back({{"name", function.name}, {"calls", function.calls}});
    }
    list.push_back({{"file", site.known ? Json(site.file) : Json(nullptr)},
                    {"line", OrNull(site.line)},
                    {"function", OrNull(site.function)},
                    {"of_step_thread", site.of_step_thread},
                    {"time_ns", site.time},
                    {"time_per_step_ns", static_cast<double>(site.time) / process.divisor()},
                    {"outside_before_ns", site.gap},
                    {"calls", site.calls},
                    {"calls_per_step", static_cast<double>(site.calls) / process.divisor()},
                    {"waiting_calls", site.waiting},
                    {"bytes", site.bytes},
                    {"functions", std::move(functions)}});
  }
  return list;
}

// By what the host was doing.
Json ByHostJson(const std::array<int64_t, kHostStates>& times) {
  Json json = Json::object();
  for (size_t i = 0; i < kHostStates; ++i) json[HostName(i)] = times[i];
  return json;
}

Json DeviceJson(const Report& report, const ProcessReport& process, const DeviceReport& device) {
  Json json = {{"device", device.device}, {"name", OrNull(device.name)}, {"sms", OrNull(device.sms)}};
  // What was not recorded is null, never 0.
  const DeviceTimes& times = device.times;
  if (report.kernels_recorded) {
    json["kernels_ns"] = times.kernels;
    json["utilization"] = Share(times.kernels, process.measured_time);
    json["copies_alone_ns"] = report.device_copies_recorded ? Json(times.copies_alone) : Json(nullptr);
    json["copies_beside_kernels_ns"] =
        report.device_copies_recorded ? Json(times.copies - times.copies_alone) : Json(nullptr);
    json["communication_ns"] = times.communication;
    json["communication_alone_ns"] = times.communication_alone;
    json["communication_overlapped_ns"] = times.communication_overlapped();
    json["computing_only_ns"] = times.computing_only();
    json["idle_ns_while_host_in"] = ByHostJson(times.idle);
    json["launch_bound"] = Share(times.idle[static_cast<size_t>(CallKind::kLaunch)], process.measured_time);
    json["host_bound"] = Share(times.idle[kHostOutside], process.measured_time);
  } else {
    for (const char* const key : {"kernels_ns", "utilization", "copies_alone_ns", "copies_beside_kernels_ns",
                                  "communication_ns", "communication_alone_ns", "communication_overlapped_ns",
                                  "computing_only_ns", "idle_ns_while_host_in", "launch_bound", "host_bound"}) {
      json[key] = nullptr;
    }
  }
  json["copies_ns"] = report.device_copies_recorded ? Json(times.copies) : Json(nullptr);
  json["estimated_sm_efficiency"] = OrNull(device.sm_efficiency);
  json["estimated_achieved_occupancy"] = OrNull(device.achieved_occupancy);
  json["tensor_core_share_by_name"] = Share(device.tensor_core_time, device.kernel_time);
  json["kernels"] = device.kernels;
  json["kernel_time_ns"] = device.kernel_time;
  json["kernel_names"] = device.kernel_names;
  Json top = Json::array();
  for (const KernelReport& kernel : device.top) {
    top.push_back({{"name", kernel.name},
                   {"count", kernel.launches},
                   {"time_ns", kernel.time},
                   {"tensor_cores_by_name", kernel.tensor_cores}});
  }
  json["top_kernels"] = std::move(top);
  json["kernel_lines"] = KernelLinesJson(report, device);
  json["idle_by_line"] = IdleLinesJson(report, device);
  Json copies = Json::array();
  for (const DeviceCopyReport& one : device.copies) {
    copies.push_back({{"kind", one.name},
                      {"count", one.count},
                      {"bytes", one.bytes},
                      {"time_ns", one.time},
                      {"slipstream_count", one.own_count},
                      {"slipstream_bytes", one.own_bytes},
                      {"slipstream_time_ns", one.own_time}});
  }
  json["copies"] = std::move(copies);
  return json;
}

Json DecisionsJson(const ProcessReport& process) {
  Json list = Json::array();
  for (const DecisionReport& decision : process.decisions) {
    list.push_back({{"decision", decision.name},
                    {"meaning", OrNull(decision.meaning)},
                    {"calls", decision.calls},
                    {"measured_calls", decision.measured_calls},
                    {"calls_per_step", static_cast<double>(decision.measured_calls) / process.divisor()},
                    {"bytes", decision.bytes},
                    {"measured_bytes", decision.measured_bytes},
                    {"saved_ns", decision.saved},
                    {"lost_ns", decision.lost}});
  }
  return list;
}

Json AheadTimesJson(const AheadTimes& times, const ProcessReport& process) {
  const int64_t went_on = times.all_went_on();
  return {{"went_on_ns", went_on},
          {"went_on_per_step_ns", static_cast<double>(went_on) / process.divisor()},
          {"went_on_ns_while_host_in", ByHostJson(times.went_on)},
          {"waited_later_ns", times.waited_later},
          {"added_wait_ns", times.added},
          {"net_ns", times.net()}};
}

Json AheadJson(const ProcessReport& process) {
  if (!process.ahead) return nullptr;
  const AheadReport& ahead = *process.ahead;
  return {{"skipped_waits", ahead.skipped},
          {"behind_running_work", ahead.behind_work},
          {"stream_not_known", ahead.stream_unknown},
          {"step_thread", AheadTimesJson(ahead.step_thread, process)},
          {"other_threads", AheadTimesJson(ahead.other_threads, process)}};
}

Json GainsJson(const ProcessReport& process) {
  Json rows = Json::array();
  for (size_t i = 0; i < kGainKinds; ++i) {
    const GainRow& row = process.gains.rows[i];
    rows.push_back({{"what", NameOf(static_cast<GainKind>(i))},
                    {"calls", row.calls},
                    {"measured_calls", row.measured_calls},
                    {"measured_ns", OrNull(row.measured)},
                    {"estimated_ns", OrNull(row.estimated)},
                    {"estimated_calls", row.estimated_calls},
                    {"not_known", OrNull(row.not_known)}});
  }
  const bool bound = process.ahead && process.ahead->at_most;
  return {{"rows", std::move(rows)},
          {"measured_ns", OrNull(process.gains.measured)},
          {"estimated_ns", OrNull(process.gains.estimated)},
          {"steps_shorter_by_at_most_ns", bound ? Json(*process.ahead->at_most) : Json(nullptr)},
          {"skipped_waits", bound ? Json(process.ahead->skipped) : Json(nullptr)},
          {"why_no_bound", process.ahead && !bound ? Json(process.ahead->why_no_bound) : Json(nullptr)}};
}

Json PoolCallsJson(const PoolCalls& calls) {
  return {{"served", calls.served},
          {"served_ns", calls.served_time},
          {"served_median_ns", calls.served == 0 ? Json(nullptr) : Json(calls.served_median)},
          {"driver", calls.real},
          {"driver_ns", calls.real_time},
          {"driver_median_ns", calls.real == 0 ? Json(nullptr) : Json(calls.real_median)}};
}

Json FragmentationJson(const ProcessReport& process, const MemoryReport& pool) {
  if (!pool.fragmentation) return nullptr;
  const Fragmentation& found = *pool.fragmentation;
  Json shortages = Json::array();
  for (const Shortage& one : found.shortages) {
    shortages.push_back({{"at_ns", one.time},
                         {"in_step", OrNull(StepNumberAt(process, one.time))},
                         {"decision", one.decision},
                         {"bytes", one.bytes},
                         {"idle_bytes", OrNull(one.idle)},
                         {"largest_idle_bytes", OrNull(one.largest_idle)}});
  }
  return {{"from_driver", found.grown},       {"from_driver_bytes", found.grown_bytes},
          {"not_fitting", found.not_fitting}, {"not_fitting_bytes", found.not_fitting_bytes},
          {"tried_again", found.tried_again}, {"refused", found.refused},
          {"shortages", std::move(shortages)}};
}

Json MemoryJson(const ProcessReport& process) {
  Json list = Json::array();
  for (const MemoryReport& pool : process.memory) {
    Json points = Json::array();
    for (const MemoryPoint& point : pool.points) points.push_back({point.time, point.live, point.idle});
    list.push_back({{"device", pool.device},
                    {"peak_live_bytes", pool.peak_live},
                    {"peak_idle_bytes", pool.peak_idle},
                    {"peak_bytes", pool.peak},
                    {"peak_at_ns", pool.peak_point.time},
                    {"peak_in_step", OrNull(StepNumberAt(process, pool.peak_point.time))},
                    {"peak_largest_idle_bytes", OrNull(pool.peak_largest_idle)},
                    {"fragmentation", FragmentationJson(process, pool)},
                    {"last_live_bytes", pool.last_live},
                    {"last_idle_bytes", pool.last_idle},
                    {"trims", pool.trims},
                    {"retries", pool.retries},
                    {"readings", pool.readings},
                    {"points_ns_live_idle", std::move(points)}});
  }
  return list;
}

Json SizesJson(const CopySizes& sizes) {
  Json list = Json::array();
  for (const auto& [exponent, size] : sizes) {
    list.push_back({{"from_bytes", exponent < 0 ? 0 : int64_t{1} << exponent},
                    {"calls", size.calls},
                    {"bytes", size.bytes},
                    {"time_ns", size.time}});
  }
  return list;
}

Json NotSeenJson(const ProcessReport& process) {
  Json errors = Json::array();
  for (const ErrorReport& error : process.errors) {
    errors.push_back({{"function", error.function}, {"code", error.code}, {"calls", error.calls}});
  }
  Json libraries = Json::array();
  for (const LibraryReport& library : process.libraries) {
    libraries.push_back({{"library", OrNull(library.path)},
                         {"kernels", library.kernels},
                         {"copies_and_sets", library.copies},
                         {"time_ns", library.time},
                         {"synchronizations", library.synchronizations},
                         {"synchronizations_host_ns", library.synchronizing_time}});
  }
  Json refused = Json::object();
  for (const auto& [fact, count] : process.refused) refused[fact->key] = count;
  return {{"intercept", OrNull(process.intercept)},
          {"past_every_hook", std::move(libraries)},
          {"all_kernels", process.all_kernels},
          {"device_work_without_call", process.unattributed},
          {"dropped_records", process.dropped},
          {"dropped_records_of_step_thread", process.dropped_of_step_thread},
          {"dropped_records_of_other_threads", process.dropped_of_others},
          {"gaps", process.drop_gaps},
          {"complete", process.complete},
          {"end_reason", OrNull(process.end_reason)},
          {"later_calls", OrNull(process.later_calls)},
          {"given_up_records", process.given_up_records},
          {"pauses", process.pauses},
          {"paused_ns", process.paused_time},
          {"kept_from_ns", OrNull(process.kept_from)},
          {"left_bytes", process.left_bytes},
          {"left_why", OrNull(process.left_why)},
          {"damaged_bytes", process.damaged_bytes},
          {"missing_chunks", process.missing_chunks},
          {"missing_records", process.missing_records},
          {"malformed_chunks", process.malformed_chunks},
          {"newer_records", process.skipped_records},
          {"found_no_room", std::move(refused)},
          {"measured_calls", process.measured_calls},
          {"measured_calls_without_line", process.calls_without_line},
          {"why_no_lines", OrNull(process.no_lines)},
          {"why_no_devices", OrNull(process.no_devices)},
          {"calls_outside_steps", process.has_steps ? Json(process.calls_outside_steps) : Json(nullptr)},
          {"failed_calls", std::move(errors)}};
}

Json HeldSumJson(const HeldSum& sum) { return {{"bytes", sum.bytes}, {"blocks", sum.blocks}}; }

Json DeviceUseJson(const HeldReport& held) {
  if (!held.use) return nullptr;
  return {{"at_ns", held.use->time},
          {"used_bytes", held.use->used},
          {"block_bytes", held.use->blocks},
          {"idle_bytes", held.use->idle},
          {"rest_bytes", held.use->rest}};
}

Json ColumnsJson(const MemoryColumns& columns) {
  Json holders = Json::array();
  for (const MemoryColumns::Row& row : columns.of) holders.push_back(row.highest);
  return {{"from_ns", columns.first},
          {"part_ns", columns.length},
          {"highest_bytes", columns.all.highest},
          {"highest_bytes_of_holders", std::move(holders)}};
}

Json HeldJson(const ProcessReport& process) {
  const auto with = [](const char* key, Json of, const HeldSum& sum) {
    Json json = HeldSumJson(sum);
    json[key] = std::move(of);
    return json;
  };
  Json list = Json::array();
  for (const HeldReport& held : process.held) {
    Json holders = Json::array();
    for (const HolderReport& holder : held.holders) {
      holders.push_back({{"file", holder.known ? Json(holder.file) : Json(nullptr)},
                         {"line", OrNull(holder.line)},
                         {"function", OrNull(holder.function)},
                         {"library", OrNull(holder.library)},
                         {"bytes", holder.sum.bytes},
                         {"blocks", holder.sum.blocks}});
    }
    Json libraries = Json::array();
    for (const auto& [path, sum] : held.libraries) libraries.push_back(with("library", OrNull(path), sum));
    Json functions = Json::array();
    for (const auto& [name, sum] : held.functions) functions.push_back(with("function", OrNull(name), sum));
    Json streams = Json::array();
    for (const auto& [stream, sum] : held.streams) streams.push_back(with("stream", stream, sum));
    Json sizes = Json::array();
    for (const auto& [exponent, sum] : held.sizes) sizes.push_back(with("at_least_bytes", int64_t{1} << exponent, sum));
    list.push_back({{"device", held.device >= 0 ? Json(held.device) : Json(nullptr)},
                    {"peak_bytes", held.peak},
                    {"peak_blocks", held.peak_blocks},
                    {"peak_at_ns", held.peak_time},
                    {"peak_in_step", OrNull(StepNumberAt(process, held.peak_time))},
                    {"pool_live_bytes_then", held.pool ? Json(held.pool->live) : Json(nullptr)},
                    {"pool_idle_bytes_then", held.pool ? Json(held.pool->idle) : Json(nullptr)},
                    {"device_use_then", DeviceUseJson(held)},
                    {"over_time", ColumnsJson(held.columns)},
                    {"last_bytes", held.last},
                    {"last_blocks", held.last_blocks},
                    {"allocations", held.allocations},
                    {"at_peak",
                     {{"holders", std::move(holders)},
                      {"libraries", std::move(libraries)},
                      {"functions", std::move(functions)},
                      {"streams", std::move(streams)},
                      {"sizes", std::move(sizes)}}}});
  }
  return {{"devices", std::move(list)},
          {"freed_and_not_seen_allocated", process.unknown_frees},
          {"allocated_and_not_seen_freed", process.unseen_frees},
          {"resets_of_unknown_device", process.unknown_resets}};
}

Json ProcessJson(const Report& report, const ProcessReport& process) {
  Json devices = Json::array();
  for (const DeviceReport& device : process.devices) devices.push_back(DeviceJson(report, process, device));
  Json by_device = Json::object();
  for (const auto& [kind, sizes] : process.device_copies) by_device[std::to_string(kind)] = SizesJson(sizes);
  return {
      {"name", NameOf(process)},
      {"pid", OrNull(process.pid)},
      {"rank", OrNull(process.rank)},
      {"local_rank", OrNull(process.local_rank)},
      {"world_size", OrNull(process.world_size)},
      {"host", OrNull(process.host)},
      {"executable", OrNull(process.executable)},
      {"command", OrNull(process.command)},
      {"spool", OrNull(process.spool)},
      {"first_ns", process.first},
      {"last_ns", process.last},
      {"calls", process.calls},
      {"wall", WallJson(process.wall)},
      {"steps", StepsJson(process)},
      {"devices", std::move(devices)},
      {"ranges", RangesJson(process)},
      {"sites", SitesJson(process)},
      {"decisions", DecisionsJson(process)},
      {"ahead", AheadJson(process)},
      {"gains", GainsJson(process)},
      {"pool_calls", {{"cudaMalloc", PoolCallsJson(process.allocations)}, {"cudaFree", PoolCallsJson(process.frees)}}},
      {"memory", MemoryJson(process)},
      {"held_memory", HeldJson(process)},
      {"copy_calls_by_size", SizesJson(process.copy_sizes)},
      {"device_copies_by_kind_and_size", std::move(by_device)},
      {"not_seen", NotSeenJson(process)}};
}

}  // namespace

std::string ReportJson(const Report& report, bool partial) {
  Json communication = nullptr;
  if (report.communication) {
    communication = {{"waited_for_process", report.communication->waited_for},
                     {"most_waiting_process", report.communication->waits_most},
                     {"wait_per_step_ns", report.communication->wait}};
  }
  Json spread = nullptr;
  if (report.spread) {
    spread = {{"shortest_process", report.spread->shortest},
              {"longest_process", report.spread->longest},
              {"median_difference_ns", report.spread->difference}};
  }
  Json slowest = nullptr;
  if (report.slowest) {
    slowest = {{"process", report.slowest->process},
               {"than_process", report.slowest->than},
               {"by", NameOf(report.slowest->by)},
               {"difference_ns", report.slowest->difference}};
  }
  Json processes = Json::array();
  for (const ProcessReport& process : report.processes) processes.push_back(ProcessJson(report, process));
  const Json root = {{"schema", kReportSchema},
                     {"partial", partial},
                     {"verdict", VerdictJson(report)},
                     {"database_by", OrNull(report.product)},
                     {"start_unix_ns", report.start_unix_ns == 0 ? Json(nullptr) : Json(report.start_unix_ns)},
                     {"first_ns", report.first},
                     {"last_ns", report.last},
                     {"calls", report.calls},
                     {"kernels_recorded", report.kernels_recorded},
                     {"device_copies_recorded", report.device_copies_recorded},
                     {"hosts", report.hosts},
                     {"unreadable", report.unreadable},
                     {"shown_process", report.processes.empty() ? Json(nullptr) : Json(report.shown)},
                     {"spread", std::move(spread)},
                     {"slowest", std::move(slowest)},
                     {"communication", std::move(communication)},
                     {"processes", std::move(processes)}};
  return text::JsonText(root);
}

}  // namespace slipstream::report
