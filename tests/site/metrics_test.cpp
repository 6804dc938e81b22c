// What becomes of counters, and of names of all kinds, in the text that Prometheus reads.

#include "tools/site/metrics.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/support/process.h"
#include "tools/site/metrics_file.h"

namespace slipstream::site {
namespace {

NodeProcess Working(int32_t pid, bool alive) {
  NodeProcess process;
  process.alive = alive;
  tracer::ProcessCounts& counts = process.counts;
  counts.pid = pid;
  counts.facts = {{"allocator", "serves: all"}, {"transfer", "off: CUDA_LAUNCH_BLOCKING is set"}};
  counts.functions = {{"cudaMalloc", "memory", true, 5, 1, 10, 1'500'000'000},
                      {"cudaFree", "memory", true, 2, 0, 0, 7}};
  counts.copies = {{"host_to_host", 0, 0}, {"host_to_device", 3, 300}, {"device_to_host", 2, 20}};
  counts.decisions = {{"transfer.h2d.promoted.small", 1, 100, 0},
                      {"transfer.h2d.promoted.large", 1, 150, 0},
                      {"transfer.h2d.mirrored", 1, 150, 0},
                      {"transfer.d2h.promoted", 2, 20, 0},
                      {"transfer.sync.skipped", 4, 0, 0},
                      {"transfer.sync.skipped.rest", 1, 0, 0},
                      {"allocator.reused", 6, 0, 0},
                      {"allocator.reused.behind", 1, 0, 0},
                      {"transfer.h2d.declined.error", 2, 0, 0},
                      {"transfer.h2d.declined.off", 9, 0, 0}};
  counts.memory = {{1, 0, {.device = 1, .live_bytes = 9, .idle_bytes = 9}},
                   {2, 0, {.device = 1, .live_bytes = 4, .idle_bytes = 3}}};
  return process;
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(MetricsTest, CountersAreThoseOfAllProcessesAndGaugesOfTheLiving) {
  NodeRun run;
  run.processes = {Working(1, true), Working(2, false)};
  NodeMetrics node = {.version = "1.2.3", .runs = {MetricsOf(run)}};
  node.runs[0].user = "ada";
  node.runs[0].program = "python3";
  node.runs[0].run = "17";
  node.runs[0].start_unix_s = 1'800'000'000.25;
  node.runs[0].estimated_gain_ns = 2'000'000'001;
  node.runs[0].gain_unknown = true;
  node.left = {.uncounted = 3, .unreadable_runs = 4, .unreadable_files = 5};
  const std::string text = MetricsText(node, Format::kPrometheus);
  const std::string of = "{user=\"ada\",program=\"python3\",run=\"17\"";
  for (const std::string& line : {std::string("slipstream_build_info{version=\"1.2.3\"} 1"),
                                  std::string("slipstream_runs{user=\"ada\",program=\"python3\"} 1"),
                                  std::string("slipstream_uncounted_processes 3"),
                                  std::string("slipstream_unreadable_runs 4"),
                                  std::string("slipstream_unreadable_files 5"),
                                  "slipstream_run_start_time_seconds" + of + "} 1800000000.250",
                                  "slipstream_processes" + of + "} 1",
                                  "slipstream_calls_total" + of + "} 14",
                                  "slipstream_call_errors_total" + of + "} 2",
                                  "slipstream_call_seconds_total" + of + "} 3.000000014",
                                  "slipstream_copies_total" + of + ",direction=\"host_to_device\"} 6",
                                  "slipstream_copied_bytes_total" + of + ",direction=\"device_to_host\"} 40",
                                  "slipstream_promoted_copies_total" + of + ",direction=\"host_to_device\"} 4",
                                  "slipstream_promoted_bytes_total" + of + ",direction=\"host_to_device\"} 500",
                                  "slipstream_promoted_bytes_total" + of + ",direction=\"device_to_host\"} 40",
                                  "slipstream_skipped_synchronizations_total" + of + "} 10",
                                  "slipstream_pool_allocations_total" + of + "} 14",
                                  "slipstream_failed_open_calls_total" + of + "} 4",
                                  "slipstream_pool_bytes" + of + ",device=\"1\",state=\"live\"} 4",
                                  "slipstream_pool_bytes" + of + ",device=\"1\",state=\"idle\"} 3",
                                  "slipstream_standing_aside_processes" + of + ",engine=\"transfer\"} 1",
                                  "slipstream_standing_aside_processes" + of + ",engine=\"allocator\"} 0",
                                  "slipstream_estimated_gain_seconds" + of + "} 2.000000001",
                                  "slipstream_gain_unknown" + of + "} 1"}) {
    EXPECT_TRUE(Has(text, line)) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("# EOF"), std::string::npos);
}

TEST(MetricsTest, OpenMetricsNamesFamiliesWithoutWhatSamplesHaveBehind) {
  const std::string text = MetricsText({.version = "1", .runs = {RunMetrics()}}, Format::kOpenMetrics);
  EXPECT_TRUE(Has(text, "# TYPE slipstream_calls counter")) << text;
  EXPECT_TRUE(Has(text, "# TYPE slipstream_build info")) << text;
  EXPECT_NE(text.find("\nslipstream_calls_total{"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
  const std::string other = MetricsText({.version = "1"}, Format::kPrometheus);
  EXPECT_TRUE(Has(other, "# TYPE slipstream_calls_total counter")) << other;
  EXPECT_TRUE(Has(other, "# TYPE slipstream_build_info gauge")) << other;
}

TEST(MetricsTest, NamesAreOnlyTextInALabel) {
  NodeMetrics node;
  node.runs.resize(1);
  node.runs[0].user = "a\"} 1\nslipstream_forged 1";
  node.runs[0].program = "b\\" + std::string(1000, 'x');
  node.runs[0].run = "\xff\u00e9";
  const std::string text = MetricsText(node, Format::kPrometheus);
  EXPECT_EQ(text.find("\nslipstream_forged"), std::string::npos) << text;
  EXPECT_NE(text.find("slipstream_gain_unknown{user=\"a\\\"} 1\\\\nslipstream_forged 1\",program=\"b\\\\" +
                      std::string(126, 'x') + "\",run=\"\\\\xff\u00e9\"} 0\n"),
            std::string::npos)
      << text;
}

TEST(MetricsTest, RunsAreCountedByUserAndProgram) {
  NodeMetrics node;
  for (const char* const user : {"ada", "bob", "ada"}) node.runs.push_back({.user = user, .program = "p"});
  const std::string text = MetricsText(node, Format::kPrometheus);
  EXPECT_TRUE(Has(text, "slipstream_runs{user=\"ada\",program=\"p\"} 2")) << text;
  EXPECT_TRUE(Has(text, "slipstream_runs{user=\"bob\",program=\"p\"} 1")) << text;
}

TEST(MetricsFileTest, IsReplacedAsAWholeAndRemovedIfItIsStillTheSame) {
  const test::Folder folder;
  const std::string path = folder / "s.prom";
  const mode_t before = umask(0777);
  MetricsFile file(path);
  EXPECT_EQ(file.Write("one"), "");
  EXPECT_EQ(file.Write("two"), "");
  umask(before);
  EXPECT_EQ(test::ReadFile(path), "two");
  EXPECT_EQ(test::ModeOf(path), 0644U);
  EXPECT_EQ(test::NamesIn(folder.path()), std::vector<std::string>{"s.prom"});
  file.Remove();
  EXPECT_EQ(test::NamesIn(folder.path()), std::vector<std::string>{});
  EXPECT_EQ(file.Write("three"), "");
  ASSERT_EQ(MetricsFile(path).Write("somebody else's"), "");
  file.Remove();
  EXPECT_EQ(test::ReadFile(path), "somebody else's");
  mkdir((folder / "d.prom").c_str(), 0700);
  EXPECT_EQ(MetricsFile(folder / "d.prom").Write("text"), "it is there, and is no regular file");
  EXPECT_EQ(MetricsFile(folder / "none/s.prom").Write("text"), "No such file or directory");
  EXPECT_EQ(test::NamesIn(folder.path()), (std::vector<std::string>{"d.prom", "s.prom"}));
}

}  // namespace
}  // namespace slipstream::site
