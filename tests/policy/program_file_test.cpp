#include "policy/program_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace slipstream::policy {
namespace {

namespace fs = std::filesystem;

// In a directory of its own, which is the working directory meanwhile.
class ProgramFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = (fs::temp_directory_path() / "slipstream-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    place_ = fs::canonical(made).string();
    before_ = fs::current_path();
    fs::current_path(place_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(place_);
  }

  void Make(const std::string& name, const std::string& text = "#!/bin/sh\n", mode_t mode = 0755) {
    std::ofstream(name) << text;
    chmod(name.c_str(), mode);
  }

  static std::string Path(const char* path) {
    ProgramPath program;
    program.FromPath(path);
    EXPECT_TRUE(program.readable());
    return std::string(program.view());
  }

  static std::string Search(const char* name, const char* search) {
    ProgramPath program;
    program.FromSearch(name, search);
    return std::string(program.view());
  }

  static std::string Head(const ProgramPath& program, std::size_t size = 256) {
    std::string buffer(size, '?');
    return std::string(program.Head(buffer));
  }

  std::string place_;
  fs::path before_;
};

TEST_F(ProgramFile, PathsAreMadeAbsoluteAndNothingElse) {
  EXPECT_EQ(Path("/bin/sh"), "/bin/sh");
  EXPECT_EQ(Path("tool"), place_ + "/tool");
  EXPECT_EQ(Path("./tool"), place_ + "/tool");
  EXPECT_EQ(Path(".//./tool"), place_ + "/tool");
  EXPECT_EQ(Path("../x/tool"), place_ + "/../x/tool");
  EXPECT_EQ(Path(""), place_ + "/");
  fs::create_symlink("/bin/sh", "link");
  EXPECT_EQ(Path("link"), place_ + "/link");
  fs::current_path("/");
  EXPECT_EQ(Path("bin/sh"), "/bin/sh");
}

TEST_F(ProgramFile, TheKernelsOwnLinksAreFollowed) {
  EXPECT_EQ(Path("/proc/self/exe"), fs::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(Path("/proc/self/nothing"), "/proc/self/nothing");
}

TEST_F(ProgramFile, AnAddressThatCannotBeReadIsSaidAndNotRead) {
  ProgramPath program;
  program.FromPath(reinterpret_cast<const char*>(8));
  EXPECT_FALSE(program.readable());
  ProgramPath at;
  at.FromDescriptor(AT_FDCWD, reinterpret_cast<const char*>(8));
  EXPECT_FALSE(at.readable());
}

TEST_F(ProgramFile, WhatIsTooLongKeepsItsEnd) {
  const std::string path = "/" + std::string(std::size_t{3} * PATH_MAX, 'd') + "/tool";
  const std::string found = Path(path.c_str());
  EXPECT_EQ(found.size(), static_cast<std::size_t>(PATH_MAX) - 1);
  EXPECT_TRUE(found.ends_with("d/tool"));
  const std::string relative = std::string(PATH_MAX - 20, 'd') + "/tool";
  EXPECT_TRUE(Path(relative.c_str()).ends_with("d/tool"));
}

TEST_F(ProgramFile, ANameIsLookedForAsExecvpDoes) {
  fs::create_directories("a/dir");
  fs::create_directories("b");
  Make("a/plain", "x", 0644);
  Make("b/plain");
  Make("b/dir");
  Make("b/both");
  Make("a/both");
  Make("here");
  const std::string search = place_ + "/missing:" + place_ + "/a:" + place_ + "/b";
  EXPECT_EQ(Search("both", search.c_str()), place_ + "/a/both");
  EXPECT_EQ(Search("plain", search.c_str()), place_ + "/b/plain") << "what cannot be executed is passed over";
  EXPECT_EQ(Search("dir", search.c_str()), place_ + "/b/dir") << "and so is a folder";
  EXPECT_EQ(Search("here", search.c_str()), "here") << "not there: the name alone";
  EXPECT_EQ(Search("here", (search + ":").c_str()), place_ + "/here") << "an empty part is the working directory";
  EXPECT_EQ(Search("both", "b:a"), place_ + "/b/both") << "a relative folder";
  EXPECT_EQ(Search("./here", search.c_str()), place_ + "/here") << "a name with a slash is not looked for";
  EXPECT_EQ(Search("sh", nullptr), "/bin/sh") << "without PATH";
  EXPECT_EQ(Search("both", (std::string(std::size_t{2} * PATH_MAX, 'x') + ":" + search).c_str()), place_ + "/a/both");
}

TEST_F(ProgramFile, ADescriptorIsTheProgramOrItsFolder) {
  Make("tool", "#!/usr/bin/python3\n");
  const int folder = open(place_.c_str(), O_PATH | O_DIRECTORY);
  const int file = open("tool", O_PATH);
  ASSERT_GE(folder, 0);
  ASSERT_GE(file, 0);
  fs::current_path("/");
  ProgramPath at;
  at.FromDescriptor(folder, "tool");
  EXPECT_EQ(at.view(), place_ + "/tool");
  EXPECT_EQ(Head(at), "#!/usr/bin/python3\n");
  ProgramPath absolute;
  absolute.FromDescriptor(folder, "/bin/sh");
  EXPECT_EQ(absolute.view(), "/bin/sh");
  for (const char* empty : {static_cast<const char*>(nullptr), ""}) {
    ProgramPath itself;
    itself.FromDescriptor(file, empty);
    EXPECT_EQ(itself.view(), place_ + "/tool");
    EXPECT_EQ(Head(itself), "#!/usr/bin/python3\n");
  }
  close(folder);
  close(file);
  ProgramPath wrong;
  wrong.FromDescriptor(file, "");
  EXPECT_EQ(wrong.view(), "");
  EXPECT_EQ(Head(wrong), "");
}

TEST_F(ProgramFile, AProgramInMemoryHasANameAndAHead) {
  const int file = memfd_create("built", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, "\177ELF", 4), 4);
  ProgramPath program;
  program.FromDescriptor(file, nullptr);
  EXPECT_EQ(program.view(), "/memfd:built");
  EXPECT_EQ(Head(program), "\177ELF");
  EXPECT_EQ(lseek(file, 0, SEEK_CUR), 4) << "where the program reads on is its own affair";
  close(file);
}

TEST_F(ProgramFile, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo("fifo", 0755), 0);
  fs::create_directory("folder");
  for (const char* name : {"fifo", "folder", "missing", "/dev/zero"}) {
    ProgramPath program;
    program.FromPath(name);
    EXPECT_EQ(Head(program), "") << name;
  }
  Make("long", std::string(1000, 'x'));
  ProgramPath program;
  program.FromPath("long");
  EXPECT_EQ(Head(program), std::string(256, 'x'));
  EXPECT_EQ(Head(program, 10), std::string(10, 'x'));
  Make("empty", "");
  ProgramPath empty;
  empty.FromPath("empty");
  EXPECT_EQ(Head(empty), "");
}

TEST_F(ProgramFile, NoDescriptorStaysOpen) {
  Make("tool");
  const auto open_now = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  const auto before = open_now();
  ProgramPath program;
  program.FromPath("tool");
  EXPECT_EQ(Head(program), "#!/bin/sh\n");
  EXPECT_EQ(open_now(), before);
}

}  // namespace
}  // namespace slipstream::policy
