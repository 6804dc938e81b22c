// `slipstream top` where nobody is under slipstream, from a /proc made by hand.

#include "tools/cli/top_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tracer/spool_testing.h"
#include "tools/cli/exit_codes.h"

namespace slipstream::cli {
namespace {

class TopCommandTest : public tracer::SpoolTest {
 protected:
  struct Said {
    int status;
    std::string out;
    std::string err;
  };
  Said Look(bool json) const {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = Top({.once = true, .json = json, .interval_s = 0.1, .proc = directory_});
    std::string out = testing::internal::GetCapturedStdout();
    return {status, out, testing::internal::GetCapturedStderr()};
  }
};

TEST_F(TopCommandTest, NobodyIsUnderSlipstream) {
  const Said text = Look(false);
  EXPECT_EQ(text.status, kFailed);
  EXPECT_EQ(text.out, "");
  EXPECT_NE(text.err.find("on this machine is under slipstream\n"), std::string::npos) << text.err;
  EXPECT_NE(text.err.find("Start a program with: slipstream run -- COMMAND"), std::string::npos) << text.err;
}

// A script need not tell an answer from none.
TEST_F(TopCommandTest, AScriptGetsAnObjectWithNobodyInIt) {
  const Said look = Look(true);
  EXPECT_EQ(look.status, kFailed);
  const auto json = nlohmann::json::parse(look.out);
  EXPECT_EQ(json["schema"], "slipstream-top-1");
  EXPECT_TRUE(json["processes"].empty());
  EXPECT_EQ(json["ended"], true);
}

TEST_F(TopCommandTest, ThoseWithoutCountersAreNamed) {
  using namespace std::string_literals;
  for (const int pid : {41, 42}) {
    const std::string place = directory_ + "/" + std::to_string(pid);
    ASSERT_TRUE(std::filesystem::create_directory(place));
    tracer::Spit(place + "/stat", std::to_string(pid) + " (x) S 1 1 1 0 -1");
    tracer::Spit(place + "/environ", "LD_PRELOAD=/x/libslipstream.so\0"s);
  }
  const Said look = Look(true);
  EXPECT_NE(look.err.find("and keeps counters: process 41 and 1 more do not\n"), std::string::npos) << look.err;
  EXPECT_EQ(nlohmann::json::parse(look.out)["uncounted_pids"].size(), 2U);
}

}  // namespace
}  // namespace slipstream::cli
