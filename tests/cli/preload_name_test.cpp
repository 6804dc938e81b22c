// What LD_PRELOAD can name, and what stands in for what it cannot.

#include "tools/cli/preload_name.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/support/process.h"

namespace slipstream::cli {
namespace {

namespace fs = std::filesystem;

class PreloadNameTest : public testing::Test {
 protected:
  PreloadNameTest() {
    fs::create_directories(spaced_);
    std::ofstream(library_) << "the library";
  }
  ~PreloadNameTest() override { fs::remove_all(root_); }

  policy::Environment With(const std::string& state, const std::string& home) const {
    return policy::Environment({{"XDG_STATE_HOME", state}, {"HOME", home}});
  }
  static std::string Content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string root_ = test::NewDirectory();
  const std::string spaced_ = root_ + "/with space";
  const std::string library_ = spaced_ + "/libslipstream.so";
  const std::string state_ = root_ + "/state";
};

TEST_F(PreloadNameTest, APathThatFitsStays) {
  EXPECT_EQ(PreloadName(root_ + "/libslipstream.so", With(state_, root_)), root_ + "/libslipstream.so");
  EXPECT_FALSE(fs::exists(state_));
}

TEST_F(PreloadNameTest, ALinkStandsInForAPathWithASpaceOrAColon) {
  const std::string name = PreloadName(library_, With(state_, ""));
  EXPECT_TRUE(FitsPreload(name)) << name;
  EXPECT_TRUE(name.starts_with(state_ + "/slipstream/preload/")) << name;
  EXPECT_TRUE(name.ends_with("/libslipstream.so")) << name;
  EXPECT_EQ(Content(name), "the library");
  struct stat status {};
  ASSERT_EQ(stat((state_ + "/slipstream").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_EQ(PreloadName(library_, With(state_, "")), name);

  const std::string colon = root_ + "/a:b";
  fs::create_directories(colon);
  const std::string other = PreloadName(colon + "/libslipstream.so", With(state_, ""));
  EXPECT_TRUE(FitsPreload(other)) << other;
  EXPECT_NE(other, name) << "each installation has its own";
}

TEST_F(PreloadNameTest, ALinkThatPointsElsewhereIsMadeAnew) {
  const std::string name = PreloadName(library_, With(state_, ""));
  fs::remove(name);
  fs::create_symlink("/nonexistent", name);
  EXPECT_EQ(PreloadName(library_, With(state_, "")), name);
  EXPECT_EQ(Content(name), "the library");
}

TEST_F(PreloadNameTest, TheHomeIsNextAndIsNotMade) {
  const std::string home = root_ + "/home";
  EXPECT_FALSE(PreloadName(library_, With("", home)).starts_with(home)) << "there is none";
  EXPECT_FALSE(fs::exists(home));
  fs::create_directories(home);
  for (const std::string& state : {std::string(), std::string("relative"), spaced_, root_ + "/in-the-way"}) {
    if (state.ends_with("/in-the-way")) std::ofstream(state) << "in the way";
    const std::string name = PreloadName(library_, With(state, home));
    EXPECT_TRUE(name.starts_with(home + "/.local/state/slipstream/preload/")) << state << ": " << name;
    EXPECT_EQ(Content(name), "the library");
  }
}

TEST_F(PreloadNameTest, TheLastPlaceIsTheUsersFolderOfTmp) {
  for (const auto& [state, home] : {std::pair{spaced_, spaced_}, {std::string(), std::string()}}) {
    const std::string name = PreloadName(library_, With(state, home));
    EXPECT_TRUE(name.starts_with("/tmp/slipstream-" + std::to_string(geteuid()) + "/preload/")) << name;
    EXPECT_EQ(Content(name), "the library");
    fs::remove_all(fs::path(name).parent_path());
  }
}

TEST_F(PreloadNameTest, AFolderThatOthersMayWriteIsNotUsed) {
  const std::string home = root_ + "/home";
  fs::create_directories(home);
  fs::create_directories(state_ + "/slipstream");
  ASSERT_EQ(chmod((state_ + "/slipstream").c_str(), 0777), 0);
  EXPECT_TRUE(PreloadName(library_, With(state_, home)).starts_with(home));
  ASSERT_EQ(chmod((state_ + "/slipstream").c_str(), 0700), 0);
  EXPECT_TRUE(PreloadName(library_, With(state_, home)).starts_with(state_));

  fs::remove_all(state_);
  fs::create_directories(state_);
  fs::create_directories(root_ + "/another");
  fs::create_directory_symlink(root_ + "/another", state_ + "/slipstream");
  EXPECT_TRUE(PreloadName(library_, With(state_, home)).starts_with(home))
      << "through a link, which may be another user's";
  EXPECT_TRUE(fs::is_empty(root_ + "/another"));
}

}  // namespace
}  // namespace slipstream::cli
