// What a run leaves for its site, and a directory in which others have left whatever they liked.

#include "tools/site/records.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/site/site_testing.h"
#include "tests/support/process.h"
#include "tools/site/record_file.h"
#include "tools/text/json_bytes.h"

namespace slipstream::site {
namespace {

using test::Folder;
using test::NamesIn;
using test::ReadFile;
using test::WriteFile;

std::vector<RunRecord> ReadAll(const std::string& directory, Skipped* skipped, int64_t since = 0) {
  std::vector<RunRecord> all;
  std::string error;
  EXPECT_TRUE(ReadRecords(
      directory, since, [&all](const RunRecord& record) { all.push_back(record); }, skipped, &error))
      << error;
  return all;
}

std::string Written(const RunRecord& record) { return RecordJson(record, kSummaryText); }

TEST(RecordTest, WhatIsWrittenIsRead) {
  RunRecord record = SampleRecord();
  record.program = "py\xff\n\033[2J";
  record.exit_status = 139;
  record.stood_aside = {{"transfer", "CUDA_LAUNCH_BLOCKING is set", 2}};
  record.failed_open = {{"allocator", "real frees: none", 7}};
  RunRecord read;
  ASSERT_EQ(ParseRecord(Written(record), &read), RecordIs::kGood) << Written(record);
  EXPECT_EQ(read.host, "node1");
  EXPECT_EQ(read.user, "ada");
  EXPECT_EQ(read.program, record.program);
  EXPECT_EQ(read.version, "0.1.0");
  EXPECT_EQ(read.pid, 4711);
  EXPECT_EQ(read.start_unix_ns, record.start_unix_ns);
  EXPECT_EQ(read.duration_s, 3600);
  EXPECT_EQ(read.exit_status, 139);
  EXPECT_EQ(SignalOf(read), 11);
  EXPECT_EQ(read.processes, 2U);
  EXPECT_EQ(read.estimated_gain_ns, 1'500'000U);
  EXPECT_TRUE(read.gain_unknown);
  ASSERT_EQ(read.stood_aside.size(), 1U);
  EXPECT_EQ(read.stood_aside[0].reason, "CUDA_LAUNCH_BLOCKING is set");
  EXPECT_EQ(read.stood_aside[0].processes, 2U);
  ASSERT_EQ(read.failed_open.size(), 1U);
  EXPECT_EQ(read.failed_open[0].engine, "allocator");
  EXPECT_EQ(read.failed_open[0].calls, 7U);
}

TEST(RecordTest, TheFileHasWhatOthersReadToo) {
  const nlohmann::json json = text::ParseBytes(Written(SampleRecord()));
  EXPECT_EQ(json["schema"], "slipstream-run-1");
  EXPECT_EQ(json["start"], "2027-01-15T08:00:00Z");
  EXPECT_EQ(json["signal"], nullptr);
  EXPECT_EQ(json["summary"]["schema"], "slipstream-summary-1");
  RunRecord unseen = SampleRecord();
  unseen.exit_status.reset();
  unseen.duration_s.reset();
  const nlohmann::json killed = text::ParseBytes(RecordJson(unseen, ""));
  EXPECT_EQ(killed["exit_status"], nullptr);
  EXPECT_EQ(killed["duration_s"], nullptr);
  EXPECT_EQ(killed["summary"], nullptr);
  RunRecord read;
  ASSERT_EQ(ParseRecord(killed.dump(), &read), RecordIs::kGood);
  EXPECT_FALSE(read.exit_status);
  EXPECT_FALSE(read.duration_s);
}

TEST(RecordTest, FieldsOfTheSummaryInItAreNoneOfTheRecords) {
  const std::string summary =
      R"({"user": "eve", "start_unix_ns": 1, "gained": {"estimated_ns": 9}, "stood_aside": [{"engine": "x"}]})";
  RunRecord read;
  ASSERT_EQ(ParseRecord(RecordJson(SampleRecord(), summary + "\n"), &read), RecordIs::kGood);
  EXPECT_EQ(read.user, "ada");
  EXPECT_EQ(read.estimated_gain_ns, 1'500'000U);
  EXPECT_TRUE(read.stood_aside.empty());
}

TEST(RecordTest, WhatIsNoRecordIsToldApart) {
  RunRecord read;
  const std::string good = Written(SampleRecord());
  for (size_t length = 0; length + 2 < good.size(); ++length) {
    EXPECT_EQ(ParseRecord(good.substr(0, length), &read), RecordIs::kDamaged) << length;
  }
  for (const char* const foreign :
       {"{}", "[]", "3", "# notes", "{\"schema\": \"other-1\"}", "{\"schema\": \"slipstream-run-x\"}"}) {
    EXPECT_EQ(ParseRecord(foreign, &read), RecordIs::kForeign) << foreign;
  }
  EXPECT_EQ(ParseRecord("{\"schema\": \"slipstream-run-2\", \"user\": 3}", &read), RecordIs::kNewer);
  const auto with = [&good](const char* key, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(good);
    json[key] = value;
    return json.dump();
  };
  EXPECT_EQ(ParseRecord(with("user", "bob"), &read), RecordIs::kGood);
  for (const auto& [key, value] : std::vector<std::pair<const char*, nlohmann::json>>{{"user", ""},
                                                                                      {"program", nullptr},
                                                                                      {"start_unix_ns", -5},
                                                                                      {"start_unix_ns", ~uint64_t{0}},
                                                                                      {"duration_s", -1.5},
                                                                                      {"duration_s", -1},
                                                                                      {"duration_s", 1e300},
                                                                                      {"exit_status", 256},
                                                                                      {"exit_status", -1},
                                                                                      {"processes", ~uint64_t{0}}}) {
    EXPECT_EQ(ParseRecord(with(key, value), &read), RecordIs::kDamaged) << key << " " << value;
  }
  EXPECT_EQ(ParseRecord(with("gained", {{"estimated_ns", ~uint64_t{0}}}), &read), RecordIs::kDamaged);
}

TEST(RecordTest, DeepAndLongThingsAreBounded) {
  RunRecord read;
  const std::string deep(2'000'000, '[');
  EXPECT_EQ(ParseRecord("{\"x\": " + deep, &read), RecordIs::kDamaged);
  EXPECT_EQ(ParseRecord("{\"schema\": \"slipstream-run-1\", \"x\": " + deep, &read), RecordIs::kDamaged);
  RunRecord record = SampleRecord();
  record.user = std::string(100'000, 'u');
  record.stood_aside.resize(10'000, {"transfer", "why", 1});
  ASSERT_EQ(ParseRecord(Written(record), &read), RecordIs::kGood);
  EXPECT_EQ(read.user.size(), 512U);
  EXPECT_EQ(read.stood_aside.size(), 16U);
}

TEST(RecordFileTest, ItsModeIsTheOneThatIsAskedForWhateverTheUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{022}, mode_t{0777}}) {
    for (const bool for_group : {false, true}) {
      const Folder folder;
      const mode_t before = umask(mask);
      const std::string error = WriteRecordFile(folder.path(), for_group, SampleRecord(), "text");
      umask(before);
      EXPECT_EQ(error, "");
      const std::vector<std::string> names = NamesIn(folder.path());
      ASSERT_EQ(names.size(), 1U);
      EXPECT_TRUE(names[0].starts_with("01800000000000000000-node1-4711-")) << names[0];
      EXPECT_TRUE(names[0].ends_with(".json")) << names[0];
      EXPECT_EQ(test::ModeOf(folder / names[0]), for_group ? 0640U : 0600U) << mask;
      EXPECT_EQ(ReadFile(folder / names[0]), "text");
    }
  }
}

TEST(RecordFileTest, EachRunHasAFileOfItsOwn) {
  const Folder folder;
  RunRecord record = SampleRecord();
  record.host = "../a b/\n";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(WriteRecordFile(folder.path(), false, record, "text"), "");
  const std::vector<std::string> names = NamesIn(folder.path());
  ASSERT_EQ(names.size(), 3U);
  EXPECT_NE(names[0].find("-..-a-b---4711-"), std::string::npos) << names[0];
}

TEST(RecordFileTest, WhereItCannotBeWrittenNothingIsLeft) {
  const Folder folder;
  EXPECT_EQ(WriteRecordFile(folder / "missing", false, SampleRecord(), "text"), "No such file or directory");
  WriteFile(folder / "file", "");
  EXPECT_EQ(WriteRecordFile(folder / "file", false, SampleRecord(), "text"), "Not a directory");
  mkdir((folder / "full").c_str(), 0700);
  const test::Finished limited = test::InChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit little = {.rlim_cur = 10, .rlim_max = 10};
    setrlimit(RLIMIT_FSIZE, &little);
    return WriteRecordFile(folder / "full", false, SampleRecord(), std::string(100, 'x')) == "File too large" ? 0 : 1;
  });
  EXPECT_EQ(limited.status, 0);
  EXPECT_EQ(NamesIn(folder / "full"), std::vector<std::string>{});
}

TEST(RecordsTest, WhatIsNoRecordIsSkippedAndCounted) {
  const Folder folder;
  ASSERT_EQ(WriteRecordFile(folder.path(), false, SampleRecord("ada"), Written(SampleRecord("ada"))), "");
  ASSERT_EQ(WriteRecordFile(folder.path(), true, SampleRecord("bob"), Written(SampleRecord("bob"))), "");
  const std::string good = Written(SampleRecord("eve"));
  WriteFile(folder / "notes.txt", "{}");
  WriteFile(folder / "cut.json", good.substr(0, 200));
  WriteFile(folder / "empty.json", "");
  WriteFile(folder / "newer.json", "{\"schema\": \"slipstream-run-99\"}");
  WriteFile(folder / "huge.json", std::string(kMostRecordBytes + 1, ' '));
  WriteFile(folder / ".slipstream-AAAAAA", good.substr(0, 100));  // is being written
  WriteFile(folder.path() + ".elsewhere", good);
  ASSERT_EQ(symlink((folder.path() + ".elsewhere").c_str(), (folder / "link.json").c_str()), 0);
  ASSERT_EQ(mkfifo((folder / "pipe.json").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((folder / "folder.json").c_str(), 0700), 0);
  Skipped skipped;
  const std::vector<RunRecord> all = ReadAll(folder.path(), &skipped);
  unlink((folder.path() + ".elsewhere").c_str());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_NE(all[0].user, all[1].user);
  EXPECT_NE(all[0].user, "eve");
  EXPECT_NE(all[1].user, "eve");
  EXPECT_EQ(skipped.foreign, 1U);
  EXPECT_EQ(skipped.damaged, 2U);
  EXPECT_EQ(skipped.newer, 1U);
  EXPECT_EQ(skipped.large, 1U);
  EXPECT_EQ(skipped.irregular, 3U);
  EXPECT_EQ(skipped.unreadable, 0U);
  EXPECT_EQ(skipped.all(), 8U);
}

TEST(RecordsTest, RunsThatEndedBeforeAreLeftOut) {
  const Folder folder;
  const RunRecord record = SampleRecord();  // an hour long
  ASSERT_EQ(WriteRecordFile(folder.path(), false, record, Written(record)), "");
  const std::string path = folder / NamesIn(folder.path())[0];
  const int64_t end = record.start_unix_ns + int64_t{3600} * 1'000'000'000;
  // As late as such a file is written.
  const timespec times[2] = {{.tv_sec = end / 1'000'000'000, .tv_nsec = 0},
                             {.tv_sec = end / 1'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  Skipped skipped;
  EXPECT_EQ(ReadAll(folder.path(), &skipped, end).size(), 1U);
  EXPECT_EQ(ReadAll(folder.path(), &skipped, end + 1).size(), 0U);
  EXPECT_EQ(ReadAll(folder.path(), &skipped, end + int64_t{90'000} * 1'000'000'000).size(), 0U);
  EXPECT_EQ(skipped.all(), 0U);
}

TEST(RecordsTest, ADirectoryThatIsNotThereIsAnError) {
  Skipped skipped;
  std::string error;
  EXPECT_FALSE(ReadRecords(
      "/nonexistent", 0, [](const RunRecord&) {}, &skipped, &error));
  EXPECT_EQ(error, "No such file or directory");
}

}  // namespace
}  // namespace slipstream::site
