// What is made of a report: the screen, the JSON and the page say the same, and none of them believes a trace's texts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "policy/text.h"
#include "tests/report/report_testing.h"
#include "tests/support/process.h"
#include "tools/trace/report/figure.h"
#include "tools/trace/report/format.h"
#include "tools/trace/report/html.h"
#include "tools/trace/report/json.h"
#include "tools/trace/report/plotly.h"
#include "tools/trace/report/text.h"
#include "tools/trace/report/verdict.h"
#include "tools/trace/report/verdict_text.h"
#include "tracer/spool/block_record.h"

namespace slipstream::report {
namespace {

using nlohmann::json;
using test::Split;

constexpr char kHostile[] =
    "</title><script>alert(1)</script><img src='http://x.example/a.png' onerror=\"b()\">&\n\x1b[31m\xff";

// The only line that begins so.
std::string LineOf(const std::string& text, const std::string& beginning) {
  std::string found;
  for (const std::string& line : Split(text)) {
    if (!line.starts_with(beginning)) continue;
    EXPECT_EQ(found, "") << beginning;
    found = line;
  }
  EXPECT_NE(found, "") << beginning;
  return found;
}

// "12.3 ms" of a line are one word here.
std::vector<std::string> Figures(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> figures;
  for (std::string word; stream >> word;) {
    const bool is_unit = std::isdigit(static_cast<unsigned char>(word[0])) == 0;
    if (is_unit && !figures.empty()) {
      figures.back() += " " + word;
    } else {
      figures.push_back(word);
    }
  }
  return figures;
}

// What a plot of the page is drawn from.
json FigureOf(const std::string& html, const std::string& name) {
  const std::string plot = "aria-label=\"" + name + "\"></div>\n<script type=\"application/json\"";
  const size_t at = html.find(plot);
  EXPECT_NE(at, std::string::npos) << name;
  if (at == std::string::npos) return {};
  const size_t begin = html.find('>', at + plot.size()) + 1;
  return json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

// Whether a series of that name has that text where the pointer is.
bool HasHover(const json& figure, const std::string& name, const std::string& text) {
  for (const json& trace : figure["data"]) {
    if (trace["name"] != name) continue;
    for (const json& one : trace["hovertext"]) {
      if (one == text) return true;
    }
  }
  return false;
}

// The page as a browser's parser of markup sees it: a script ends with the first </script>, whatever that stands in.
std::string WithoutScripts(const std::string& html) {
  constexpr std::string_view kEnd = "</script>";
  std::string rest;
  size_t from = 0;
  for (size_t at = html.find("<script"); at != std::string::npos; at = html.find("<script", from)) {
    rest += html.substr(from, at - from);
    from = html.find(kEnd, at);
    if (from == std::string::npos) return rest;
    from += kEnd.size();
  }
  return rest + html.substr(from);
}

class OutputTest : public ReportTest {
 protected:
  void Everything() {
    Sample("0.spool", 0);
    BuildWell();
    AddDevices(/*limits=*/true);
    report_ = Make({.timeline = true});
    text_ = FormatReport(report_);
    json_ = json::parse(ReportJson(report_, false));
    html_ = ReportHtml(report_, "js");
  }

  Report report_;
  std::string text_;
  json json_;
  std::string html_;
};

TEST_F(OutputTest, TheScreenHasTheFiguresOfTheJson) {
  Everything();
  EXPECT_EQ(json_["schema"], "slipstream-report-1");
  EXPECT_EQ(json_["partial"], false);
  const json& process = json_["processes"][json_["shown_process"].get<size_t>()];
  const json& steps = process["steps"];
  const double whole = steps["time"]["mean_ns"];
  const auto expect_row = [&](const std::string& label, const json& of) {
    const std::string line = LineOf(text_, label + "  ");
    EXPECT_EQ(Figures(line.substr(label.size())),
              (std::vector<std::string>{Time(of["mean_ns"].get<double>()), Percent(of["mean_ns"].get<double>(), whole),
                                        Time(of["median_ns"].get<int64_t>()), Time(of["p10_ns"].get<int64_t>()),
                                        Time(of["p90_ns"].get<int64_t>()), Time(of["min_ns"].get<int64_t>()),
                                        Time(of["max_ns"].get<int64_t>())}));
  };
  expect_row("  a step", steps["time"]);
  for (size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    expect_row(std::string("    ") + Label(part), steps["parts"][std::string(NameOf(part))]);
  }
  EXPECT_NE(text_.find(std::to_string(steps["measured"].get<int>()) + " steps"), std::string::npos);
  ASSERT_EQ(process["sites"].size(), 4U);
  for (const json& site : process["sites"]) {
    const bool known = !site["file"].is_null();
    const std::string where = known ? "/job/train.py:" + std::to_string(site["line"].get<int>()) : "no line known";
    std::string row;
    for (const std::string& line : Split(text_.substr(text_.find("CALL SITES")))) {
      if (line.find(where) != std::string::npos && row.empty()) row = line;
    }
    const std::vector<std::string> figures = Figures(row);
    ASSERT_GE(figures.size(), 3U) << row;
    EXPECT_EQ(figures[0], Time(site["time_per_step_ns"].get<double>()));
    EXPECT_EQ(figures[1], Percent(site["time_ns"].get<double>(), steps["measured_ns"].get<double>()));
    EXPECT_TRUE(figures[2].starts_with(Number(site["calls_per_step"].get<double>()))) << row;
    EXPECT_EQ(row.find(" * ") != std::string::npos, site["waiting_calls"] != 0) << row;
  }
  // Where a line goes on in the next one.
  const std::string flat = std::regex_replace(text_, std::regex("\n      "), " ");
  const json& device = process["devices"][0];
  EXPECT_EQ(Figures(LineOf(text_, "  running kernels (utilization)").substr(31)),
            (std::vector<std::string>{Time(device["kernels_ns"].get<double>() / kSteps),
                                      Percent(device["utilization"].get<double>(), 1)}));
  EXPECT_EQ(device["copies_beside_kernels_ns"], 50 * kSteps);
  EXPECT_EQ(Figures(LineOf(text_, "    of it, with copies or sets beside").substr(37)),
            (std::vector<std::string>{"50 ns", "5.0 %"}));
  EXPECT_NE(flat.find("launch-bound (idle while the host was launching): " +
                      Percent(device["launch_bound"].get<double>(), 1) +
                      " of the time; host-bound (idle while it was "
                      "outside CUDA calls: Python, a data loader): " +
                      Percent(device["host_bound"].get<double>(), 1) + " of the time"),
            std::string::npos)
      << flat;
  EXPECT_NE(flat.find("est. SM efficiency " + Percent(device["estimated_sm_efficiency"].get<double>(), 1)),
            std::string::npos);
  EXPECT_NE(flat.find("achieved occupancy " + Percent(device["estimated_achieved_occupancy"].get<double>(), 1)),
            std::string::npos);
  EXPECT_NE(flat.find(Percent(device["tensor_core_share_by_name"].get<double>(), 1) + " of kernel time"),
            std::string::npos);
  ASSERT_EQ(process["decisions"].size(), 2U);
  const std::string decided = text_.substr(text_.find("WHAT SLIPSTREAM DECIDED"));
  for (const json& decision : process["decisions"]) {
    EXPECT_NE(decided.find(decision["meaning"].get<std::string>().substr(0, 20)), std::string::npos);
  }
  EXPECT_EQ(process["decisions"][0]["lost_ns"], 60 * (kSteps + 1));
  const json& pool = process["memory"][0];
  EXPECT_EQ(pool["peak_bytes"], 10'024);
  EXPECT_EQ(pool["peak_in_step"], 0);
  EXPECT_NE(flat.find("together at " + Time(pool["peak_at_ns"].get<int64_t>()) + ", step 0; at the end"),
            std::string::npos)
      << flat;
  EXPECT_EQ(FigureOf(html_, "memory over time")["layout"]["annotations"][0]["text"],
            "peak: 9.79 KiB at " + Time(pool["peak_at_ns"].get<int64_t>()) + ", step 0");
}

TEST_F(OutputTest, WhoHadMemoryIsOnTheScreenInTheJsonAndOnThePage) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    spool.Name(tracer::NameTable::kCallers, 1, "/lib/libnccl.so.2");
    spool.Pass(kBegin);
    std::vector<tracer::TraceRecord> records;
    for (uint64_t i = 0; i < 20; ++i) {
      tracer::BlockRecord block;
      block.start_ns = kBegin + 100 * i;
      block.end_ns = block.start_ns + 10;
      block.address = 0x1000 * (i + 1);
      block.bytes = 1 << 20;
      block.device = 0;
      block.library = 1;
      block.site = i < 12 ? kCopySite : i < 19 ? kLaunchSite : kNoSite;
      block.hook = kMallocHook;
      records.push_back(RecordOf(block));
    }
    spool.Records(1, records);
    // When there are five.
    spool.Records(
        0, {tracer::MemoryRecord(kBegin + 410, {.live_bytes = 5 << 20, .idle_bytes = 30, .device_used = 100 << 20})});
    spool.End();
  }
  BuildWell();
  report_ = Make({.timeline = true});
  text_ = FormatReport(report_);
  json_ = json::parse(ReportJson(report_, false));
  html_ = ReportHtml(report_, "js");
  const json& held = json_["processes"][0]["held_memory"];
  EXPECT_EQ(held["allocated_and_not_seen_freed"], 0);
  const json& device = held["devices"][0];
  EXPECT_EQ(device["peak_bytes"], 20 << 20);
  EXPECT_EQ(device["pool_idle_bytes_then"], 30);
  const json& use = device["device_use_then"];
  EXPECT_EQ(use["used_bytes"], 100 << 20);
  EXPECT_EQ(use["block_bytes"], 5 << 20);
  EXPECT_EQ(use["rest_bytes"], (100 << 20) - (5 << 20) - 30);
  const json& over_time = device["over_time"];
  ASSERT_EQ(over_time["highest_bytes"].size(), 60U);
  ASSERT_EQ(over_time["highest_bytes_of_holders"].size(), 3U);
  EXPECT_EQ(*std::max_element(over_time["highest_bytes"].begin(), over_time["highest_bytes"].end()), 20 << 20);
  EXPECT_EQ(device["at_peak"]["libraries"][0]["library"], "/lib/libnccl.so.2");
  EXPECT_EQ(device["at_peak"]["sizes"][0]["at_least_bytes"], 1 << 20);
  int64_t sum = 0;
  std::vector<std::string> lines = Split(text_.substr(text_.find("WHO HAD MEMORY")));
  for (size_t i = 0; i < 3; ++i) {
    const json& holder = device["at_peak"]["holders"][i];
    sum += holder["bytes"].get<int64_t>();
    const std::string place = holder["line"].is_null() ? "libnccl.so.2 (no line known)"
                                                       : "train.py:" + std::to_string(holder["line"].get<int>());
    EXPECT_NE(text_.find(place), std::string::npos) << text_;
    EXPECT_NE(html_.find("\"name\":\"" + (holder["line"].is_null() ? place : "/job/" + place)), std::string::npos)
        << place;
  }
  EXPECT_EQ(sum, device["peak_bytes"]);
  EXPECT_EQ(device["at_peak"]["holders"][0]["blocks"], 12);
  EXPECT_NE(html_.find("aria-label=\"memory over time, by line\""), std::string::npos);
  EXPECT_EQ(text_.find("PyTorch asks"), std::string::npos);
}

// 250 of 1000 ns with half of the SMs: what the JSON holds is what the trace was made of.
TEST_F(OutputTest, TheJsonHasTheTrace) {
  Everything();
  const json& process = json_["processes"][0];
  EXPECT_EQ(process["pid"], 100);
  EXPECT_EQ(process["rank"], 0);
  EXPECT_EQ(process["command"], "train.py");
  EXPECT_EQ(process["steps"]["steps"].size(), kSteps + 1);
  const json& step = process["steps"]["steps"][3];
  EXPECT_EQ(step["use"], "measured");
  EXPECT_EQ(step["time_ns"], 1000);
  int64_t sum = 0;
  for (const auto& [part, time] : step["parts_ns"].items()) sum += time.get<int64_t>();
  EXPECT_EQ(sum, 1000);
  EXPECT_EQ(step["parts_ns"]["synchronizes"], 250);
  EXPECT_EQ(process["steps"]["steps"][0]["use"], "warm_up");
  const json& device = process["devices"][0];
  EXPECT_EQ(device["utilization"], 0.3);
  EXPECT_EQ(device["copies_alone_ns"], 150 * kSteps);
  EXPECT_EQ(device["idle_ns_while_host_in"]["outside_of_calls"], 250 * kSteps);
  EXPECT_DOUBLE_EQ(device["launch_bound"], 0.04);  // 40 of 1000 ns in launches
  EXPECT_DOUBLE_EQ(device["host_bound"], 0.25);    // 250 outside CUDA calls
  EXPECT_EQ(process["not_seen"]["calls_outside_steps"], 1);
  EXPECT_EQ(process["copy_calls_by_size"][0]["from_bytes"], 4096);
  EXPECT_EQ(process["copy_calls_by_size"][0]["time_ns"], 100 * kSteps);
}

// Of 1000 ns, the host waits for 800 before it uploads a batch; it launches for 40, and the kernel runs for 100.
TEST_F(OutputTest, WaitingForALoaderIsNotLaunchBound) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    std::vector<tracer::TraceRecord> main;
    for (uint64_t i = 0; i < kSteps; ++i) {
      const uint64_t at = kBegin + kStep * i;
      main.push_back(Call(kMemcpyHook, at + 800, at + 820, kCopySite, 1 << 20));
      main.push_back(Call(kLaunchHook, at + 820, at + 860, kLaunchSite));
      main.push_back(tracer::StepRecord(at, at + kStep, i + 1));
    }
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.End();
  }
  BuildWell();
  AddDevices(/*limits=*/false);
  // In place of what that adds, one kernel of each step, from 860 to 960.
  Execute(database_,
          "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY; DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET;"
          "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE shortName = 900003;"
          "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 510, end = start + 610");
  const json device = json::parse(ReportJson(Make(), false))["processes"][0]["devices"][0];
  EXPECT_DOUBLE_EQ(device["utilization"], 0.1);
  EXPECT_DOUBLE_EQ(device["launch_bound"], 0.04);
  EXPECT_DOUBLE_EQ(device["host_bound"], 0.84);  // 800 before the copy, 40 behind the kernel
}

TEST_F(OutputTest, WhatWasNotRecordedIsNull) {
  Sample("0.spool", 0);
  BuildWell();
  const std::string process = One("SELECT globalPid FROM SLIPSTREAM_PROCESSES");
  Execute(database_,
          "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
          "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (" +
              std::to_string(FirstMeasured()) + ", " + std::to_string(FirstMeasured() + 100) + ", 0, 7, 1, " + process +
              ", 4096, 1)");
  const Report report = Make();
  const json device = json::parse(ReportJson(report, true))["processes"][0]["devices"][0];
  EXPECT_EQ(device["copies_ns"], 100);
  for (const char* const key :
       {"utilization", "kernels_ns", "idle_ns_while_host_in", "launch_bound", "host_bound", "copies_alone_ns",
        "communication_ns", "communication_alone_ns", "estimated_sm_efficiency", "estimated_achieved_occupancy",
        "tensor_core_share_by_name"}) {
    EXPECT_TRUE(device[key].is_null()) << key;
  }
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("no kernels were recorded"), std::string::npos);
  EXPECT_EQ(text.find("utilization"), std::string::npos) << text;
}

TEST_F(OutputTest, NoLineIsTooLong) {
  Sample("0.spool", 0, kStep, true, std::string(500, 'x'));
  Sample("1.spool", 1, 2 * kStep, /*ends=*/false);
  ASSERT_EQ(Build().problem, trace_db::BuildProblem::kNone);
  AddDevices(/*limits=*/true);
  const std::string much(300, 'y');
  Execute(
      database_,
      "UPDATE SLIPSTREAM_SITES SET file = '/" + much + "/" + much + ".py', function = '" + much +
          "', line = 123456789; UPDATE StringIds SET value = '" + much +
          "' WHERE id > 900000 OR value LIKE 'transfer%'; UPDATE SLIPSTREAM_PROCESSES SET executable = '" + much +
          "'; UPDATE SLIPSTREAM_DECISIONS SET savedNs = 123456789012; UPDATE SLIPSTREAM_DECISION_EVENTS SET savedNs = "
          "123456789012");
  for (const std::string& line : Split(FormatReport(Make()))) {
    EXPECT_LE(line.size(), kPageColumns) << line;
  }
}

// Every tag that is opened is closed, in order: browsers forgive what they read otherwise, and what they make of it.
void ExpectWellFormed(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    const std::string name = tag.substr(tag.starts_with('/') ? 1 : 0, tag.find(' ') - (tag.starts_with('/') ? 1 : 0));
    if (!tag.starts_with('/')) {
      open.push_back(name);
    } else {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST_F(OutputTest, ThePageBeginsWithTheVerdictAndEndsWithTheText) {
  Everything();
  const PageFinding finding = {.head = "a-rule: about <1 ms>",
                               .rule = "a-rule",
                               .whose = "rank 0 only",
                               .found = "Found & seen.",
                               .evidence = {"evidence one", "</ul><script>alert(1)</script>"},
                               .places = {"train.py:42 (train)"},
                               .change = "Change it.",
                               .snippet = "x = 1\ny = '2'"};
  const std::string html = ReportHtml(report_, "js", {finding});
  const std::string markup = WithoutScripts(html);
  ExpectWellFormed(markup);
  const std::optional<Verdict> verdict = VerdictOf(report_);
  ASSERT_TRUE(verdict);
  // One after the other, each once.
  size_t at = 0;
  for (const std::string& part :
       {"<h1>" + HtmlText(VerdictSentence(report_, *verdict)) + "</h1>",
        std::string("<p class=\"run\">slipstream report: train.py</p>"), std::string("nothing is missing</p>"),
        std::string("aria-label=\"whole time\""), std::string("<h2>What to change</h2>"),
        std::string("<h3>a-rule: about &lt;1 ms&gt;</h3>\n<p>rank 0 only</p>\n<p>Found &amp; seen.</p>"),
        std::string("<li>evidence one</li>\n<li>&lt;/ul&gt;"),
        std::string("<li>at <code>train.py:42 (train)</code></li>"),
        std::string("<p>Change it.</p>\n<pre>x = 1\ny = &#39;2&#39;\n</pre>"),
        std::string("<code>slipstream help a-rule</code>"), std::string("<details>"), HtmlText("STEPS of "),
        std::string("</details>")}) {
    const size_t found = markup.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\n" << markup.substr(at, 2000);
    at = found + part.size();
    EXPECT_EQ(markup.find(part, at), std::string::npos) << part;
  }
  EXPECT_EQ(ReportHtml(report_, "js").find("What to change"), std::string::npos);
}

TEST_F(OutputTest, ThePageHasTheScreenAndItsPlots) {
  Everything();
  ExpectWellFormed(WithoutScripts(html_));
  for (const std::string& line : Split(text_)) EXPECT_NE(html_.find(HtmlText(line)), std::string::npos) << line;
  EXPECT_NE(html_.find("<script>js</script>"), std::string::npos);
  for (const char* const plot :
       {"whole time", "copy bandwidth by size", "host time by stack", "device time by stack"}) {
    EXPECT_FALSE(FigureOf(html_, plot).empty()) << plot;
  }
  // A bar for each part of each measured step, a thing for each of the typical step's.
  const json parts = FigureOf(html_, "parts of each step");
  EXPECT_EQ(parts["data"].size(), kParts);
  EXPECT_EQ(parts["data"][0]["x"].size(), kSteps);
  EXPECT_TRUE(HasHover(parts, "synchronizations", "step 8, synchronizations: 250 ns"));
  const json step = FigureOf(html_, "timeline of one step");
  EXPECT_TRUE(HasHover(step, "kernels", "gemm: 200 ns"));
  EXPECT_TRUE(HasHover(step, "allocations and frees", "cudaMalloc: 10 ns"));
  EXPECT_EQ(step["layout"]["yaxis"]["ticktext"].size(), 3U);
  const json steps = FigureOf(html_, "step times");
  EXPECT_TRUE(HasHover(steps, "rank 0", "rank 0, step 0: 5.00 us (left out of the figures)"));
  EXPECT_EQ(steps["data"][0]["y"].size(), kSteps + 1);
  EXPECT_NE(steps["data"][0]["marker"]["color"][0], steps["data"][0]["marker"]["color"][1]);
  const json memory = FigureOf(html_, "memory over time");
  EXPECT_EQ(memory["data"][0]["name"], "live: in the program's hands");
  EXPECT_EQ(memory["layout"]["yaxis"]["ticksuffix"], " KiB");
  EXPECT_EQ(memory["data"][1]["y"][1], 9000.0 / 1024);
}

TEST_F(OutputTest, FlameGraphsOfThePageAreThoseOfTheReport) {
  Everything();
  const json host = FigureOf(html_, "host time by stack");
  ASSERT_TRUE(report_.flames.host.has_value());
  const std::vector<FlameFrame>& frames = report_.flames.host->frames;
  ASSERT_EQ(host["names"].size(), frames.size());
  for (const char* const key : {"details", "parents", "kinds", "times", "counts"}) {
    EXPECT_EQ(host[key].size(), frames.size()) << key;
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(host["names"][i], frames[i].label);
    EXPECT_EQ(host["parents"][i], frames[i].parent);
    EXPECT_EQ(host["times"][i], frames[i].time);
  }
  EXPECT_NE(html_.find("with tracer.stacks = &quot;python&quot; in the policy"), std::string::npos);
  EXPECT_NE(html_.find("Frames of less than 4 ns (0.1 %) are put together"), std::string::npos);
}

TEST_F(OutputTest, ThePageNeedsNothingElse) {
  Everything();
  for (const char* const from_elsewhere :
       {"<link", "<img", "<iframe", "src=", "href", "url(", "@import", "http:", "https:", "fetch("}) {
    EXPECT_EQ(html_.find(from_elsewhere), std::string::npos) << from_elsewhere;
  }
  EXPECT_NE(html_.find("content=\"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src "
                       "data: blob:; form-action 'none'; base-uri 'none'\""),
            std::string::npos);
  // Which the library has a button for.
  EXPECT_NE(html_.find("showSendToCloud: false"), std::string::npos);
}

TEST_F(OutputTest, WithoutTheLibraryThePageSaysSo) {
  Everything();
  const std::string html = ReportHtml(report_, "");
  ExpectWellFormed(html);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("aria-label"), std::string::npos);
  EXPECT_NE(html.find("no plots, because slipstream was built without the library that draws them: to have them, run "
                      "tools/setup"),
            std::string::npos);
  for (const std::string& line : Split(text_)) EXPECT_NE(html.find(HtmlText(line)), std::string::npos) << line;
}

TEST(PlotlyTest, IsWholeAndHasItsLicense) {
  const std::string library = PlotlyJs();
  if (library.empty()) GTEST_SKIP() << "slipstream was built without plotly.js (tools/setup fetches it)";
  EXPECT_EQ(library, tracer::Slurp(SLIPSTREAM_PLOTLY_JS));
  const std::string head = library.substr(0, 400);
  EXPECT_NE(head.find("plotly.js v"), std::string::npos);
  EXPECT_NE(head.find("Plotly, Inc."), std::string::npos);
  EXPECT_NE(head.find("Licensed under the MIT license"), std::string::npos);
  // What would end a <script> before its end, or keep it from ending.
  for (const char* const markup : {"</script", "</SCRIPT", "<!--"}) {
    EXPECT_EQ(library.find(markup), std::string::npos) << markup;
  }
}

TEST_F(OutputTest, TextsOfATraceStayTexts) {
  {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0, std::string(kHostile));
    spool.Site(kCopySite + 3, kHostile, 10, kHostile);
    spool.Name(tracer::NameTable::kHooks, 9, std::string("cudaMemcpy") + kHostile);
    spool.Name(tracer::NameTable::kDecisions, 3, kHostile);
    spool.Thread(3, 103, kHostile);
    spool.Pass(kBegin);
    std::vector<tracer::TraceRecord> records;
    for (uint64_t i = 0; i < 4; ++i) {
      records.push_back(Call(9, kBegin + 100 * i, kBegin + 100 * i + 50, kCopySite + 3, 64, 3));
      records.push_back(tracer::StepRecord(kBegin + 100 * i, kBegin + 100 * i + 100, i));
    }
    spool.Records(3, records);
    spool.End();
  }
  ASSERT_EQ(Build().problem, trace_db::BuildProblem::kNone);
  Execute(database_, "UPDATE SLIPSTREAM_PROCESSES SET executable = '<b>x</b>', endReason = '<i>'");
  const Report report = Make({.timeline = true});
  const std::string html = ReportHtml(report, "js");
  const std::string markup = WithoutScripts(html);
  ExpectWellFormed(markup);
  for (const char* const tag : {"<script", "<img", "<b>", "<i>", "alert(1)</script", "src='", "onerror=\""}) {
    EXPECT_EQ(markup.find(tag), std::string::npos) << tag;
  }
  EXPECT_NE(markup.find("&lt;script&gt;alert(1)"), std::string::npos);
  // Not in what the plots are drawn from either, where a script would end with the first </script>.
  EXPECT_EQ(html.find("alert(1)</script"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  const json frames = FigureOf(html, "host time by stack");
  EXPECT_NE(frames["names"].dump().find("<script>alert(1)</script>"), std::string::npos);
  const json step = FigureOf(html, "timeline of one step");
  EXPECT_NE(step["layout"]["yaxis"]["ticktext"].dump().find("&lt;/title&gt;"), std::string::npos);
  // Nothing that a terminal takes for more than text.
  for (const std::string& text : {FormatReport(report), html}) {
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  }
  EXPECT_FALSE(json::parse(ReportJson(report, false)).is_discarded());
}

// Every key, however deep, is named by docs/report.md.
void ExpectDocumented(const json& value, const std::string& document) {
  if (value.is_array()) {
    for (const json& one : value) ExpectDocumented(one, document);
  }
  if (!value.is_object()) return;
  for (const auto& [key, one] : value.items()) {
    const bool is_number = std::isdigit(static_cast<unsigned char>(key[0])) != 0;  // of a kind of copy
    EXPECT_TRUE(is_number || document.find("`" + key + "`") != std::string::npos ||
                document.find("`." + key + "`") != std::string::npos)
        << key;
    ExpectDocumented(one, document);
  }
}

TEST_F(OutputTest, EveryKeyIsDocumented) {
  Everything();
  const std::string document = tracer::Slurp(SLIPSTREAM_REPORT_DOCUMENT);
  ASSERT_NE(document, "");
  ExpectDocumented(json_, document);
}

TEST(WordsTest, NumbersForPeople) {
  EXPECT_EQ(Time(1234.4), "1.23 us");
  EXPECT_EQ(Time(-4500.0), "-4.50 us");
  EXPECT_EQ(Time(-0.2), "0 ns");
  EXPECT_EQ(Number(0), "0");
  EXPECT_EQ(Number(12), "12");
  EXPECT_EQ(Number(0.25), "0.25");
  EXPECT_EQ(Number(12.34), "12.3");
  EXPECT_EQ(Number(123456), "123,456");
  EXPECT_EQ(Percent(1, 8), "12.5 %");
  EXPECT_EQ(Percent(1, 0), "-");
  EXPECT_EQ(Cut("abcdef", 6), "abcdef");
  EXPECT_EQ(Cut("abcdefg", 6), "abc...");
  EXPECT_EQ(Cut("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 4), "\xc3\xa4...");
}

TEST(FigureTest, AnAxisCountsInWhatItsLargestNumberHas) {
  EXPECT_STREQ(UnitOfTime(999).suffix, " ns");
  EXPECT_STREQ(UnitOfTime(1000).suffix, " us");
  EXPECT_STREQ(UnitOfTime(41'000'000).suffix, " ms");
  EXPECT_EQ(UnitOfTime(2'500'000'000).Of(2'500'000'000), 2.5);
  EXPECT_STREQ(UnitOfBytes(1023).suffix, " B");
  EXPECT_STREQ(UnitOfBytes(1 << 20).suffix, " MiB");
  EXPECT_EQ(UnitOfBytes(int64_t{3} << 30).Of(int64_t{3} << 29), 1.5);
}

TEST(FigureTest, NoTextEndsAScriptOrBecomesMarkup) {
  const std::string hostile = "</script><!--<script>\xe2\x80\xa8\xc3\xa4&\xff";
  const std::string html = Figure("x", json::array({Bars(hostile, "red")}), {{"title", hostile}});
  const std::string begin = "class=\"figure\">";
  const size_t at = html.find(begin) + begin.size();
  const std::string value = html.substr(at, html.rfind("</script>") - at);
  for (const char c : value) EXPECT_TRUE(c >= ' ' && c <= '~' && c != '<' && c != '>' && c != '&') << c;
  const json figure = json::parse(value);
  EXPECT_EQ(figure["data"][0]["name"], "&lt;/script&gt;&lt;!--&lt;script&gt;\\u2028\xc3\xa4&amp;\\xff");
  EXPECT_EQ(PlotText("a<b>&\"'"), "a&lt;b&gt;&amp;\"'");
  EXPECT_EQ(HtmlText("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
}

}  // namespace
}  // namespace slipstream::report
