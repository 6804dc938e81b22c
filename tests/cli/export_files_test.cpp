// `slipstream export` with several formats in one command.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/export_testing.h"
#include "tests/support/process.h"
#include "tracer/spool/block_record.h"

namespace slipstream::cli {
namespace {

using test::Finished;
using test::NamesIn;

class ExportFilesTest : public ExportTest {
 protected:
  void SetUp() override {
    ExportTest::SetUp();
    ASSERT_TRUE(std::filesystem::create_directory(To()));
  }
  std::string To(const std::string& name = "") const { return directory_ + "/to/" + name; }
  std::string Kept() const { return run_ + "/slipstream-cache.sqlite"; }

  // A process of three calls, one of which allocated a block; it did not end.
  void WithABlock(const std::string& name, int rank) const {
    trace_db::HandSpool spool(run_, name);
    spool.Facts({{"pid", std::to_string(100 + rank)}, {"host", "node"}, {"rank", std::to_string(rank)}});
    spool.Name(tracer::NameTable::kHooks, 0, "cudaMalloc");
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    spool.Thread(1, 100, "main");
    spool.Pass(5000);
    tracer::BlockRecord block;
    block.start_ns = 6000;
    block.end_ns = 6500;
    block.address = 0xa000;
    block.bytes = 512;
    block.device = 0;
    spool.Records(1, {trace_db::CallAt(6000, 6500), tracer::RecordOf(block), trace_db::CallAt(7000, 7500),
                      trace_db::CallAt(8000, 8500)});
    spool.Flush();
  }
  // All formats.
  ExportOptions All() const {
    ExportOptions options = Others();
    options.sqlite = To("t.sqlite");
    return options;
  }
  // All but the database.
  ExportOptions Others() const {
    ExportOptions options;
    options.run = run_;
    options.chrome = To("t.json.gz");
    options.perfetto = To("t.pftrace");
    options.allocations = To("t.alloc");
    return options;
  }
  static size_t Times(const std::string& text, const std::string& part) {
    size_t times = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
    return times;
  }
};

TEST_F(ExportFilesTest, AreThoseOfOneCommandEach) {
  WithABlock("0.spool", 0);
  const Finished finished = RunIt(All());
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(NamesIn(To()), (std::vector<std::string>{"t.alloc", "t.json.gz", "t.pftrace", "t.sqlite"}));
  // One reading: no other database was made.
  EXPECT_EQ(NamesIn(run_), std::vector<std::string>{"0.spool"});
  EXPECT_TRUE(finished.out.starts_with(To("t.sqlite") + ": ")) << finished.out;
  EXPECT_EQ(Times(finished.out, "iB, 3 calls of 1 process\n") + Times(finished.out, " B, 3 calls of 1 process\n"), 3U)
      << finished.out;
  EXPECT_NE(finished.out.find("B, 1 allocation\n"), std::string::npos) << finished.out;
  for (const char* name : {"t.json.gz", "t.pftrace", "t.alloc"}) {
    EXPECT_NE(finished.out.find("\n" + To(name) + ": "), std::string::npos) << name << "\n" << finished.out;
  }
  EXPECT_EQ(Times(finished.out, "0.spool: incomplete: "), 1U) << finished.out;

  std::vector<ExportOptions> singles(4);
  singles[0].sqlite = To("one.sqlite");
  singles[1].chrome = To("one.json.gz");
  singles[2].perfetto = To("one.pftrace");
  singles[3].allocations = To("one.alloc");
  for (ExportOptions& single : singles) {
    single.run = run_;
    const Finished one = RunIt(single);
    EXPECT_EQ(one.status, kSuccess) << one.err;
  }
  for (const char* end : {".json.gz", ".pftrace", ".alloc"}) {
    const std::string bytes = tracer::Slurp(To(std::string("t") + end));
    EXPECT_GT(bytes.size(), 50U) << end;
    EXPECT_TRUE(bytes == tracer::Slurp(To(std::string("one") + end))) << end;
  }
  const std::vector<std::string> tables = trace_db::TablesOf(To("t.sqlite"));
  EXPECT_GT(tables.size(), 10U);
  EXPECT_EQ(tables, trace_db::TablesOf(To("one.sqlite")));
  for (const std::string& table : tables) {
    const std::string all = "SELECT * FROM \"" + table + "\"";
    EXPECT_EQ(trace_db::Query(To("t.sqlite"), all), trace_db::Query(To("one.sqlite"), all)) << table;
  }

  // And of the database that stays with the run.
  ASSERT_TRUE(std::filesystem::exists(Kept()));
  ExportOptions kept = Others();
  kept.force = true;
  const Finished again = RunIt(kept);
  EXPECT_EQ(again.status, kSuccess) << again.err;
  for (const char* end : {".json.gz", ".pftrace", ".alloc"}) {
    EXPECT_TRUE(tracer::Slurp(To(std::string("t") + end)) == tracer::Slurp(To(std::string("one") + end))) << end;
  }
}

TEST_F(ExportFilesTest, DamageInsideTheKeptDatabaseCostsTimeOnly) {
  WithABlock("0.spool", 0);
  ExportOptions options = Others();
  options.force = true;
  const Finished first = RunIt(options);
  EXPECT_EQ(first.status, kSuccess) << first.err;
  for (const char* table : {"SLIPSTREAM_CALLS", "SLIPSTREAM_ALLOCATIONS"}) {
    SCOPED_TRACE(table);
    trace_db::DamageTable(Kept(), table);
    const std::string damaged = tracer::Slurp(Kept());
    const Finished again = RunIt(options);
    EXPECT_EQ(again.status, kSuccess);
    EXPECT_EQ(again.err, "");
    EXPECT_EQ(again.out, first.out);
    EXPECT_NE(tracer::Slurp(Kept()), damaged);
  }
}

TEST_F(ExportFilesTest, IfOneCannotBeMadeTheOthersAre) {
  WithABlock("0.spool", 0);
  ExportOptions no_trace = All();
  no_trace.perfetto = To("missing/t.pftrace");
  Finished finished = RunIt(no_trace);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.err, "slipstream export: " + To("missing/t.pftrace") +
                              ": cannot be made: No such file or directory\n"
                              "  Name a file in a directory that is there and can be written.\n");
  EXPECT_EQ(finished.out.find(To("missing")), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find(To("t.alloc") + ": "), std::string::npos) << finished.out;
  EXPECT_EQ(NamesIn(To()), (std::vector<std::string>{"t.alloc", "t.json.gz", "t.sqlite"}));

  // A database that nobody can write is none that the others could be made of.
  ExportOptions no_database = All();
  no_database.sqlite = To("missing/t.sqlite");
  no_database.force = true;
  no_database.json = true;
  finished = RunIt(no_database);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("missing/t.sqlite: cannot be made: No such file or directory\n"), std::string::npos)
      << finished.err;
  EXPECT_EQ(NamesIn(To()), (std::vector<std::string>{"t.alloc", "t.json.gz", "t.pftrace", "t.sqlite"}));
  const auto json = nlohmann::json::parse(finished.out);
  ASSERT_EQ(json["files"].size(), 4U);
  EXPECT_EQ(json["files"][0],
            nlohmann::json({{"format", "sqlite"}, {"path", To("missing/t.sqlite")}, {"made", false}}));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(json["files"][i]["made"], true) << i;
}

TEST_F(ExportFilesTest, WhatTheRunDoesNotHaveIsOneFormatsFailure) {
  Sample("0.spool", 3, 0);
  const Finished finished = RunIt(All());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(Times(finished.err, "no allocation in it"), 1U) << finished.err;
  EXPECT_EQ(NamesIn(To()), (std::vector<std::string>{"t.json.gz", "t.pftrace", "t.sqlite"}));
}

TEST_F(ExportFilesTest, NothingIsWrittenWhereAFileIsNamedTwice) {
  WithABlock("0.spool", 0);
  std::filesystem::create_directory_symlink(To(), directory_ + "/link");
  for (const std::string& other : {To("./x"), directory_ + "/to/../to/x", directory_ + "/link/x"}) {
    ExportOptions options;
    options.run = run_;
    options.force = true;
    options.perfetto = To("x");
    for (const bool database : {false, true}) {
      (database ? options.sqlite : options.chrome) = other;
      const Finished finished = RunIt(options);
      EXPECT_EQ(finished.status, kUsage);
      EXPECT_NE(finished.err.find("x: is named twice\n"), std::string::npos) << finished.err;
      EXPECT_EQ(finished.out, "");
      options.chrome.reset();
    }
  }
  EXPECT_EQ(NamesIn(To()), std::vector<std::string>{});
  EXPECT_EQ(NamesIn(run_), std::vector<std::string>{"0.spool"});
}

TEST_F(ExportFilesTest, NothingIsWrittenWhereAFileIsThereOrIsToBeRead) {
  WithABlock("0.spool", 0);
  tracer::Spit(To("t.pftrace"), "x");
  Finished finished = RunIt(All());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(finished.err, "slipstream export: " + To("t.pftrace") + ": exists; --force replaces it\n");
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(NamesIn(To()), std::vector<std::string>{"t.pftrace"});
  EXPECT_EQ(tracer::Slurp(To("t.pftrace")), "x");

  ExportOptions onto_spool = All();
  onto_spool.force = true;
  onto_spool.sqlite = run_ + "/0.spool";
  const std::string spool = tracer::Slurp(run_ + "/0.spool");
  finished = RunIt(onto_spool);
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_NE(finished.err.find("0.spool: is what is to be read"), std::string::npos) << finished.err;
  EXPECT_TRUE(tracer::Slurp(run_ + "/0.spool") == spool);
  EXPECT_EQ(NamesIn(To()), std::vector<std::string>{"t.pftrace"});

  ExportOptions forced = All();
  forced.force = true;
  EXPECT_EQ(RunIt(forced).status, kSuccess);
  EXPECT_EQ(NamesIn(To()), (std::vector<std::string>{"t.alloc", "t.json.gz", "t.pftrace", "t.sqlite"}));
  EXPECT_NE(tracer::Slurp(To("t.pftrace")), "x");
}

TEST_F(ExportFilesTest, NothingIsWrittenWhereTheRankIsWrong) {
  WithABlock("0.spool", 0);
  WithABlock("1.spool", 1);
  for (ExportOptions options : {All(), Others()}) {
    Finished finished = RunIt(options);
    EXPECT_EQ(finished.status, kFailed);
    EXPECT_EQ(finished.err, "slipstream export: " + run_ +
                                ": several processes in it allocated memory, and the format has room for one\n"
                                "  Name one with --rank. There is: 0, 1.\n");
    options.rank = 2;
    finished = RunIt(options);
    EXPECT_EQ(finished.status, kFailed);
    EXPECT_EQ(finished.err, "slipstream export: " + run_ + ": no process of rank 2\n  There is: 0, 1.\n");
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(NamesIn(To()), std::vector<std::string>{});
  }
  ExportOptions of_one = All();
  of_one.rank = 1;
  of_one.json = true;
  const Finished finished = RunIt(of_one);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  // Of both in the database alone.
  EXPECT_EQ(trace_db::One(To("t.sqlite"), "SELECT count(*) FROM SLIPSTREAM_CALLS"), "6");
  const auto json = nlohmann::json::parse(finished.out);
  for (const auto& file : json["files"]) {
    EXPECT_EQ(file["processes"].size(), file["format"] == "sqlite" ? 2U : 1U) << file;
    EXPECT_EQ(file["processes"].back()["pid"], 101) << file;
  }
}

TEST_F(ExportFilesTest, OfADatabase) {
  WithABlock("0.spool", 0);
  ASSERT_EQ(RunIt(Options()).status, kSuccess);
  ExportOptions options = All();
  options.run = database_;
  const Finished refused = RunIt(options);
  EXPECT_EQ(refused.status, kUsage);
  EXPECT_NE(refused.err.find(database_ + ": is a database already\n"), std::string::npos) << refused.err;
  EXPECT_EQ(NamesIn(To()), std::vector<std::string>{});
  options.sqlite.reset();
  const Finished finished = RunIt(options);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(NamesIn(To()), (std::vector<std::string>{"t.alloc", "t.json.gz", "t.pftrace"}));
}

TEST_F(ExportFilesTest, WithoutARunThereIsOneComplaint) {
  const Finished finished = RunIt(All());
  EXPECT_EQ(finished.status, kFailed);
  EXPECT_EQ(Times(finished.err, "slipstream export: "), 1U) << finished.err;
  EXPECT_NE(finished.err.find("no .spool file in it\n"), std::string::npos) << finished.err;
  EXPECT_EQ(NamesIn(To()), std::vector<std::string>{});
}

TEST_F(ExportFilesTest, ForScripts) {
  WithABlock("0.spool", 0);
  tracer::Spit(run_ + "/1.spool", "");
  ExportOptions options = All();
  options.json = true;
  const Finished finished = RunIt(options);
  EXPECT_EQ(finished.status, kPartial) << finished.err;
  const auto json = nlohmann::json::parse(finished.out);
  EXPECT_EQ(json["schema"], "slipstream-export-1");
  EXPECT_EQ(json["partial"], true);
  EXPECT_FALSE(json.contains("format"));
  const std::vector<std::pair<std::string, std::string>> expected = {{"sqlite", To("t.sqlite")},
                                                                     {"chrome", To("t.json.gz")},
                                                                     {"perfetto", To("t.pftrace")},
                                                                     {"allocations", To("t.alloc")}};
  ASSERT_EQ(json["files"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& file = json["files"][i];
    EXPECT_EQ(file["format"], expected[i].first);
    EXPECT_EQ(file["path"], expected[i].second);
    EXPECT_EQ(file["made"], true);
    EXPECT_EQ(file["bytes"], std::filesystem::file_size(expected[i].second));
    EXPECT_EQ(file["partial"], true);
    EXPECT_EQ(file["processes"].size(), 1U);
    ASSERT_EQ(file["unreadable"].size(), 1U);
    EXPECT_EQ(file["unreadable"][0]["spool"], "1.spool");
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(json["files"][i]["calls"], 3) << i;
  EXPECT_EQ(json["files"][3]["allocations"], 1);
}

// What scripts read of one format is where it was.
TEST_F(ExportFilesTest, OneFormatHasItsKeysOutsideToo) {
  WithABlock("0.spool", 0);
  ExportOptions options;
  options.run = run_;
  options.json = true;
  options.chrome = To("t.json.gz");
  const Finished finished = RunIt(options);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  auto json = nlohmann::json::parse(finished.out);
  ASSERT_EQ(json["files"].size(), 1U);
  auto file = json["files"][0];
  EXPECT_EQ(json["file"], To("t.json.gz"));
  EXPECT_EQ(file["path"], json["file"]);
  EXPECT_EQ(file["made"], true);
  for (const char* key : {"schema", "file", "files"}) EXPECT_EQ(json.erase(key), 1U) << key;
  for (const char* key : {"path", "made"}) EXPECT_EQ(file.erase(key), 1U) << key;
  EXPECT_EQ(json, file);
}

TEST_F(ExportFilesTest, OnTheCommandLine) {
  WithABlock("0.spool", 0);
  const std::vector<std::string> words = {
      "export",        run_,         "--sqlite",      To("t.sqlite"),  "--chrome",
      To("t.json.gz"), "--perfetto", To("t.pftrace"), "--allocations", To("t.alloc")};
  const Finished finished = RunCommand(words);
  EXPECT_EQ(finished.status, kSuccess) << finished.err;
  EXPECT_EQ(NamesIn(To()), (std::vector<std::string>{"t.alloc", "t.json.gz", "t.pftrace", "t.sqlite"}));
  EXPECT_EQ(RunCommand(words).status, kFailed);
}

}  // namespace
}  // namespace slipstream::cli
