// Native stacks of real processes, from the call to the names in the database.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::test {
namespace {

using trace_db::Rows;
using tracer::TraceRecord;

struct Recorded {
  Finished finished;
  std::string directory;
  std::string database;

  Rows Query(const std::string& sql) const { return trace_db::Query(database, sql); }
  std::string One(const std::string& sql) const { return trace_db::One(database, sql); }
  std::string Fact(const std::string& key) const {
    const Rows rows = Query("SELECT value FROM SLIPSTREAM_FACTS WHERE key = '" + key + "'");
    return rows.empty() ? "" : rows[0][0];
  }
  // Of each call in order: its native frames, innermost first, with " < " between them.
  std::vector<std::string> Stacks() const {
    std::vector<std::string> stacks;
    std::string last;
    for (const auto& row :
         Query("WITH RECURSIVE frames(call, level, stackId) AS (SELECT correlationId, 0, nativeStackId FROM "
               "SLIPSTREAM_CALLS WHERE nativeStackId IS NOT NULL UNION ALL SELECT f.call, f.level + 1, s.parentId FROM "
               "frames f JOIN SLIPSTREAM_STACKS s USING (stackId) WHERE s.parentId IS NOT NULL) SELECT call, name FROM "
               "frames JOIN SLIPSTREAM_STACKS USING (stackId) JOIN SLIPSTREAM_ADDRESSES USING (addressId) ORDER BY "
               "call, level")) {
      if (stacks.empty() || row[0] != last) {
        stacks.push_back(row[1]);
      } else {
        stacks.back() += " < " + row[1];
      }
      last = row[0];
    }
    return stacks;
  }
};

void Export(Recorded* recorded) {
  recorded->database = NewDirectory() + "/trace.sqlite";
  const trace_db::BuildResult built =
      trace_db::BuildTraceDatabase({.run = recorded->directory, .database = recorded->database});
  EXPECT_EQ(built.problem, trace_db::BuildProblem::kNone) << built.what;
  EXPECT_FALSE(built.partial());
}

Recorded Record(std::vector<std::string> words, const std::string& program = NATIVE_CALLS) {
  Recorded recorded = {.finished = {}, .directory = NewDirectory(), .database = ""};
  words.insert(words.begin(), program);
  recorded.finished = RunTraced(words, recorded.directory, {{"SLIPSTREAM_TRACER_STACKS", "full"}});
  EXPECT_EQ(recorded.finished.status, 0) << recorded.finished.out << recorded.finished.err;
  Export(&recorded);
  return recorded;
}

constexpr char kChain[] = "chain::Inner(int) < int chain::Middle<long>(long) < chain::Outer(int)";

// Behind `begin`, up to `end` frames of the C library: how many depends on its version.
testing::AssertionResult IsStack(const std::string& stack, const std::string& begin, const std::string& end) {
  if (!stack.starts_with(begin) || !stack.ends_with(end)) {
    return testing::AssertionFailure() << stack << "\nis not " << begin << " ... " << end;
  }
  return testing::AssertionSuccess();
}

TEST(NativeStacksTest, OfTheMainThreadAndOfOthersFunctionByFunction) {
  const Recorded recorded = Record({"chain"});
  EXPECT_EQ(recorded.finished.out, "0\n");
  EXPECT_EQ(recorded.finished.err, "");
  const std::vector<std::string> stacks = recorded.Stacks();
  ASSERT_EQ(stacks.size(), 2U);
  EXPECT_TRUE(IsStack(stacks[0], std::string(kChain) + " < chain::Thread(void*) < ", ""));
  EXPECT_EQ(stacks[0].find("main"), std::string::npos);
  EXPECT_TRUE(IsStack(stacks[1], std::string(kChain) + " < main < ", "_start"));
  EXPECT_EQ(recorded.One("SELECT count(*) FROM SLIPSTREAM_STACKS WHERE isCut"), "0");
  // The place of a call is the innermost function of the program's, where there is no Python.
  EXPECT_EQ(
      recorded.Query("SELECT DISTINCT file, line, function FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_SITES USING (siteId)"),
      (Rows{{std::filesystem::canonical(NATIVE_CALLS).string(), "NULL", "chain::Inner(int)"}}));
  EXPECT_EQ(recorded.One("SELECT count(*) FROM SLIPSTREAM_CALLS WHERE stackId IS NOT NULL"), "0");
}

TEST(NativeStacksTest, OnlyWhereTheyWereAskedFor) {
  for (const char* stacks : {"none", "line", "python"}) {
    const std::string directory = NewDirectory();
    EXPECT_EQ(RunTraced({NATIVE_CALLS, "chain"}, directory, {{"SLIPSTREAM_TRACER_STACKS", stacks}}).status, 0);
    for (const TraceRecord& record : ReadOnlyTrace(directory).Of(tracer::RecordKind::kCall)) {
      EXPECT_EQ(record.stack, 0U);
    }
  }
}

TEST(NativeStacksTest, ADeepOneIsCutAndSaysSo) {
  const Recorded recorded = Record({"deep", "300"});
  const std::vector<std::string> stacks = recorded.Stacks();
  ASSERT_EQ(stacks.size(), 1U);
  EXPECT_TRUE(IsStack(stacks[0], std::string(kChain) + " < chain::Recursion(int) < ", " < chain::Recursion(int)"));
  EXPECT_EQ(recorded.One("SELECT max(depth) FROM SLIPSTREAM_STACKS"), "127");
  EXPECT_EQ(recorded.One("SELECT depth FROM SLIPSTREAM_STACKS WHERE isCut"), "0");
}

TEST(NativeStacksTest, OfManyThreadsAtOnce) {
  const Recorded recorded = Record({"storm", "8", "400"});
  const std::vector<std::string> stacks = recorded.Stacks();
  EXPECT_EQ(stacks.size(), 8U * 400 + 1);
  for (const std::string& stack : stacks)
    EXPECT_TRUE(IsStack(stack, std::string(kChain) + " < chain::Recursion(int) < ", ""));
  EXPECT_EQ(recorded.Fact("stacks.refused"), "");
  EXPECT_EQ(recorded.Fact("native_frames.refused"), "");
  // Four depths, and the one of the main thread.
  EXPECT_EQ(recorded.One("SELECT count(DISTINCT nativeStackId) FROM SLIPSTREAM_CALLS"), "5");
}

TEST(NativeStacksTest, AChildThatWasForkedGoesOnWithoutThem) {
  const Recorded recorded = Record({"fork"});
  EXPECT_EQ(recorded.finished.out, "5\n");
  const std::vector<std::string> stacks = recorded.Stacks();
  ASSERT_EQ(stacks.size(), 2U);
  for (const std::string& stack : stacks) EXPECT_TRUE(IsStack(stack, kChain, "_start"));
}

// A launch that no hook sees, because its library has a runtime of its own: from CUPTI's callback on, and not a frame
// of slipstream's.
TEST(NativeStacksTest, OfFunctionsOfTheDriver) {
  Recorded recorded = {.finished = {}, .directory = NewDirectory(), .database = ""};
  recorded.finished = RunTraced({DEVICE_WORK, "3", "1"}, recorded.directory,
                                {{"SLIPSTREAM_TRACER_STACKS", "full"}, {"SLIPSTREAM_TRACER_DEVICE", "cupti"}});
  EXPECT_EQ(recorded.finished.status, 0) << recorded.finished.err;
  Export(&recorded);
  const std::string driver_calls =
      " FROM SLIPSTREAM_CALLS JOIN CUPTI_ACTIVITY_KIND_RUNTIME USING (correlationId) WHERE eventClass = 1";
  EXPECT_NE(recorded.One("SELECT count(*)" + driver_calls), "0");
  EXPECT_EQ(recorded.One("SELECT count(*)" + driver_calls + " AND nativeStackId IS NULL"), "0");
  EXPECT_EQ(recorded.One("SELECT count(*) FROM SLIPSTREAM_MODULES WHERE path LIKE '%libslipstream%'"), "0");
  const std::vector<std::string> stacks = recorded.Stacks();
  EXPECT_EQ(std::count_if(
                stacks.begin(), stacks.end(),
                [](const std::string& stack) { return stack.find(" < StaticLibraryLaunch < ") != std::string::npos; }),
            3);
}

// What interrupted what cannot be told: a stack ends at the handler.
TEST(NativeStacksTest, OfTheHandlerOfASignal) {
  const Recorded recorded = Record({"handler"});
  const std::vector<std::string> stacks = recorded.Stacks();
  ASSERT_EQ(stacks.size(), 2U);
  EXPECT_TRUE(IsStack(stacks[1], std::string(kChain) + " < chain::Handler(int) < ", ""));
#if !defined(__SANITIZE_THREAD__)  // which calls handlers when it likes
  EXPECT_EQ(recorded.One("SELECT count(*) FROM SLIPSTREAM_STACKS WHERE isCut"), "1");
#endif
}

TEST(NativeStacksTest, OfAThreadThatIsTakenDown) {
  const Recorded recorded = Record({"end"});
  const std::vector<std::string> stacks = recorded.Stacks();
  ASSERT_EQ(stacks.size(), 1U);
  EXPECT_TRUE(IsStack(stacks[0], std::string(kChain) + " < chain::AtTheEnd(void*) < ", ""));
}

TEST(NativeStacksTest, OfALibraryThatIsLoadedAndGoes) {
  const Recorded recorded = Record({"plugin", NATIVE_PLUGIN});
  const std::vector<std::string> stacks = recorded.Stacks();
  ASSERT_EQ(stacks.size(), 4U);
  for (const size_t i : {0, 2}) EXPECT_TRUE(IsStack(stacks[i], "plugin::AtLoading() < plugin::Begin() < ", "_start"));
  for (const size_t i : {1, 3}) EXPECT_TRUE(IsStack(stacks[i], "PluginCall < ", " < _start"));
}

// A name is of the file that was mapped, or it is none.
TEST(NativeStacksTest, AFileThatIsGoneOrAnotherHasNoNames) {
  const std::string program = NewDirectory() + "/program";
  const auto stacks_after = [&](auto change) {
    std::filesystem::copy_file(NATIVE_CALLS, program, std::filesystem::copy_options::overwrite_existing);
    Recorded recorded = {.finished = {}, .directory = NewDirectory(), .database = ""};
    recorded.finished = RunTraced({program, "chain"}, recorded.directory, {{"SLIPSTREAM_TRACER_STACKS", "full"}});
    EXPECT_EQ(recorded.finished.status, 0);
    change();
    Export(&recorded);
    EXPECT_EQ(recorded.One("SELECT count(*) FROM SLIPSTREAM_MODULES WHERE isRead AND path = '" + program + "'"), "0");
    return recorded.Stacks();
  };
  const std::vector<std::string> gone = stacks_after([&] { std::filesystem::remove(program); });
  const std::vector<std::string> other = stacks_after([&] {
    std::filesystem::remove(program);
    std::filesystem::copy_file(NATIVE_PLUGIN, program);
  });
  const std::vector<std::string> broken = stacks_after([&] { WriteFile(program, "\177ELF that is none"); });
  for (const auto& stacks : {gone, other, broken}) {
    ASSERT_EQ(stacks.size(), 2U);
    EXPECT_TRUE(IsStack(stacks[1], "program+0x", ""));
    EXPECT_EQ(stacks[1].find("chain"), std::string::npos);
  }
}

}  // namespace
}  // namespace slipstream::test
