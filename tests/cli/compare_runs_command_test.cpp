// `slipstream compare RUN RUN` as a user and a script meet it: of two runs whose every nanosecond is planted.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/report/report_testing.h"
#include "tests/support/process.h"
#include "tools/cli/exit_codes.h"

namespace slipstream::cli {
namespace {

using report::Call;
using test::Finished;

// What differs between the runs.
struct Planted {
  uint64_t steps = 30;
  uint64_t step = 1000;      // ns
  uint32_t moved = 0;        // lines were put in above all others
  uint64_t wait_from = 700;  // the synchronization of line 30, in a step
  uint64_t wait_to = 900;
  int64_t gemm = 300;  // how long the kernel runs from 350 on; "add" follows it for 50
  bool extra = false;  // a kernel from 1250 to 1300
};

// A synchronization of line 30, kernels and a new kernel that take 200, 100 and 50 ns longer.
constexpr Planted kAfter = {
    .steps = 30, .step = 1400, .moved = 1, .wait_from = 800, .wait_to = 1200, .gemm = 400, .extra = true};

class CompareRunsTest : public report::ReportTest {
 protected:
  static Finished Compare(std::vector<std::string> words) {
    words.insert(words.begin(), {SLIPSTREAM_COMMAND, "compare"});
    return test::RunProgram(words);
  }

  // The directory of its spool.
  std::string Record(const std::string& name, const Planted& planted) {
    std::string folder = directory_ + "/" + name;
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
    trace_db::HandSpool spool(folder, "0.spool");
    spool.Facts({{"pid", "100"}, {"host", "node"}, {"rank", "0"}, {"executable", "/usr/bin/python3"}});
    spool.Name(tracer::NameTable::kHooks, report::kMemcpyHook, "cudaMemcpyAsync");
    spool.Name(tracer::NameTable::kHooks, report::kSynchronizeHook, "cudaStreamSynchronize");
    spool.Name(tracer::NameTable::kHooks, report::kLaunchHook, "cudaLaunchKernel");
    const auto line = [&](int32_t number) { return number + static_cast<int32_t>(planted.moved); };
    spool.Site(report::kCopySite, "/job/train.py", line(10), "step");
    spool.Site(report::kLaunchSite, "/job/train.py", line(20), "step");
    spool.Site(report::kWaitSite, "/job/train.py", line(30), "step");
    spool.Clock(999, 1001, 1'700'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    std::vector<tracer::TraceRecord> records;
    for (uint64_t i = 0; i < planted.steps; ++i) {
      const uint64_t at = kBegin + i * planted.step;
      records.push_back(Call(report::kMemcpyHook, at, at + 100, report::kCopySite, 4096));
      records.push_back(Call(report::kSynchronizeHook, at + 100, at + 150, report::kCopySite));
      records.push_back(Call(report::kLaunchHook, at + 300, at + 340, report::kLaunchSite));
      records.push_back(
          Call(report::kSynchronizeHook, at + planted.wait_from, at + planted.wait_to, report::kWaitSite));
      records.push_back(tracer::StepRecord(at, at + planted.step, i));
    }
    spool.Pass(kBegin);
    spool.Records(1, records);
    spool.End();
    return folder;
  }

  // A database of it, with what the device did.
  std::string Watched(const std::string& name, const Planted& planted) {
    std::string database = directory_ + "/" + name + ".sqlite";
    EXPECT_EQ(trace_db::BuildTraceDatabase({.run = Record(name, planted), .database = database}).problem,
              trace_db::BuildProblem::kNone);
    const int64_t begin = std::stoll(trace_db::One(database, "SELECT min(start) FROM SLIPSTREAM_STEPS"));
    const std::string process = trace_db::One(database, "SELECT globalPid FROM SLIPSTREAM_PROCESSES");
    std::string sql = std::string(report::kKernelsAndCopies) +
                      "INSERT INTO StringIds VALUES (900001, 'gemm'), (900002, 'add'), (900003, 'extra');";
    for (uint64_t i = 0; i < planted.steps; ++i) {
      const int64_t at = begin + static_cast<int64_t>(i * planted.step);
      const auto row = [&](const std::string& table, int64_t from, int64_t to, const std::string& more) {
        sql += "INSERT INTO CUPTI_ACTIVITY_KIND_" + table + " VALUES (" + std::to_string(at + from) + ", " +
               std::to_string(at + to) + ", 0, 7, 0, " + process + ", " + more + ");";
      };
      const auto kernel = [&](const std::string& number, int64_t from, int64_t to) {
        row("KERNEL", from, to, number + ", " + number + ", 1, 1, 1, 32, 1, 1, 32, 0, 0");
      };
      kernel("900001", 350, 350 + planted.gemm);
      kernel("900002", 350 + planted.gemm, 400 + planted.gemm);
      if (planted.extra) kernel("900003", 1250, 1300);
      row("MEMCPY", 50, 150, "4096, 1");
    }
    // Each kernel is of the launch before it.
    sql +=
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = (SELECT r.correlationId FROM "
        "CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds n ON n.id = r.nameId WHERE n.value LIKE 'cudaLaunchKernel%' AND "
        "r.start < CUPTI_ACTIVITY_KIND_KERNEL.start ORDER BY r.start DESC LIMIT 1)";
    report::Execute(database, sql);
    return database;
  }

  static nlohmann::json Find(const nlohmann::json& list, const std::string& key, const nlohmann::json& value) {
    for (const nlohmann::json& one : list) {
      if (one[key] == value) return one;
    }
    ADD_FAILURE() << "nothing has " << key << " " << value << " in " << list.dump(2);
    return nlohmann::json::object();
  }
};

// Before, of a step of 1000 ns: kernels 350, a copy alone 100, idle 550 (in a copy 50, in synchronizations 200, in a
// launch 40, outside 260). Afterwards, of 1400: kernels 500, a copy alone 100, idle 800 (50, 400, 40, 310).
TEST_F(CompareRunsTest, WhatWasPlanted) {
  const Finished finished = Compare({Watched("before", {}), Watched("after", kAfter), "--json", "--floor", "0"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["schema"], "slipstream-compare-runs-1");
  const auto& step = json["step_time"];
  EXPECT_EQ(step["first_ns"], 1000);
  EXPECT_EQ(step["second_ns"], 1400);
  EXPECT_EQ(step["difference_ns"], 400);
  EXPECT_NEAR(step["low_ns"], 400, 1e-6);
  EXPECT_NEAR(step["high_ns"], 400, 1e-6);
  EXPECT_EQ(step["confidence"], 0.99);
  EXPECT_EQ(step["different"], true);
  EXPECT_EQ(step["floor"], 0);
  EXPECT_EQ(step["first_blocks"], 10);
  EXPECT_GE(step["first_effective_blocks"], 3);
  EXPECT_TRUE(json["fail_if_slower"].is_null());

  EXPECT_EQ(json["parts_of"], "device");
  EXPECT_EQ(json["parts"].size(), 6U) << json["parts"].dump(2);
  double sum = 0;
  for (const auto& part : json["parts"]) sum += part["difference_ns"].get<double>();
  EXPECT_DOUBLE_EQ(sum, 400);
  EXPECT_EQ(Find(json["parts"], "part", "computes")["difference_ns"], 150);
  EXPECT_EQ(Find(json["parts"], "part", "idle_synchronizes")["difference_ns"], 200);
  EXPECT_EQ(Find(json["parts"], "part", "idle_outside_of_calls")["difference_ns"], 50);

  // Line 30 is line 31 now.
  const auto slower = Find(json["lines"], "line", 31);
  EXPECT_EQ(json["lines"][0], slower);
  EXPECT_EQ(slower["was_line"], 30);
  EXPECT_TRUE(slower["only_in"].is_null());
  EXPECT_EQ(slower["in_calls"]["difference_ns"], 200);
  EXPECT_EQ(slower["device_idle"]["difference_ns"], 200);
  EXPECT_EQ(Find(json["lines"], "line", 11)["in_calls"]["difference_ns"], 0);
  EXPECT_EQ(Find(json["lines"], "line", 21)["kernels"]["difference_ns"], 150);
  double idle = 0;
  for (const auto& line : json["lines"]) idle += line["device_idle"]["difference_ns"].get<double>();
  EXPECT_NEAR(idle, 250, 1e-6) << "all idle time is of some line, or of none";

  EXPECT_EQ(json["kernels"][0]["name"], "gemm");
  EXPECT_EQ(json["kernels"][0]["difference_ns"], 100);
  EXPECT_EQ(json["kernels"][1]["name"], "extra");
  EXPECT_EQ(json["kernels"][1]["only_in"], "second");
  EXPECT_EQ(json["kernels"][1]["second_ns"], 50);
  EXPECT_EQ(json["kernels"][2]["name"], "add");
  EXPECT_EQ(json["kernels"][2]["difference_ns"], 0);
  ASSERT_EQ(json["copies"].size(), 1U);
  EXPECT_EQ(json["copies"][0]["first_count"], 1);
  EXPECT_EQ(json["copies"][0]["second_bytes"], 4096);
  EXPECT_EQ(json["copies"][0]["difference_ns"], 0);
  EXPECT_TRUE(json["notes"].empty()) << json["notes"];
}

TEST_F(CompareRunsTest, ForPeople) {
  const Finished finished = Compare({Watched("before", {}), Watched("after", kAfter)});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.err, "");
  EXPECT_TRUE(
      finished.out.starts_with("SLOWER by 40.0 % (99 % interval 37.3 to 42.8 %, in which 2 % is what two runs of\n"
                               "  one program may differ by): a step 1.000 us -> 1.400 us, +0.400 us\n"))
      << finished.out;
  EXPECT_NE(finished.out.find("Most of it: GPU idle, host synchronizing, +0.200 us; of lines"), std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find("/job/train.py:31 (step) [was line 30]"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find(" [new] "), std::string::npos) << finished.out;
}

// In the exit status, and in the JSON; what is not shown is no failure.
TEST_F(CompareRunsTest, FailIfSlower) {
  const std::string before = Watched("before", {});
  const std::string after = Watched("after", kAfter);
  const struct {
    std::vector<std::string> words;
    int status;
    std::string verdict;
    std::string says;
  } cases[] = {
      {{before, after, "--fail-if-slower", "30%"}, kSlower, "slower", "SLOWER BY MORE THAN 30 %: "},
      {{before, after, "--fail-if-slower", "40"}, kSuccess, "cannot_be_told", "slower by more than 40 % cannot"},
      {{before, after, "--fail-if-slower", "50 %"}, kSuccess, "not_slower", "Not slower by more than 50 %: "},
      {{before, after, "--fail-if-slower", "39.9%", "--floor", "0"}, kSlower, "slower", "THAN 39.9 %: "},
      {{after, before, "--fail-if-slower", "0"}, kSuccess, "not_slower", "Not slower by more than 0 %: "}};
  for (const auto& [given, status, verdict, says] : cases) {
    std::vector<std::string> words = given;
    Finished finished = Compare(words);
    EXPECT_EQ(finished.status, status) << says << finished.err;
    EXPECT_NE(finished.out.find(says), std::string::npos) << finished.out;
    words.emplace_back("--json");
    finished = Compare(words);
    EXPECT_EQ(finished.status, status) << says;
    const auto json = nlohmann::json::parse(finished.out);
    EXPECT_EQ(json["exit_status"], status) << says;
    EXPECT_EQ(json["fail_if_slower"]["verdict"], verdict) << says;
  }
  // That nothing is claimed stays what it is.
  EXPECT_EQ(Compare({Record("few", {.steps = 8}), Record("more", kAfter), "--fail-if-slower", "3"}).status, kPartial);
}

TEST_F(CompareRunsTest, ARunWithItself) {
  const std::string run = Watched("run", {});
  const Finished finished = Compare({run, run, "--json"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["step_time"]["difference_ns"], 0);
  EXPECT_EQ(json["step_time"]["different"], false);
  EXPECT_FALSE(json["parts"].empty());
  for (const char* const list : {"parts", "kernels", "copies"}) {
    for (const auto& one : json[list]) EXPECT_EQ(one["difference_ns"], 0) << one;
  }
  EXPECT_FALSE(json["lines"].empty());
  for (const auto& line : json["lines"]) {
    for (const char* const measure : {"device_idle", "in_calls", "outside_before", "kernels"}) {
      EXPECT_EQ(line[measure]["difference_ns"], 0) << line;
    }
  }
  EXPECT_TRUE(json["notes"].empty()) << json["notes"];
}

// Of directories: nothing is known of devices then.
TEST_F(CompareRunsTest, DamageInsideAKeptDatabaseCostsTimeOnly) {
  const std::vector<std::string> runs = {Record("before", {}), Record("after", kAfter)};
  const Finished first = Compare(runs);
  EXPECT_EQ(first.err, "");
  trace_db::DamageTable(runs[1] + "/slipstream-cache.sqlite", "SLIPSTREAM_CALLS");
  const Finished again = Compare(runs);
  EXPECT_EQ(again.status, first.status);
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(again.out, first.out);
}

TEST_F(CompareRunsTest, PartsOfTheHost) {
  const Finished finished = Compare({Record("before", {}), Record("after", kAfter), "--json", "--rank", "0"});
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["parts_of"], "host");
  EXPECT_TRUE(json["kernels"].is_null());
  EXPECT_EQ(Find(json["parts"], "part", "synchronizes")["difference_ns"], 200);
  EXPECT_EQ(Find(json["parts"], "part", "outside_of_calls")["difference_ns"], 200);
  EXPECT_EQ(json["first"]["rank"], 0);
}

TEST_F(CompareRunsTest, TooFewSteps) {
  const Finished finished = Compare({Record("before", {.steps = 8}), Record("after", {}), "--json"});
  EXPECT_EQ(finished.status, kPartial) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["exit_status"], kPartial);
  EXPECT_EQ(json["step_time"]["first_ns"], 1000);
  EXPECT_TRUE(json["step_time"]["low_ns"].is_null());
}

TEST_F(CompareRunsTest, WhatIsNoRunIsSaidToBeNone) {
  const std::string run = Record("run", {});
  const std::string empty = directory_ + "/empty";
  std::filesystem::create_directory(empty);
  const struct {
    std::vector<std::string> words;
    int status;
    std::string says;
  } cases[] = {
      {{run, directory_ + "/nowhere"}, kFailed, "/nowhere: No such file"},
      {{directory_ + "/nowhere", run}, kFailed, "/nowhere: No such file"},
      {{run, empty}, kFailed, "/empty: no .spool file in it"},
      {{run, run, "--rank", "5"}, kFailed, run + ": no process of rank 5"},
      {{run}, kUsage, "one recorded run; two are compared"},
      {{run, run, run}, kUsage, "more than two recorded runs"},
      {{run, run, "-n", "3"}, kUsage, "--pairs is for runs of a command"},
      {{run, run, "--seed", "3"}, kUsage, "--seed is for runs of a command"},
      {{"--policy", "x.toml", run, run}, kUsage, "--policy is for runs of a command"},
      {{directory_ + "/nowhere", "/bin/true"}, kUsage, "/nowhere\" for? It is no recorded run"},
      {{run, run, "--", "true"}, kUsage, "for, beside a command?"},
      {{"--rank", "0", "--", "true"}, kUsage, "--rank is for two recorded runs"},
      {{"--floor", "1%", "--", "true"}, kUsage, "--floor is for two recorded runs"},
      {{run, run, "--floor", "one"}, kUsage, "--floor: \"one\" is no percentage"},
  };
  for (const auto& [words, status, says] : cases) {
    const Finished finished = Compare(words);
    EXPECT_EQ(finished.status, status) << says;
    EXPECT_EQ(finished.out, "") << says;
    EXPECT_TRUE(finished.err.starts_with("slipstream compare: ")) << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << finished.err;
  }
}

}  // namespace
}  // namespace slipstream::cli
