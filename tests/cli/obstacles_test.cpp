#include "tools/cli/obstacles.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

#include "tests/support/plain_build.h"
#include "tests/support/process.h"

namespace slipstream::cli {
namespace {

using test::ReadFile;
using test::WriteFile;

// A program of this machine that can be changed.
class ProgramObstaclesTest : public testing::Test {
 protected:
  static std::vector<std::string> Of(const std::string& program) {
    return ProgramObstacles(program, SLIPSTREAM_LIBRARY);
  }

  std::string Written(const std::string& name, const std::string& bytes, mode_t mode = 0755) const {
    std::string path = folder_ / name;
    WriteFile(path, bytes, mode);
    chmod(path.c_str(), mode);
    return path;
  }

  // The header of the part that names the loader.
  static Elf64_Phdr* LoaderPart(std::string& bytes) {
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    auto* part = reinterpret_cast<Elf64_Phdr*>(bytes.data() + header.e_phoff);
    while (part->p_type != PT_INTERP) ++part;
    return part;
  }

  const test::Folder folder_;
  const std::string good_ = ReadFile(PLAIN_PROGRAM);
};

void ExpectOne(const std::vector<std::string>& obstacles, const std::string& part) {
  ASSERT_EQ(obstacles.size(), 1U) << ::testing::PrintToString(obstacles);
  EXPECT_NE(obstacles[0].find(part), std::string::npos) << obstacles[0];
}

TEST_F(ProgramObstaclesTest, AnOrdinaryProgramHasNone) {
  NEEDS_NO_SANITIZER("the library of this build has a sanitizer in it");
  EXPECT_EQ(Of(Written("program", good_)), std::vector<std::string>());
  EXPECT_EQ(Of("sh"), std::vector<std::string>());
  EXPECT_EQ(Of("python3"), std::vector<std::string>());
}

TEST_F(ProgramObstaclesTest, WhatIsNoProgramIsSaidByWhoStartsIt) {
  EXPECT_EQ(Of("no-such-command-anywhere"), std::vector<std::string>());
  EXPECT_EQ(Of(Written("text", "nothing")), std::vector<std::string>());
  EXPECT_EQ(Of(Written("empty", "")), std::vector<std::string>());
  EXPECT_EQ(Of(Written("cut", good_.substr(0, 20))), std::vector<std::string>());
  EXPECT_EQ(Of(Written("loop", "#!" + (folder_ / "loop") + "\n")), std::vector<std::string>());
  EXPECT_EQ(Of(folder_.path()), std::vector<std::string>());
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0700), 0);
  EXPECT_EQ(Of(folder_ / "pipe"), std::vector<std::string>()) << "and nobody waits for what is written into it";
}

TEST_F(ProgramObstaclesTest, AnotherCLibrary) {
  std::string bytes = good_;
  const Elf64_Phdr* const part = LoaderPart(bytes);
  constexpr char kLoader[] = "/lib/ld-musl.so.1";
  ASSERT_GE(part->p_filesz, sizeof(kLoader));
  std::memset(bytes.data() + part->p_offset, 0, part->p_filesz);
  std::memcpy(bytes.data() + part->p_offset, kLoader, sizeof(kLoader));
  const std::string path = Written("program", bytes);
  ExpectOne(Of(path), path + " is linked to musl");
  // By way of scripts.
  ExpectOne(Of(Written("script", "#!" + path + " -x\n")), path + " is linked to musl");
  ExpectOne(Of(Written("env", "#!/usr/bin/env -S A=b " + path + "\n")), path + " is linked to musl");
  ExpectOne(Of(Written("twice", "#!" + (folder_ / "script") + "\n")), path + " is linked to musl");
  // `slipstream run` does not give it the library either.
  const std::string why = path + " is linked to musl, which cannot load a library for glibc";
  EXPECT_EQ(WhyNotPreloaded(path), why);
  EXPECT_EQ(WhyNotPreloaded(folder_ / "twice"), why);
  for (const std::string& other : {good_, std::string("text"), std::string()}) {
    EXPECT_EQ(WhyNotPreloaded(Written("other", other)), "");
  }
  EXPECT_EQ(WhyNotPreloaded("no-such-command-anywhere"), "");
}

TEST_F(ProgramObstaclesTest, NoLoader) {
  std::string bytes = good_;
  LoaderPart(bytes)->p_type = PT_NULL;
  ExpectOne(Of(Written("program", bytes)), "is linked statically");
}

TEST_F(ProgramObstaclesTest, AnotherMachine) {
  std::string bytes = good_;
  bytes[EI_CLASS] = ELFCLASS32;
  ExpectOne(Of(Written("program", bytes)), "another kind of machine");
}

TEST_F(ProgramObstaclesTest, OtherRights) { ExpectOne(Of(Written("program", good_, 04755)), "setuid"); }

TEST_F(ProgramObstaclesTest, AnotherRoot) {
  ExpectOne(Of("apptainer"), "apptainer starts the command in another place");
  ExpectOne(Of("/usr/bin/docker"), "docker starts the command in another place");
}

// As a library for a newer C library is to an older one: what it asks for is not there.
TEST_F(ProgramObstaclesTest, AnOlderCLibrary) {
  std::string library = ReadFile(SLIPSTREAM_LIBRARY);
  constexpr char kHave[] = "GLIBC_2.2.5";
  constexpr char kWant[] = "GLIBC_9.9.9";
  for (size_t at = 0; (at = library.find(kHave, at)) != std::string::npos; ++at) {
    library.replace(at, sizeof(kWant) - 1, kWant);
  }
  const std::string newer = Written("newer.so", library);
  ExpectOne(ProgramObstacles(Written("program", good_), newer), "has a loader that does not load the library");
}

TEST_F(ProgramObstaclesTest, ALibraryThatIsNotThere) {
  ExpectOne(ProgramObstacles(Written("program", good_), folder_ / "gone.so"), "cannot be preloaded");
}

// Its runtime is known by its name; this one does nothing.
TEST_F(ProgramObstaclesTest, AddressSanitizer) {
  NEEDS_NO_SANITIZER("the library of this build has a sanitizer in it");
  ExpectOne(Of(SANITIZED_PROGRAM), "is built with AddressSanitizer");
}

}  // namespace
}  // namespace slipstream::cli
