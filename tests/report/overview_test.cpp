// A report on one screen, of a trace whose every figure is known.

#include "tools/trace/report/overview.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/report/report_testing.h"
#include "tools/text/text.h"
#include "tools/trace/report/report.h"

namespace slipstream::report {
namespace {

class OverviewTest : public ReportTest {
 protected:
  void Everything() {
    Sample("0.spool", 0);
    BuildWell();
    AddDevices(/*limits=*/true);
  }
};

// A row of one of the two tables.
std::string Row(const std::string& label, const std::string& time, const std::string& share) {
  return text::PadRight(label, 20) + text::PadLeft(time, 9) + text::PadLeft(share, 8);
}

TEST_F(OverviewTest, TheHostAndTheDeviceBesideEachOther) {
  Everything();
  const std::string text = FormatOverview(Make());
  const std::string between = "   ";
  EXPECT_NE(text.find("A STEP of 1.00 us: mean of 8 (median 1.00 us, p90 1.00 us, longest 1.00 us)\n  " +
                      text::PadRight("host", 37) + between + "GPU 0\n" +                                      //
                      "  " + Row("outside CUDA calls", "500 ns", "50.0 %") + between +                        //
                      Row("running kernels", "300 ns", "30.0 %") + "\n" +                                     //
                      "  " + Row("synchronizations", "250 ns", "25.0 %") + between +                          //
                      Row("only copying", "150 ns", "15.0 %") + "\n" +                                        //
                      "  " + Row("copies", "100 ns", "10.0 %") + between + Row("idle", "550 ns", "55.0 %") +  //
                      "\n  " + Row("other thread in CUDA", "100 ns", "10.0 %") + between +                    //
                      Row("  host outside calls", "250 ns", "25.0 %") + "\n" +                                //
                      "  " + Row("all else", "50 ns", "5.0 %") + between +                                    //
                      Row("  host synchronizing", "200 ns", "20.0 %") + "\n"),
            std::string::npos)
      << text;
}

TEST_F(OverviewTest, BeginsWithTheVerdictAndNamesLinesAndKernels) {
  Everything();
  const std::string text = FormatOverview(Make());
  EXPECT_TRUE(text.starts_with("VERDICT: ")) << text;
  EXPECT_NE(text.find("     200 ns   20.0 % * /job/train.py:30 (main)  cudaStreamSynchronize\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("200 ns   57.1 %   gemm\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  nothing is missing\n"), std::string::npos) << text;
}

// As in the full report, in which the table of steps says it.
TEST_F(OverviewTest, WhatIsNotKnownOfDevicesIsSaid) {
  Sample("0.spool", 0);
  BuildWell();
  const std::string text = FormatOverview(Make());
  EXPECT_NE(text.find("\n  host\n"), std::string::npos) << text;
  EXPECT_NE(text.find("GPU: no kernels were recorded"), std::string::npos) << text;
  EXPECT_EQ(text.find("KERNELS"), std::string::npos) << text;
}

TEST_F(OverviewTest, OneWithoutStepsIsOfAllOfIt) {
  Everything();
  Report report = Make();
  report.processes[0].has_steps = false;
  report.processes[0].why_no_steps = "no line begins a loop";
  const std::string text = FormatOverview(report);
  EXPECT_NE(text.find("\nALL OF 8.00 us of python3 (pid 100, rank 0), without steps\n"), std::string::npos) << text;
  EXPECT_NE(text.find("no line begins a loop"), std::string::npos) << text;
}

TEST_F(OverviewTest, IncompleteOnesSaySoFirst) {
  Sample("0.spool", 0, kStep, /*ends=*/false);
  BuildWell();
  const std::string text = FormatOverview(Make());
  const size_t missing = text.find("incomplete: ");
  ASSERT_NE(missing, std::string::npos) << text;
  EXPECT_LT(missing, text.find("A STEP of")) << text;
}

TEST_F(OverviewTest, HeadingsAreBoldWhereThePageHasColor) {
  Everything();
  const Report report = Make();
  const std::string plain = FormatOverview(report);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  std::string colored = FormatOverview(report, {.color = true});
  EXPECT_TRUE(colored.starts_with("\x1b[1mVERDICT:\x1b[0m GPU busy ")) << colored;
  EXPECT_NE(colored.find("\n\x1b[1mA STEP\x1b[0m of "), std::string::npos) << colored;
  for (const std::string escape : {"\x1b[1m", "\x1b[0m"}) {
    for (size_t at = colored.find(escape); at != std::string::npos; at = colored.find(escape))
      colored.erase(at, escape.size());
  }
  EXPECT_EQ(colored, plain);
}

}  // namespace
}  // namespace slipstream::report
