// The screen of a report at several widths: no line is longer, and on a narrow one no figure is lost.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "policy/text.h"
#include "tests/report/report_testing.h"
#include "tests/support/process.h"
#include "tools/text/columns.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/overview.h"
#include "tools/trace/report/report.h"
#include "tools/trace/report/text.h"

namespace slipstream::report {
namespace {

constexpr uint64_t kSteps = 200;
// Names without a digit that stands alone: figures are looked for.
constexpr char kFile[] = "/data/training/projects/vision/pretraining/with_a_long_name/training_of_models.py";
constexpr char kFunction[] = "forward_and_backward_of_größere_model";
constexpr char kKernel[] = "void at::native::vectorized_elementwise_kernel<at::native::AddFunctor<float>, std::array>";

Distribution Around(int64_t time) {
  return {.count = kSteps,
          .total = time * static_cast<int64_t>(kSteps),
          .min = time - time / 7,
          .p10 = time - time / 11,
          .median = time - time / 23,
          .p90 = time + time / 13,
          .max = time * 3};
}

Place PlaceAt(int64_t line, bool before) {
  Place place;
  place.file = kFile;
  place.line = line;
  place.function = kFunction;
  place.before = before;
  place.time = line * kMs / 100;
  return place;
}

SiteReport SiteAt(int64_t line, std::vector<SiteReport::Function> functions) {
  SiteReport site;
  site.known = line != 0;
  site.of_step_thread = line % 2 == 1;
  site.file = kFile;
  if (site.known) site.line = line;
  site.function = kFunction;
  site.calls = kSteps * static_cast<uint64_t>(line + 3);
  site.waiting = site.calls / 2;
  site.time = (line + 1) * kMs / 3;
  site.gap = line * kMs / 10;
  site.functions = std::move(functions);
  return site;
}

LineReport LineAt(int64_t line) {
  LineReport report;
  report.known = true;
  report.of_step_thread = line % 2 == 1;
  report.file = kFile;
  report.line = line;
  report.function = kFunction;
  return report;
}

DeviceReport Device(int64_t number) {
  DeviceReport device;
  device.device = number;
  device.name = "NVIDIA H" + std::string(60, 'x');
  device.sms = 132;
  device.kernels = 1'234'567;
  device.kernel_time = 4001 * kMs;
  device.tensor_core_time = 1203 * kMs;
  device.times.kernels = 3907 * kMs;
  device.times.copies_alone = 307 * kMs;
  device.times.copies = 709 * kMs;
  device.times.communication = (811 + number) * kMs;
  device.times.communication_alone = 211 * kMs;
  for (size_t host = 0; host < kHostStates; ++host) device.times.idle[host] = static_cast<int64_t>(101 + host) * kMs;
  device.sm_efficiency = 0.731;
  device.achieved_occupancy = 0.377;
  for (int64_t i = 0; i < 7; ++i) device.top.push_back({kKernel, 1234, (903 - i) * kMs, false});
  device.kernel_names = 77;
  device.copies.push_back({1, "Host-to-Device", 4321, 99 * kMiB, 77 * kMs, 4242, 88 * kMiB, 66 * kMs});
  device.idle_lines.push_back({kHostOutside, true, false, LineAt(4321), 93 * kMs});
  device.idle_lines.push_back({kHostOutside, true, false, LineAt(432), 83 * kMs});
  for (int64_t i = 0; i < 8; ++i) {
    device.kernel_lines.push_back({i != 2, LineAt(2001 + i), 4711, (803 - i) * kMs, kKernel, 7 * kMs});
  }
  return device;
}

HeldReport Held() {
  HeldReport held;
  held.device = 0;
  held.peak = 43'210 * kMiB;
  held.peak_time = 77 * kMs;
  held.peak_blocks = 9876;
  held.last = 321 * kMiB;
  held.last_blocks = 98;
  held.allocations = 7'654'321;
  held.pool = MemoryPoint{.time = 0, .live = 40'001 * kMiB, .idle = 3003 * kMiB};
  held.use =
      DeviceUse{.time = 3, .used = 50'505 * kMiB, .blocks = 43'210 * kMiB, .idle = 3003 * kMiB, .rest = 4 * kMiB};
  for (int64_t i = 0; i < 11; ++i) {
    HolderReport holder;
    holder.known = i != 3;
    holder.file = kFile;
    holder.line = 1501 + i;
    holder.function = kFunction;
    holder.library = "/opt/venv/lib/python/site-packages/nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9";
    holder.sum = {(4000 - i) * kMiB, static_cast<uint64_t>(300 + i)};
    held.holders.push_back(holder);
  }
  held.libraries = {{"/opt/libcudnn.so.9", {1234 * kMiB, 12}}, {"/opt/libc10_cuda.so", {34'567 * kMiB, 345}}};
  held.functions = {{"cudaMalloc", {43'210 * kMiB, 9876}}};
  held.streams = {{0, {10 * kMiB, 10}}, {0x55d0, {20 * kMiB, 20}}};
  held.sizes = {{20, {4 * kMiB, 4}}, {21, {8 * kMiB, 4}}};
  held.columns.length = 13 * kMs;
  held.columns.all.highest.assign(kMemoryColumns, 43'210 * kMiB);
  held.columns.of.resize(kHoldersInColumns);
  for (MemoryColumns::Row& row : held.columns.of) row.highest.assign(kMemoryColumns, 1000 * kMiB);
  held.columns.peak = kMemoryColumns - 2;
  return held;
}

ProcessReport Process(int64_t rank) {
  ProcessReport process;
  process.process = rank + 1;
  process.pid = 400'100 + rank;
  process.rank = rank;
  process.host = "node";
  process.executable = "/usr/bin/python3";
  process.command = "python train.py" + std::string(200, 'c');
  process.calls = 12'345'678;
  process.last = 9000 * kMs;
  process.has_steps = true;
  process.steps_found = true;
  process.step_site = std::string(kFile) + ":77 (" + kFunction + ")";
  process.devices_recorded = true;
  process.measured_steps = kSteps;
  process.warm_up_steps = 3;
  process.dropped_steps = 2;
  process.dropped = 1234;
  process.dropped_of_step_thread = 1000;
  process.dropped_of_others = 234;
  process.drop_gaps = 5;
  process.paused_steps = 4;
  process.measured_time = 6000 * kMs;
  process.step_time = Around((30 + rank) * kMs);
  for (size_t i = 0; i < kParts; ++i) process.parts[i] = Around(static_cast<int64_t>(i + 2) * kMs / 3 + 1001);
  process.communication_time = Around((4 + rank) * kMs);
  process.pause_time = Around(3 * kMs);
  process.pace = Around(33 * kMs);
  process.slow_steps.push_back({123'456, 0, 99 * kMs, Part::kElsewhere, 55 * kMs, PlaceAt(987, true)});
  process.slow_steps.push_back({123'499, 0, 89 * kMs, Part::kCopies, 45 * kMs, PlaceAt(789, false)});
  process.slow_step_count = 17;
  process.wall = {.begin = 0, .end = 9000 * kMs, .from_process_start = true, .parts = {}};
  process.wall.parts = {{WallPart::kStartUp, 2000 * kMs, 1, PlaceAt(31, true)},
                        {WallPart::kUnwatched, 333 * kMs, 12'345, PlaceAt(37, false)},
                        {WallPart::kEvaluation, 222 * kMs, 67, PlaceAt(41, false)},
                        {WallPart::kMeasured, 6000 * kMs, kSteps, {}}};
  process.sites = {SiteAt(3001, {{"cudaStreamSynchronize", 10}, {"cudaMemcpyAsync", 9}, {"cudaLaunchKernel", 8}}),
                   SiteAt(3002, {{"cudaMemcpyAsync", 9}}), SiteAt(0, {{"cuMemcpyHtoDAsync_v2", 3}, {"cudaFree", 1}})};
  process.devices = {Device(rank)};
  process.ranges.kernels_known = true;
  for (int i = 0; i < 10; ++i) {
    process.ranges.names.push_back({"a range with a name that is quite long, of a model's layer or such", "domain",
                                    static_cast<uint64_t>(400 + i), (70 - i) * kMs, 5, 50 * kMs});
  }
  process.decisions.push_back({"transfer.h2d.promoted.large",
                               "copies to the device that were staged in pinned memory, and did not hold the host up",
                               11'222'333, 7001, 123'456 * kMiB, 777 * kMiB, 88 * kMs, 0});
  process.decisions.push_back({"transfer.sync.settled.query", "", 99'000, 601, 0, 0, 0, 9 * kMs});
  for (size_t i = 0; i < kGainKinds; ++i) {
    GainRow& row = process.gains.rows[i];
    row.calls = row.measured_calls = 3000 + i;
    row.measured = static_cast<int64_t>(41 + i) * kMs;
    row.estimated = static_cast<int64_t>(53 + i) * kMs;
  }
  process.gains.measured = 333 * kMs;
  process.gains.estimated = 444 * kMs;
  AheadReport ahead;
  ahead.skipped = 5001;
  ahead.behind_work = 4002;
  ahead.at_most = 61 * kMs;
  ahead.step_thread.went_on[0] = 71 * kMs;
  ahead.step_thread.waited_later = 13 * kMs;
  ahead.step_thread.added = 3 * kMs;
  process.ahead = ahead;
  process.allocations = {
      .served = 808, .served_time = kMs, .served_median = 404, .real = 9, .real_time = 5, .real_median = 4};
  MemoryReport pool;
  pool.peak_live = 1717 * kMiB;
  pool.peak_idle = 818 * kMiB;
  pool.peak = 2002 * kMiB;
  pool.peak_point = {.time = 5 * kMs, .live = 1700 * kMiB, .idle = 302 * kMiB};
  pool.peak_largest_idle = 99 * kMiB;
  pool.readings = 4545;
  process.memory.push_back(pool);
  process.held.push_back(Held());
  process.errors.push_back({"cudaMalloc", 2, 19});
  process.libraries.push_back({"/opt/libcublasLt.so.13", 654'321, 1234, 99 * kMs, 7, 3 * kMs});
  process.all_kernels = 1'654'321;
  process.unattributed = 21;
  process.calls_without_line = 1010;
  process.measured_calls = 20'202;
  process.calls_outside_steps = 303;
  return process;
}

Report Rich() {
  Report report;
  report.has_own_tables = report.kernels_recorded = report.device_copies_recorded = true;
  report.start_unix_ns = 1'700'000'000'000'000'000;
  report.last = 9000 * kMs;
  report.calls = 98'765'432;
  report.hosts = {"node"};
  for (int64_t rank = 0; rank < 3; ++rank) report.processes.push_back(Process(rank));
  report.processes[1].rank.reset();
  report.processes[1].has_steps = false;
  report.shown = 2;
  report.spread = Spread{.shortest = 0, .longest = 2, .difference = 2 * kMs};
  report.slowest = Slowest{.process = 2, .than = 0, .by = Slowest::By::kCommunication, .difference = kMs};
  report.communication = Communication{.waited_for = 2, .waits_most = 0, .wait = kMs};
  report.unreadable = {
      "/a/rather/long/path/of/a/spool/file/that/could/not/be/read/at/all/or/is/empty.spool: no header"};
  return report;
}

std::vector<Report> Reports() {
  std::vector<Report> reports = {Rich(), Rich(), Rich()};
  Report& unrecorded = reports[1];
  unrecorded.kernels_recorded = unrecorded.device_copies_recorded = false;
  unrecorded.communication.reset();
  unrecorded.slowest = Slowest{.process = 2, .than = 0, .by = Slowest::By::kOutsideWaits, .difference = kMs};
  for (ProcessReport& process : unrecorded.processes) {
    process.devices.clear();
    process.ahead.reset();
  }
  Report& stepless = reports[2];
  stepless.processes.resize(1);
  stepless.shown = 0;
  stepless.spread.reset();
  stepless.slowest.reset();
  stepless.communication.reset();
  stepless.device_copies_recorded = false;
  ProcessReport& process = stepless.processes[0];
  process.has_steps = false;
  process.why_no_steps = "no line of the program begins a loop";
  process.measured_steps = 0;
  return reports;
}

// Figures with their units, and how often they are there; "and 3 more" says what has no room.
std::map<std::string, int> CountsOfFigures(const std::string& text) {
  std::string flat = std::regex_replace(text, std::regex("[0-9,]+ more\\b"), "");
  flat = std::regex_replace(flat, std::regex("\\s+"), " ");
  const std::regex figure("[0-9][0-9,]*(\\.[0-9]+)?( (ns|us|ms|s|B|KiB|MiB|GiB|%|x)\\b)?");
  std::map<std::string, int> figures;
  for (std::sregex_iterator at(flat.begin(), flat.end(), figure); at != std::sregex_iterator(); ++at) {
    ++figures[at->str()];
  }
  return figures;
}

TEST(WidthTest, NoLineIsLongerThanTheScreen) {
  for (const Report& report : Reports()) {
    for (const size_t columns : {80, 81, 97, 100, 109, 110, 132, 160}) {
      const std::string text = FormatReport(report, {.columns = columns});
      for (const std::string& line : test::Split(text))
        EXPECT_LE(text::Columns(line), columns) << columns << "\n" << line;
      for (size_t at = 0; at < text.size();) {
        const size_t bytes = policy::Utf8CharacterLength(std::string_view(text).substr(at));
        ASSERT_NE(bytes, 0U) << "half a character at " << at << " of\n" << text;
        at += bytes;
      }
    }
  }
}

TEST(WidthTest, ANarrowScreenHasEveryFigureOfAWideOne) {
  for (const Report& report : Reports()) {
    const std::string wide = FormatReport(report, {.columns = 160});
    for (const size_t columns : {80, 100}) {
      const std::string narrow = FormatReport(report, {.columns = columns});
      std::map<std::string, int> figures = CountsOfFigures(narrow);
      for (const auto& [figure, count] : CountsOfFigures(wide)) {
        EXPECT_GE(figures[figure], count) << figure << " at " << columns << "\n" << narrow << "\n" << wide;
      }
    }
  }
}

// Without the sum of what has no row of its own, and how many there are of what is listed in part.
std::map<std::string, int> CountsOfOverview(const Report& report, size_t columns) {
  std::string text = FormatOverview(report, {.columns = columns});
  text = std::regex_replace(text, std::regex("all else.{29}"), "");
  return CountsOfFigures(std::regex_replace(
      text, std::regex(", the [0-9] of [0-9,]+|[0-9]+\\s+left out|PROCESSES: [0-9]+,|the busiest of [0-9]+"), ""));
}

TEST(WidthTest, AnOverviewFitsAScreenAndHasFiguresOfTheReportAlone) {
  for (const Report& report : Reports()) {
    std::map<std::string, int> known = CountsOfFigures(FormatReport(report, {.columns = 160}));
    for (const size_t columns : {80, 81, 97, 110, 160}) {
      for (const std::string& line : test::Split(FormatOverview(report, {.columns = columns}))) {
        EXPECT_LE(text::Columns(line), columns) << line;
      }
      for (const auto& [figure, count] : CountsOfOverview(report, columns)) {
        EXPECT_GE(known[figure], 1) << figure << "\n" << FormatOverview(report, {.columns = columns});
      }
    }
  }
}

TEST(WidthTest, AnOverviewIsOneScreenHoweverMuchThereIs) {
  Report report = Rich();
  report.unreadable.clear();
  for (int64_t rank = 3; rank < 64; ++rank) report.processes.push_back(Process(rank));
  for (ProcessReport& process : report.processes) {
    process.rank = process.rank.value_or(1);
    process.has_steps = true;
    process.dropped_steps = process.paused_steps = 0;
    process.dropped = process.drop_gaps = process.dropped_of_others = process.dropped_of_step_thread = 0;
    for (int64_t device = 1; device < 8; ++device) process.devices.push_back(Device(device));
    for (int64_t line = 1; line < 40; ++line) process.sites.push_back(SiteAt(line, {{"cudaMemcpyAsync", 9}}));
  }
  report.hosts = {"a", "b"};
  const std::string text = FormatOverview(report, {.columns = 80});
  EXPECT_NE(text.find("nothing is missing"), std::string::npos) << text;
  EXPECT_NE(text.find("GPU 2, the busiest of 8\n"), std::string::npos) << text;
  EXPECT_NE(text.find("CALL SITES, the 3 of 42 with"), std::string::npos) << text;
  EXPECT_NE(text.find("KERNELS, the 2 of 77 with"), std::string::npos) << text;
  EXPECT_NE(text.find("PROCESSES: 64, steps of 28.7 ms (rank 0) to 30.6 ms (rank 2); below: rank 2\n"),
            std::string::npos)
      << text;
  EXPECT_LE(test::Split(text).size(), 26U) << text;
}

TEST(WidthTest, AWideScreenHasLongerNames) {
  const Report report = Rich();
  EXPECT_EQ(FormatReport(report, {.columns = 80}).find(std::string("   ") + kFile + ":3002 ("), std::string::npos);
  EXPECT_NE(FormatReport(report, {.columns = 160}).find(std::string("   ") + kFile + ":1501 (" + kFunction + ")\n"),
            std::string::npos)
      << FormatReport(report, {.columns = 160});
}

TEST(WidthTest, APlaceKeepsItsLine) {
  SiteReport site;
  site.known = true;
  site.file = "/job/some_folder/a_module.py";
  site.line = 1234;
  site.function = "train_step";
  EXPECT_EQ(SiteLabel(site, 46), "/job/some_folder/a_module.py:1234 (train_step)");
  EXPECT_EQ(SiteLabel(site, 45), "a_module.py:1234 (train_step)");
  EXPECT_EQ(SiteLabel(site, 28), "a_module.py:1234 (train_s...");
  EXPECT_EQ(SiteLabel(site, 18), "a_module.py:1234");
  EXPECT_EQ(SiteLabel(site, 14), "...ule.py:1234");
  for (size_t columns = 1; columns < 50; ++columns) {
    EXPECT_NE(SiteLabel(site, columns).find(":1234"), std::string::npos) << columns;
  }
}

}  // namespace
}  // namespace slipstream::report
