// Findings at several widths: no line is longer, nothing is lost, and what there is not is said.

#include "tools/trace/advise/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/advise/replay_testing.h"
#include "tests/advise/units_testing.h"
#include "tests/support/process.h"
#include "tools/text/columns.h"
#include "tools/text/text.h"
#include "tools/trace/advise/rules.h"
#include "tools/trace/report/format.h"

namespace slipstream::advise {
namespace {

const std::string kLongFile = "/data/training/" + std::string(90, 'd') + "/a_module_with_a_long_name_of_its_own.py";

class AdviceTextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    report::ProcessReport& process = report_.processes.emplace_back();
    process.pid = 4711;
    process.executable = "/usr/bin/python3";
    process.command = "python train.py " + std::string(200, 'c');
    process.has_steps = true;
    process.measured_steps = 1234;
    process.step_time.median = 10 * kMs;
    facts_.report = &report_;
    facts_.process = &process;
  }
  // Of every second rule, with and without a cost.
  static Findings Many() {
    Findings findings;
    for (size_t i = 0; i < Rules().size(); ++i) {
      if (i % 2 == 0) {
        Advice advice;
        advice.finding = "What was found, in a sentence that is so long that it does not fit into a line of a hundred.";
        advice.evidence = {std::to_string(101 + i) +
                               " copies per step of 12.3 MiB, 4.56 ms in all, of which 78.9 % were "
                               "waited for; the longest took 1.23 ms, the shortest 45.6 us",
                           "a kernel: " + std::string(150, 'k')};
        advice.places = {{kLongFile, static_cast<int64_t>(5000 + i), "train_of_größere_model_and_more_than_that"},
                         {"/data/train.py", 7, "main"}};
        if (i % 4 == 0) {
          advice.cost = static_cast<int64_t>(i + 1) * kMs / 10;
        } else {
          advice.why_unknown =
              "how much faster it would be is not in the trace, and nothing in it tells how to guess it";
          advice.at_stake = 3 * kMs;
        }
        advice.change = "What to do about it, in a sentence that takes more than a line of eighty columns as well.";
        advice.snippet =
            "model = DistributedDataParallel(model, bucket_cap_mb=50, gradient_as_bucket_view=True)\nx = y";
        findings.advice.push_back({&Rules()[i], Verdict::Say(std::move(advice))});
      } else if (i % 3 == 0) {
        findings.abstained.push_back(
            {&Rules()[i], Verdict::Abstain("what it needs was not recorded in any of 7 runs")});
      } else {
        findings.nothing.push_back(&Rules()[i]);
      }
    }
    return findings;
  }
  static std::map<std::string, int> Words(const std::string& text) {
    std::map<std::string, int> words;
    const std::regex word("[^\\s]+");
    for (std::sregex_iterator at(text.begin(), text.end(), word); at != std::sregex_iterator(); ++at)
      ++words[at->str()];
    return words;
  }

  report::Report report_;
  Facts facts_;
};

TEST_F(AdviceTextTest, NoLineIsLongerThanTheScreen) {
  for (const size_t columns : {80, 93, 100, 160}) {
    for (const std::string& text : {FormatFindings(facts_, Many(), {.columns = columns}), FormatRules(columns)}) {
      for (const std::string& line : test::Split(text)) EXPECT_LE(text::Columns(line), columns) << line;
    }
  }
}

TEST_F(AdviceTextTest, ANarrowScreenHasTheFiguresAndTheLinesOfAWideOne) {
  const std::string narrow = FormatFindings(facts_, Many(), {.columns = 80});
  const std::map<std::string, int> words = Words(narrow);
  const std::regex figure("[(]?[0-9][0-9.,]*[),;:]?");
  for (const auto& [word, count] : Words(FormatFindings(facts_, Many(), {.columns = 160}))) {
    if (!std::regex_match(word, figure)) continue;
    const auto at = words.find(word);
    EXPECT_EQ(at == words.end() ? 0 : at->second, count) << word << "\n" << narrow;
  }
  for (size_t i = 0; i < Rules().size(); i += 2) {
    EXPECT_NE(narrow.find("a_module_with_a_long_name_of_its_own.py:" + std::to_string(5000 + i)), std::string::npos)
        << narrow;
  }
  EXPECT_NE(FormatRules(80).find(std::string("\n") + Rules()[1].name + " "), std::string::npos);
}

// Who has only the command reads the rule there.
TEST_F(AdviceTextTest, TheEndNamesThePageOfARule) {
  const Findings many = Many();
  const std::string line = std::string("\n`slipstream help ") + many.advice.front().rule->name + "` says ";
  EXPECT_NE(FormatFindings(facts_, many).find(line), std::string::npos);
  EXPECT_EQ(FormatFindings(facts_, {}).find("slipstream help"), std::string::npos);
}

// In front of everything that is said of what is there, and in the JSON.
TEST_F(AdviceTextTest, WhatIsMissingComesFirst) {
  report::ProcessReport& process = report_.processes[0];
  process.complete = true;
  const std::string whole = FormatFindings(facts_, Many());
  EXPECT_EQ(whole.find("incomplete"), std::string::npos) << whole;
  nlohmann::json root = nlohmann::json::parse(FindingsJson(facts_, Many()));
  EXPECT_FALSE(root["partial"]);
  EXPECT_TRUE(root["missing"].empty());
  EXPECT_TRUE(nlohmann::json::parse(FindingsJson(facts_, Many(), /*partial=*/true))["partial"]);
  process.dropped = 12;
  process.drop_gaps = 2;
  report_.unreadable = {"4712.spool: no spool file"};
  const std::vector<std::string> lines = test::Split(FormatFindings(facts_, Many()));
  EXPECT_TRUE(lines[1].starts_with("  incomplete: ")) << lines[1];
  EXPECT_NE(lines[1].find("12 records dropped in 2 gaps"), std::string::npos) << lines[1];
  EXPECT_EQ(lines[2], "  incomplete: 4712.spool: no spool file");
  EXPECT_TRUE(lines[3].starts_with("  What follows is of what is there"));
  root = nlohmann::json::parse(FindingsJson(facts_, Many()));
  EXPECT_TRUE(root["partial"]);
  ASSERT_EQ(root["missing"].size(), 2U);
  EXPECT_EQ(root["missing"][1], "4712.spool: no spool file");
}

// A reader sees what there is before the details of any.
TEST_F(AdviceTextTest, AListOfTheFindingsStandsInFrontOfThem) {
  const Findings findings = Many();
  const std::vector<std::string> lines = test::Split(FormatFindings(facts_, findings, {.columns = 80}));
  const auto head =
      std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("FINDINGS "); });
  ASSERT_NE(head, lines.end());
  const auto first = std::find_if(lines.begin(), lines.end(), [&](const auto& line) {
    return line.starts_with(std::string(" 1. ") + findings.advice[0].rule->name + ": ");
  });
  ASSERT_LT(head, first);
  ASSERT_GE(static_cast<size_t>(first - head), findings.advice.size() + 1);
  for (size_t i = 0; i < findings.advice.size(); ++i) {
    const Advice& advice = findings.advice[i].verdict.advice;
    const std::string& line = head[static_cast<ptrdiff_t>(i) + 1];
    EXPECT_TRUE(line.starts_with(text::PadLeft(std::to_string(i + 1), 2) + ". " + findings.advice[i].rule->name + " "))
        << line;
    EXPECT_NE(line.find(advice.cost ? report::Time(*advice.cost) : std::string("not known")), std::string::npos)
        << line;
    EXPECT_NE(line.find(".py:" + std::to_string(5000 + 2 * i)), std::string::npos) << line;
  }
}

TEST_F(AdviceTextTest, OneFindingNeedsNoList) {
  Findings findings = Many();
  findings.advice.resize(1);
  EXPECT_EQ(FormatFindings(facts_, findings).find("FINDINGS"), std::string::npos);
}

TEST_F(AdviceTextTest, ACommentThatHasNoRoomStandsAboveItsLine) {
  Findings findings;
  Advice advice;
  advice.cost = kMs;
  advice.snippet =
      "next_x = next_x.to(\"cuda\", non_blocking=True)  # before the step on x is launched\nx = y  # short";
  findings.advice.push_back({Rules().data(), Verdict::Say(std::move(advice))});
  EXPECT_NE(FormatFindings(facts_, findings, {.columns = 80})
                .find("\n        # before the step on x is launched\n"
                      "        next_x = next_x.to(\"cuda\", non_blocking=True)\n"
                      "        x = y  # short\n"),
            std::string::npos)
      << FormatFindings(facts_, findings, {.columns = 80});
  EXPECT_NE(FormatFindings(facts_, findings, {.columns = 100})
                .find("non_blocking=True)  # before the step on x is launched\n"),
            std::string::npos);
}

// Its time is all counted under others: that it gains 0 ns would be read as a mistake.
TEST_F(AdviceTextTest, WhatGainsNothingMoreIsSaidInWords) {
  const auto title = [&](int64_t cost) {
    Findings findings;
    Advice advice;
    advice.cost = cost;
    findings.advice.push_back({&Rules()[0], Verdict::Say(std::move(advice))});
    const std::string text = FormatFindings(facts_, findings, {.columns = 120});
    const size_t at = text.find(" 1. ");
    return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_NE(title(4999).find(": no gain beyond the others, confidence "), std::string::npos) << title(4999);
  EXPECT_NE(title(5000).find(": about 5.00 us per step (0.1 %), "), std::string::npos) << title(5000);
}

// A unit for those who pay: steps, devices and ranks.
TEST_F(AdviceTextTest, WhatALongRunWouldHaveGained) {
  Findings findings;
  Advice advice;
  advice.cost = 2 * kMs;
  findings.advice.push_back({&Rules()[0], Verdict::Say(advice)});
  report::ProcessReport& process = report_.processes[0];
  EXPECT_EQ(FormatFindings(facts_, findings, {.columns = 120}).find("GPU-hours"), std::string::npos);
  process.devices.resize(2);
  process.steps.resize(900'000);
  EXPECT_DOUBLE_EQ(*GpuTimeOf(process, advice, 4), 4 * 3600e9);
  EXPECT_NE(FormatFindings(facts_, findings, {.columns = 120}).find("(20.0 %), 1 GPU-hour of this run, confidence"),
            std::string::npos)
      << FormatFindings(facts_, findings, {.columns = 120});
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(FindingsJson(facts_, findings))["advice"][0]["gpu_seconds_of_run"], 3600);
  advice.cost.reset();
  EXPECT_FALSE(GpuTimeOf(process, advice));
  process.has_steps = false;
  advice.cost = 7;
  EXPECT_DOUBLE_EQ(*GpuTimeOf(process, advice), 14) << "then it is of all";
}

// Where a part of the run shows it.
TEST_F(AdviceTextTest, WhatTheRecordingOfTheDevicesCostsIsSaid) {
  report::ProcessReport& process = report_.processes[0];
  const auto says = [&](uint64_t steps, int64_t median) {
    process.step_time_before_devices = {.count = steps, .median = median};
    const std::string text = FormatFindings(facts_, Many(), {.columns = 400});
    return text.find(
               "10.0 ms in the median; 8.00 ms before devices were recorded, so that what is said below of the "
               "host's time is up to 25.0 % too long\n") != std::string::npos
               ? 1
           : text.find("before devices were recorded") == std::string::npos ? 0
                                                                            : -1;
  };
  EXPECT_EQ(says(10, 8 * kMs), 1) << FormatFindings(facts_, Many(), {.columns = 400});
  EXPECT_EQ(says(9, 8 * kMs), 0) << "too few for a median";
  EXPECT_EQ(says(10, 9'800'000), 0) << "the difference is nothing";
  EXPECT_EQ(says(10, 12 * kMs), 0);
}

TEST_F(AdviceTextTest, WhatIsLeftOutOfTheFiguresIsSaid) {
  Findings findings;
  Advice advice;
  advice.cost = 2 * kMs;
  findings.advice.push_back({&Rules()[0], Verdict::Say(advice)});
  report_.processes[0].step_time_before_devices = {.count = 10, .median = 5 * kMs};
  const auto text = [&](int64_t recording) {
    facts_.recording = recording;
    return FormatFindings(facts_, findings, {.columns = 400});
  };
  EXPECT_NE(text(5 * kMs).find("10.0 ms in the median; 5.00 ms before devices were recorded: 5.00 ms that their "
                               "recording adds to calls are left out below\n"),
            std::string::npos)
      << text(5 * kMs);
  EXPECT_NE(text(5 * kMs).find(": about 2.00 ms per step (40.0 %), "), std::string::npos) << text(5 * kMs);
  EXPECT_NE(text(4 * kMs).find("4.00 ms that their recording adds to calls are left out below, and what is said there "
                               "of the host's time is still up to 20.0 % too long\n"),
            std::string::npos)
      << text(4 * kMs);
}

// What costs something now and then is in the mean, of which its share is.
TEST_F(AdviceTextTest, SharesAreOfTheMean) {
  report::ProcessReport& process = report_.processes[0];
  Findings findings;
  Advice advice;
  advice.cost = 12 * kMs;
  findings.advice.push_back({&Rules()[0], Verdict::Say(advice)});
  process.measured_steps = 10;
  process.measured_time = 160 * kMs;
  std::string text = FormatFindings(facts_, findings, {.columns = 400});
  EXPECT_NE(text.find(", 10.0 ms in the median and 16.0 ms on average\n"), std::string::npos) << text;
  EXPECT_NE(text.find(": about 12.0 ms per step (75.0 %), "), std::string::npos) << text;
  process.measured_time = 105 * kMs;
  text = FormatFindings(facts_, findings, {.columns = 400});
  EXPECT_NE(text.find(", 10.0 ms in the median\n"), std::string::npos) << text;
}

// A launch takes 2 us longer at least.
TEST_F(AdviceTextTest, WhereNothingTellsWhatARecordingAdds) {
  report::ProcessReport& process = report_.processes[0];
  facts_.replay = std::make_shared<const Replay>(StepEvents(10'000).Made());
  CallGroup& launches = facts_.calls.emplace_back();
  launches.function = "cudaLaunchKernel";
  const auto says = [&](uint64_t count) {
    launches.calls = count * process.measured_steps;
    const std::string text = FormatFindings(facts_, Many(), {.columns = 400});
    const std::string hint =
        "; recording them made its " + std::to_string(count) +
        " launches longer: where tracer.device_after lets the loop begin without it, that is left out\n";
    return text.find(hint) != std::string::npos ? 1 : text.find("launches longer") == std::string::npos ? 0 : -1;
  };
  EXPECT_EQ(says(500), 1) << FormatFindings(facts_, Many(), {.columns = 400});
  EXPECT_EQ(says(499), 0) << "less than a tenth of the step";
  report::DeviceReport& device = process.devices.emplace_back();
  facts_.devices_recorded = true;
  device.kernels = 1;
  device.times.idle[report::kHostOutside] = static_cast<int64_t>(process.measured_steps) * kMs / 2;
  EXPECT_EQ(says(900), 0) << "the device waits for a twentieth of it";
  device.times.idle[report::kHostOutside] *= 4;
  EXPECT_EQ(says(900), 1);
  launches.of_step_thread = false;
  EXPECT_EQ(says(900), 0) << "another thread's";
  launches.of_step_thread = true;
  process.step_time_before_devices = {.count = 10, .median = 10 * kMs};
  EXPECT_EQ(says(900), 0) << "it adds nothing";
}

// Color changes no character, and ends with each line: a pager may show any of them.
TEST_F(AdviceTextTest, ColorsAreBesideTheText) {
  const std::string plain = FormatFindings(facts_, Many());
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  const std::string colored = FormatFindings(facts_, Many(), {.color = true});
  EXPECT_EQ(std::regex_replace(colored, std::regex("\x1b\\[[0-9]*m"), ""), plain);
  EXPECT_NE(colored.find(std::string("\n\x1b[1m 1. ") + Rules()[0].name + ": "), std::string::npos) << colored;
  EXPECT_NE(colored.find("\n\x1b[1mCANNOT BE TOLD\x1b[0m\n"), std::string::npos) << colored;
  for (const std::string& line : test::Split(colored)) {
    EXPECT_TRUE(line.find("\x1b[1m") == std::string::npos || line.ends_with("\x1b[0m")) << line;
  }
}

// The report's verdict is that the host launches, or is outside CUDA calls, for most of the time.
TEST_F(AdviceTextTest, TheFirstFindingAnswersTheVerdictOrSaysWhyNot) {
  report::ProcessReport& process = report_.processes[0];
  process.measured_time = 12340 * kMs;
  report_.kernels_recorded = true;
  report::DeviceReport& device = process.devices.emplace_back();
  device.times.kernels = 1234 * kMs;
  device.times.idle[static_cast<size_t>(report::CallKind::kLaunch)] = 8638 * kMs;
  const auto rule = [](std::string_view name) {
    return std::find_if(Rules().begin(), Rules().end(), [&](const Rule& one) { return one.name == name; });
  };
  Findings findings;
  const auto add = [&](std::string_view name, int64_t cost, Confidence confidence) {
    Advice advice;
    advice.finding = "Something.";
    advice.cost = cost;
    advice.confidence = confidence;
    findings.advice.push_back({&*rule(name), Verdict::Say(std::move(advice))});
  };
  const auto text = [&] {
    return std::regex_replace(FormatFindings(facts_, findings, {.columns = 160}), std::regex("\\s+"), " ");
  };
  const auto by = [&] {
    const auto parsed = nlohmann::json::parse(FindingsJson(facts_, findings));
    EXPECT_EQ(parsed["report_verdict"]["kind"], "launches");
    return parsed["report_verdict"]["answered_by"];
  };
  EXPECT_NE(text().find("while the host was launching (launch-bound). No rule has a change for that"),
            std::string::npos)
      << text();
  EXPECT_EQ(by(), nullptr);
  add("item-synchronize", 3 * kMs, Confidence::kHigh);
  EXPECT_NE(text().find("No rule has a change for that: what comes first here is another part of the step"),
            std::string::npos)
      << text();
  add("launch-bound", 2 * kMs, Confidence::kHigh);
  EXPECT_NE(text().find("Finding 2 is about that; finding 1 stands first, because it gains more"), std::string::npos)
      << text();
  EXPECT_EQ(by(), "launch-bound");
  findings.advice[1].verdict.advice.cost = 4 * kMs;
  EXPECT_NE(text().find("finding 1 stands first, because it is surer"), std::string::npos) << text();
  std::swap(findings.advice[0], findings.advice[1]);
  EXPECT_NE(text().find("the report's verdict: GPU busy 10.0 %"), std::string::npos) << text();
  EXPECT_EQ(text().find("is about that"), std::string::npos) << text();
  EXPECT_EQ(by(), "launch-bound");
  // Nothing is known of the devices.
  report_.kernels_recorded = false;
  EXPECT_EQ(text().find("verdict"), std::string::npos) << text();
  EXPECT_EQ(nlohmann::json::parse(FindingsJson(facts_, findings))["report_verdict"], nullptr);
}

// Each rule that is about time says which verdicts it answers, and each loss has a rule.
TEST_F(AdviceTextTest, EveryVerdictHasARule) {
  uint32_t all = 0;
  for (const Rule& rule : Rules()) {
    all |= rule.about;
    const std::string_view name = rule.name;
    const bool is_of_memory = name == "near-memory-limit" || name == "fragmentation" || name == "small-shared-memory";
    EXPECT_EQ(rule.about == 0, is_of_memory) << name;
  }
  using report::VerdictKind;
  EXPECT_EQ(all,
            About(VerdictKind::kGpuBound, VerdictKind::kOutsideCalls, VerdictKind::kLaunching,
                  VerdictKind::kSynchronizing, VerdictKind::kInCopy, VerdictKind::kAllocating, VerdictKind::kOtherCalls,
                  VerdictKind::kExposedCopies, VerdictKind::kExposedCommunication, VerdictKind::kBetweenSteps));
}

TEST_F(AdviceTextTest, NothingToChange) {
  Findings findings = Many();
  for (RuleVerdict& found : findings.advice) findings.nothing.push_back(found.rule);
  findings.advice.clear();
  const std::string text = FormatFindings(facts_, findings);
  EXPECT_NE(text.find("  Nothing worth changing was found: " + std::to_string(Rules().size()) + " rules looked, and " +
                      std::to_string(findings.abstained.size()) + " of"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("CANNOT BE TOLD\n"), std::string::npos) << text;
  EXPECT_NE(text.find("not\n    recorded in any of 7 runs"), std::string::npos) << text;
  findings.abstained.clear();
  const std::string sure = FormatFindings(facts_, findings);
  EXPECT_NE(sure.find(" rules looked.\n"), std::string::npos) << sure;
  EXPECT_EQ(sure.find("CANNOT BE TOLD"), std::string::npos) << sure;
}

}  // namespace
}  // namespace slipstream::advise
