#include "tools/cli/run_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace slipstream::cli {
namespace {

class RunDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "slipstream-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    place_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(place_); }

  std::string place_;
};

TEST_F(RunDirectoryTest, PrivateAndGoneAfterwards) {
  std::string path;
  {
    RunDirectory directory;
    std::string error;
    ASSERT_TRUE(directory.Create({place_}, &error)) << error;
    path = directory.path();
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
    std::ofstream(path + "/1-2.counters") << "x";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RunDirectoryTest, S59_TheUmaskTakesNothingAwayAndIsLeftAsItWas) {
  for (const mode_t mask : {0U, 0377U}) {
    const mode_t before = umask(mask);
    RunDirectory counters;
    RunDirectory trace;
    std::string error;
    const bool made = counters.Create({place_}, &error) && trace.CreateForTrace({place_}, &error);
    const mode_t after = umask(before);
    ASSERT_TRUE(made) << error;
    EXPECT_EQ(after, mask);
    for (const RunDirectory* directory : {&counters, &trace}) {
      struct stat status {};
      ASSERT_EQ(stat(directory->path().c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 07777, 0700U) << std::oct << mask;
    }
  }
}

TEST_F(RunDirectoryTest, ATraceStaysAndNothingElseDoes) {
  std::string path;
  {
    RunDirectory directory;
    std::string error;
    ASSERT_TRUE(directory.CreateForTrace({place_ + "/missing", place_}, &error)) << error;
    EXPECT_EQ(error, "");
    path = directory.path();
    EXPECT_TRUE(path.starts_with(place_ + "/slipstream-trace-2")) << path;
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
    std::ofstream(path + "/1-2.counters") << "x";
    std::ofstream(path + "/h-1-2.spool") << "x";
  }
  EXPECT_TRUE(std::filesystem::exists(path + "/h-1-2.spool"));
  EXPECT_FALSE(std::filesystem::exists(path + "/1-2.counters"));
  // Nor does any later run sweep it away.
  RunDirectory other;
  std::string error;
  ASSERT_TRUE(other.Create({place_}, &error)) << error;
  EXPECT_TRUE(std::filesystem::exists(path + "/h-1-2.spool"));

  RunDirectory empty;
  ASSERT_TRUE(empty.CreateForTrace({place_}, &error)) << error;
  const std::string unused = empty.path();
  EXPECT_NE(unused, path);
  empty.Remove();
  EXPECT_FALSE(std::filesystem::exists(unused));
}

TEST_F(RunDirectoryTest, TheNextPlaceIsTriedAndTheErrorNamesAll) {
  RunDirectory directory;
  std::string error;
  EXPECT_TRUE(directory.Create({place_ + "/missing", place_}, &error));
  EXPECT_EQ(error, "");
  RunDirectory nowhere;
  EXPECT_FALSE(nowhere.Create({place_ + "/missing", place_ + "/gone"}, &error));
  EXPECT_NE(error.find("missing"), std::string::npos);
  EXPECT_NE(error.find("gone"), std::string::npos);
}

TEST_F(RunDirectoryTest, WhatAKilledRunLeftIsSweptAndWhatALivingOneHoldsIsNot) {
  const std::string abandoned = place_ + "/slipstream-run-abcdef";
  ASSERT_EQ(mkdir(abandoned.c_str(), 0700), 0);
  std::ofstream(abandoned + "/1-2.counters") << "x";
  ASSERT_EQ(mkdir((place_ + "/somebody-elses").c_str(), 0700), 0);
  RunDirectory living;
  std::string error;
  ASSERT_TRUE(living.Create({place_}, &error)) << error;
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  RunDirectory next;
  ASSERT_TRUE(next.Create({place_}, &error)) << error;
  EXPECT_TRUE(std::filesystem::exists(living.path()));
  EXPECT_TRUE(std::filesystem::exists(place_ + "/somebody-elses"));
}

TEST_F(RunDirectoryTest, ALinkOfThatNameIsNotFollowed) {
  const std::string target = place_ + "/target";
  ASSERT_EQ(mkdir(target.c_str(), 0700), 0);
  std::ofstream(target + "/precious") << "x";
  std::filesystem::create_directory_symlink(target, place_ + "/slipstream-run-linked");
  RunDirectory directory;
  std::string error;
  ASSERT_TRUE(directory.Create({place_}, &error)) << error;
  EXPECT_TRUE(std::filesystem::exists(target + "/precious"));
}

}  // namespace
}  // namespace slipstream::cli
