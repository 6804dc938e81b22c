// Traces as a user of `slipstream run` meets them: one line says what there is, where, and what is missing.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/support/plain_build.h"
#include "tools/text/json_bytes.h"
#include "tools/text/text.h"

namespace slipstream::test {
namespace {

// The one folder with traces in a place.
std::string TraceFolder(const std::string& place) {
  std::string found;
  for (const std::string& name : NamesIn(place)) {
    if (!name.starts_with("slipstream-trace-")) continue;
    EXPECT_EQ(found, "");
    found = place + "/" + name;
  }
  EXPECT_NE(found, "");
  return found;
}

// What the command said of the trace at the end.
std::string TraceLine(const std::string& text) {
  size_t start = text.rfind("slipstream: trace: ");
  if (start == std::string::npos) start = text.rfind("slipstream: no trace: ");
  if (start == std::string::npos) return "";
  return text.substr(start, text.find('\n', start) - start);
}

TEST(TraceRunTest, OneLineSaysWhatThereIsAndWhere) {
  const std::string place = NewDirectory();
  const Finished finished =
      RunIn(place, {"--record", "--summary", place + "/summary.json"}, {TRACED, "storm", "3", "300"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  const std::string folder = TraceFolder(place);
  const std::vector<std::string> paths = Spools(folder);
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_EQ(NamesIn(folder).size(), 1U) << "counters are of no use to anybody any more";
  const Trace trace = ReadTrace(paths[0]);
  EXPECT_EQ(trace.Calls().at("cudaPeekAtLastError"), 900U);
  EXPECT_EQ(TraceLine(finished.err), "slipstream: trace: " + text::WithThousands(trace.records.size()) +
                                         " records, none dropped, " +
                                         text::HumanBytes(std::filesystem::file_size(paths[0])) + " in " + folder);
  EXPECT_TRUE(finished.err.ends_with("\nslipstream: to read it: slipstream report " + folder + "\n")) << finished.err;
  const auto json = nlohmann::json::parse(ReadFile(place + "/summary.json"))["trace"];
  EXPECT_EQ(json["directory"], folder);
  EXPECT_EQ(json["files"], 1);
  EXPECT_EQ(json["records"], trace.records.size());
  EXPECT_EQ(json["dropped"], 0);
  EXPECT_EQ(json["bytes"], std::filesystem::file_size(paths[0]));
  EXPECT_TRUE(json["troubles"].empty());
}

// A file that is too large to be read through for one line.
TEST(TraceRunTest, TheLineOfALargeTraceSaysWhatItsRecordsSay) {
  const std::string place = NewDirectory();
  const Finished finished = RunIn(place, {"--record"}, {TRACED, "storm", "8", "50000"});
  const Trace trace = ReadOnlyTrace(TraceFolder(place));
  ASSERT_NE(trace.reader, nullptr);
  ASSERT_GT(trace.records.size(), 5000U);
  const uint64_t dropped = trace.end().dropped;
  EXPECT_TRUE(TraceLine(finished.err)
                  .starts_with("slipstream: trace: " + text::WithThousands(trace.records.size()) + " records, " +
                               (dropped == 0 ? "none" : text::WithThousands(dropped)) + " dropped, "))
      << TraceLine(finished.err) << " " << trace.records.size() << " " << dropped;
}

TEST(TraceRunTest, ThePolicyOrTheVariableOrTheFlag) {
  const std::string policy = NewDirectory() + "/policy.toml";
  WriteFile(policy, "version = 1\n[tracer]\nrecord = \"on\"\n");
  const std::string by_policy = NewDirectory();
  RunIn(by_policy, {"--policy", policy}, {TRACED, "calls", "5"});
  EXPECT_EQ(Spools(TraceFolder(by_policy)).size(), 1U);
  const std::string by_variable = NewDirectory();
  RunIn(by_variable, {}, {TRACED, "calls", "5"}, {{"SLIPSTREAM_TRACER_RECORD", "on"}});
  EXPECT_EQ(Spools(TraceFolder(by_variable)).size(), 1U);
  // The flag is the nearest to the user.
  const std::string by_flag = NewDirectory();
  RunIn(by_flag, {"--record"}, {TRACED, "calls", "5"}, {{"SLIPSTREAM_TRACER_RECORD", "off"}});
  EXPECT_EQ(Spools(TraceFolder(by_flag)).size(), 1U);
  const std::string nobody = NewDirectory();
  const Finished finished = RunIn(nobody, {}, {TRACED, "calls", "5"});
  EXPECT_TRUE(NamesIn(nobody).empty());
  EXPECT_EQ(finished.err.find("trace:"), std::string::npos) << finished.err;
}

TEST(TraceRunTest, QuietSaysNothingOfATraceThatIsWhole) {
  const std::string place = NewDirectory();
  const Finished finished = RunIn(place, {"--record", "--quiet"}, {TRACED, "calls", "5"});
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(Spools(TraceFolder(place)).size(), 1U);
}

TEST(TraceRunTest, WhatIsMissingIsSaidEvenSo) {
  const std::string place = NewDirectory();
  // Leaves by _exit after two calls, most likely before either was written; never after the end was.
  const Finished left = RunIn(place, {"--record", "--quiet"}, {PROGRAM, "exit_now", "7"});
  EXPECT_EQ(left.status, 7);
  EXPECT_NE(left.err.find("left by _exit or exec"), std::string::npos) << left.err;
  EXPECT_EQ(left.err.find('\n'), left.err.size() - 1);

  const Finished limited = RunIn(NewDirectory(), {"--record", "--quiet"}, {TRACED, "calls", "100000"},
                                 {{"SLIPSTREAM_TRACER_MAX_FILE", "70000"}});
  EXPECT_NE(TraceLine(limited.err).find("; cut short at tracer.max_file; "), std::string::npos) << limited.err;
  EXPECT_TRUE(TraceLine(limited.err).ends_with(" later calls are not in it")) << limited.err;

  const Finished full = RunIn(NewDirectory(), {"--record", "--quiet"}, {TRACED, "limited", "150000", "1", "200000"});
  EXPECT_NE(TraceLine(full.err).find("; cut short: File too large"), std::string::npos) << full.err;
}

// 1000 calls each before it is turned off, while it is, and behind that. The program writes a byte when it has made
// them.
TEST(TraceRunTest, ARunningProcessIsTurnedOffAndOn) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string record = std::string(SLIPSTREAM_COMMAND) + " record $pid ";
  const std::string calls = "printf x >&3; head -c 1 <&4 >/dev/null; ";
  const std::string script = "cd " + place + "; mkfifo in out; " + TRACED +
                             " steps <in >out & pid=$!; exec 3>in 4<out; " + calls + record + "off; " + calls + record +
                             "on; " + calls + "exec 3>&-; wait $pid";
  const Finished finished = RunIn(place, {"--record"}, {"sh", "-c", script});
  EXPECT_EQ(finished.status, 0) << finished.err;
  const size_t off = finished.out.find("): recording is off\n");
  const size_t on = finished.out.find("): recording is on\n");
  EXPECT_NE(on, std::string::npos) << finished.out << finished.err;
  EXPECT_LT(off, on) << finished.out << finished.err;
  const Trace trace = ReadOnlyTrace(TraceFolder(place));
  EXPECT_EQ(trace.end().dropped, 0U);
  EXPECT_EQ(trace.Calls().at("cudaPeekAtLastError"), 2000U);
  EXPECT_EQ(trace.Of(tracer::RecordKind::kSwitch).size(), 2U);
}

TEST(TraceRunTest, APausedProcessIsTurnedOn) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string calls = "printf x >&3; head -c 1 <&4 >/dev/null; ";
  const std::string script = "cd " + place + "; mkfifo in out; " + TRACED +
                             " steps <in >out & pid=$!; exec 3>in 4<out; " + calls + SLIPSTREAM_COMMAND +
                             " record $pid on; " + calls + "exec 3>&-; wait $pid";
  const Finished finished = RunIn(place, {}, {"sh", "-c", script}, {{"SLIPSTREAM_TRACER_RECORD", "paused"}});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(ReadOnlyTrace(TraceFolder(place)).Calls().at("cudaPeekAtLastError"), 1000U) << finished.out;
}

TEST(TraceRunTest, WhatCannotBeTurnedOnIsToldWhy) {
  const auto record = [](const std::string& pid, const std::string& what) {
    return RunProgram({SLIPSTREAM_COMMAND, "record", pid, what});
  };
  EXPECT_EQ(record("x", "on").status, 2);
  EXPECT_EQ(record("1", "maybe").status, 2);
  const Finished none = record("999999999", "on");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("process 999999999: there is none"), std::string::npos) << none.err;
  const Finished own = record(std::to_string(getpid()), "on");
  EXPECT_EQ(own.status, 1);
  EXPECT_NE(own.err.find("it was not started by `slipstream run`"), std::string::npos) << own.err;
}

TEST(TraceRunTest, NoTraceIsSaidToBeNone) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const Finished nothing = RunIn(place, {"--record"}, {"true"});
  EXPECT_EQ(TraceLine(nothing.err), "slipstream: no trace: no CUDA call was seen");
  EXPECT_TRUE(NamesIn(place).empty()) << "an empty folder is of no use to anybody";

  const Finished off = RunIn(place, {"--record"}, {TRACED, "calls", "5"}, {{"SLIPSTREAM_ENABLED", "false"}});
  EXPECT_EQ(off.err.rfind("slipstream: no trace: the policy says enabled = false\n", 0), 0U) << off.err;
  const Finished disabled = RunIn(place, {"--record"}, {TRACED, "calls", "5"}, {{"SLIPSTREAM_DISABLE", "1"}});
  EXPECT_EQ(disabled.err, "slipstream: no trace: SLIPSTREAM_DISABLE is set\n");
  EXPECT_TRUE(NamesIn(place).empty());

  const Finished gone =
      RunIn(place, {"--record"}, {"sh", "-c", std::string(TRACED) + " remove $SLIPSTREAM_RUN_DIRECTORY"});
  EXPECT_EQ(gone.status, 0);
  EXPECT_NE(gone.err.find("slipstream: no trace: "), std::string::npos) << gone.err;
}

TEST(TraceRunTest, ATraceThatNobodyKeepsIsSaidToBeLost) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const Finished finished = RunIn(place, {}, {"env", "SLIPSTREAM_TRACER_RECORD=on", TRACED, "calls", "5"});
  EXPECT_NE(finished.err.find("recorded a trace that is not kept"), std::string::npos) << finished.err;
  EXPECT_TRUE(NamesIn(place).empty());
}

// Names of directories are bytes. They come back from the JSON, the summary is found by them, and the command that is
// shown can be pasted.
TEST(TraceRunTest, ADirectoryMayHaveAnyName) {
  NEEDS_PLAIN_BUILD();
  const std::string home = NewDirectory();
  const Variables variables = {{"XDG_STATE_HOME", home}};
  const std::string mirrored = std::string("\xE2\x80") + '\xAE' + "mirrored";  // turns what is behind it, on a terminal
  for (const std::string& name :
       {std::string("caf\xE9"), std::string("new\nline"), std::string("tab\tand 'quotes\" and \\"), mirrored}) {
    const std::string place = NewDirectory() + "/" + name;
    std::filesystem::create_directory(place);
    const Finished finished =
        RunIn(place, {"--record", "--summary", place + "/summary.json"}, {TRACED, "calls", "5"}, variables);
    EXPECT_EQ(finished.status, 0) << finished.err;
    const std::string folder = TraceFolder(place);
    EXPECT_EQ(text::ParseBytes(ReadFile(place + "/summary.json"))["trace"]["directory"], folder);
    const std::string saved = RunProgram({SLIPSTREAM_COMMAND, "summary", folder}, variables).out;
    const std::string shown = "slipstream: to read it: slipstream ";
    ASSERT_NE(saved.find(shown), std::string::npos) << saved;
    EXPECT_TRUE(finished.err.ends_with(saved.substr(saved.find(shown)))) << finished.err;
    const std::string command = saved.substr(saved.find(shown) + shown.size());
    EXPECT_EQ(command.find('\n'), command.size() - 1) << command;
    const Finished pasted = RunProgram({"bash", "-c", std::string(SLIPSTREAM_COMMAND) + " " + command}, variables);
    EXPECT_EQ(pasted.status, 0) << pasted.err;
    EXPECT_NE(pasted.out.find("VERDICT: "), std::string::npos) << pasted.out;
  }
}

// A daemon that the command leaves behind.
TEST(TraceRunTest, AProcessThatOutlivesTheRunIsSaidToRunStill) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string ready = place + "/ready";
  const std::string ends = place + "/ends";
  ASSERT_EQ(mkfifo(ready.c_str(), 0600) + mkfifo(ends.c_str(), 0600), 0);
  const std::string daemon = std::string("setsid ") + TRACED + " stays " + ready + " " + ends;
  const std::string script = daemon + " </dev/null >/dev/null 2>&1 & cat " + ready;
  const Finished finished = RunIn(place, {"--record", "--summary", place + "/summary.json"}, {"sh", "-c", script});
  const auto json = nlohmann::json::parse(ReadFile(place + "/summary.json"));
  ASSERT_EQ(json["processes"].size(), 1U) << finished.err;
  const std::string pid = std::to_string(json["processes"][0]["pid"].get<int>());
  close(open(ends.c_str(), O_WRONLY));  // it may go
  EXPECT_TRUE(json["processes"][0]["still_running"].get<bool>());
  EXPECT_TRUE(TraceLine(finished.err).ends_with("; not at its end: the process runs still (pid " + pid + ")"))
      << finished.err;
  EXPECT_NE(finished.err.find("(pid " + pid + ") runs still: counted is what it has called until now\n"),
            std::string::npos)
      << finished.err;
  // One that has ended is not.
  const Finished ended = RunIn(place, {"--summary", place + "/summary.json"}, {TRACED, "calls", "5"});
  EXPECT_EQ(ended.err.find("runs still"), std::string::npos) << ended.err;
  EXPECT_FALSE(nlohmann::json::parse(ReadFile(place + "/summary.json"))["processes"][0]["still_running"].get<bool>());
}

TEST(TraceRunTest, SeveralProcessesHaveAFileEach) {
  NEEDS_PLAIN_BUILD();
  const std::string place = NewDirectory();
  const std::string both = std::string(TRACED) + " calls 10 & " + PROGRAM + " exit_now & wait";
  const Finished finished = RunIn(place, {"--record"}, {"sh", "-c", both});
  EXPECT_EQ(Spools(TraceFolder(place)).size(), 2U);
  EXPECT_NE(TraceLine(finished.err).find("(2 files); "), std::string::npos) << finished.err;
  EXPECT_TRUE(TraceLine(finished.err).ends_with("(1 of 2 files)")) << finished.err;
}

TEST(TraceRunTest, APlaceThatCannotBeWrittenIsNoReasonNotToRecord) {
  NEEDS_PLAIN_BUILD();
  const std::string temporary = NewDirectory();
  const Finished finished = RunIn("/proc", {"--record"}, {TRACED, "calls", "5"}, {{"TMPDIR", temporary}});
  EXPECT_EQ(finished.status, 0);
  EXPECT_NE(TraceLine(finished.err).find(" in " + TraceFolder(temporary)), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace slipstream::test
