// Which policy files are read at all (S59).

#include "policy/source_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "policy/load.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Variables;

using test::Folder;
using test::WriteFile;

constexpr const char* kGood = "version = 1\n[log]\nlevel = \"warn\"\n";

std::string Result(const std::string& path, const Environment& env = Environment(Variables{})) {
  const Loaded loaded = Load({.path = path, .env = env});
  if (loaded.ok()) return loaded.policy.log.level == LogLevel::kWarn ? "read" : "not read";
  std::string out;
  for (const Problem& problem : loaded.problems) out += problem.Format() + "\n";
  return out;
}

TEST(SourceFile, AFileOfOnesOwnIsRead) {
  const Folder folder;
  for (const mode_t mode : {0400U, 0600U, 0644U, 0664U}) {
    WriteFile(folder / "p.toml", kGood, mode);
    EXPECT_EQ(Result(folder / "p.toml"), "read") << std::oct << mode;
    ::unlink((folder / "p.toml").c_str());
  }
}

TEST(SourceFile, TheVariableNamesItUnlessThePathDoes) {
  const Folder folder;
  WriteFile(folder / "p.toml", kGood);
  const Environment env(Variables{{kPolicyVariable, folder / "p.toml"}});
  const Loaded loaded = Load({.path = std::nullopt, .env = env});
  EXPECT_EQ(loaded.policy.log.level, LogLevel::kWarn);
  EXPECT_EQ(loaded.path, folder / "p.toml");
  EXPECT_EQ(loaded.origins.at("log.level").Format(), folder / "p.toml:3");
  EXPECT_EQ(Result(folder / "q.toml", env), folder / "q.toml: cannot be opened: No such file or directory\n");
  EXPECT_FALSE(Load({.path = std::nullopt, .env = Environment(Variables{{kPolicyVariable, ""}})}).path);
}

TEST(SourceFile, MissingDirectoryFifoAndEmptyNameAreProblems) {
  const Folder folder;
  EXPECT_EQ(Result(folder / "p.toml"), folder / "p.toml: cannot be opened: No such file or directory\n");
  EXPECT_EQ(Result(folder.path()), folder.path() + ": is a directory, expected a policy file\n");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(Result(folder / "fifo"), folder / "fifo: is not a regular file\n");
  EXPECT_EQ(Result("/dev/null"), "/dev/null: is not a regular file\n");
  EXPECT_EQ(Result(""), "policy file: the name is empty\n");
  EXPECT_EQ(Result(folder / "p.toml/x"), folder / "p.toml/x: cannot be opened: No such file or directory\n");
}

TEST(SourceFile, UnreadableIsAProblem) {
  const Folder folder;
  WriteFile(folder / "p.toml", kGood, 0600);
  const test::Finished child = test::InChild([&] {
    if (::geteuid() != 0) ::chmod((folder / "p.toml").c_str(), 0);
    if (!test::BecomeNobody()) return 2;
    return Result(folder / "p.toml") == folder / "p.toml: cannot be opened: Permission denied\n" ? 0 : 1;
  });
  EXPECT_EQ(child.status, 0);
}

TEST(SourceFile, TooLargeIsAProblemAndTheLimitIsNot) {
  const Folder folder;
  std::string text = kGood;
  text.resize(kMaxFileSize, '\n');
  WriteFile(folder / "p.toml", text);
  EXPECT_EQ(Result(folder / "p.toml"), "read");
  WriteFile(folder / "p.toml", text + "\n");
  EXPECT_EQ(Result(folder / "p.toml"), folder / "p.toml: is larger than 1MiB, the most that is read\n");
}

TEST(S59_SourceFile, AFileThatEverybodyMayWriteIsRefused) {
  const Folder folder;
  for (const mode_t mode : {0666U, 0602U, 0777U}) {
    WriteFile(folder / "p.toml", kGood, mode);
    EXPECT_EQ(Result(folder / "p.toml"),
              folder / "p.toml: everybody may write it; refused until \"chmod o-w\" is done\n");
  }
}

TEST(S59_SourceFile, AFileOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of somebody else's";
  const Folder folder;
  const std::string path = folder / "p.toml";
  WriteFile(path, kGood);
  const auto as = [&](uid_t user) {
    const test::Finished child = test::InChild([&] {
      if (::setgid(user) != 0 || ::setuid(user) != 0) return 2;
      const std::string result = Result(path);
      return std::fwrite(result.data(), 1, result.size(), stdout) == result.size() ? std::fflush(stdout) : 3;
    });
    return child.status == 0 ? child.out : "exit code " + std::to_string(child.status);
  };
  EXPECT_EQ(as(4242), "read") << "root's files are everybody's";
  ASSERT_EQ(::chown(path.c_str(), 4242, 4242), 0);
  EXPECT_EQ(as(4242), "read");
  EXPECT_EQ(as(4243),
            path + ": belongs to user 4242, who is neither you (4243) nor root; refused: use a copy of your own\n");
  EXPECT_EQ(Result(path),
            path + ": belongs to user 4242, who is neither you (0) nor root; refused: use a copy of your own\n");

  // Whoever owns the link says where it leads.
  ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(::symlink(path.c_str(), (folder / "link.toml").c_str()), 0);
  EXPECT_EQ(Result(folder / "link.toml"), "read");
  ASSERT_EQ(::lchown((folder / "link.toml").c_str(), 4242, 4242), 0);
  EXPECT_EQ(
      Result(folder / "link.toml"),
      (folder / "link.toml") +
          ": is a symbolic link of user 4242, who is neither you (0) nor root; refused: use a copy of your own\n");
}

TEST(S59_SourceFile, AFileThatEverybodyMayReplaceIsRefused) {
  const Folder folder;
  const std::string open = folder / "open";
  ASSERT_EQ(::mkdir(open.c_str(), 0755), 0);
  WriteFile(open + "/p.toml", kGood);
  ASSERT_EQ(::symlink((open + "/p.toml").c_str(), (folder / "link.toml").c_str()), 0);
  ASSERT_EQ(::symlink((folder / "real.toml").c_str(), (open + "/link.toml").c_str()), 0);
  WriteFile(folder / "real.toml", kGood);
  const auto refused = [&open](const std::string& name) {
    return name + ": everybody may replace it, because everybody may write its folder \"" + open +
           "\"; refused until \"chmod o-w\" or \"chmod +t\" is done there\n";
  };

  ASSERT_EQ(::chmod(open.c_str(), 0777), 0);
  EXPECT_EQ(Result(open + "/p.toml"), refused(open + "/p.toml"));
  EXPECT_EQ(Result(folder / "link.toml"), refused(folder / "link.toml"));  // The file is there.
  EXPECT_EQ(Result(open + "/link.toml"), refused(open + "/link.toml"));    // The link is.

  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);  // Sticky, as /tmp is.
  EXPECT_EQ(Result(open + "/p.toml"), "read");
  ASSERT_EQ(::chmod(open.c_str(), 0775), 0);
  EXPECT_EQ(Result(open + "/p.toml"), "read");
  EXPECT_EQ(Result(folder / "link.toml"), "read");
}

TEST(S59_SourceFile, ANameWithoutAFolderIsInTheWorkingDirectory) {
  const Folder folder;
  const Folder safe;
  WriteFile(safe / "real.toml", kGood);
  ASSERT_EQ(::symlink((safe / "real.toml").c_str(), (folder / "p.toml").c_str()), 0);
  const test::Finished child = test::InChild([&] {
    if (::chdir(folder.path().c_str()) != 0) return 2;
    if (Result("p.toml") != "read") return 3;
    ::chmod(folder.path().c_str(), 0777);
    return Result("p.toml").starts_with("p.toml: everybody may replace it") ? 0 : 4;
  });
  EXPECT_EQ(child.status, 0);
}

}  // namespace
}  // namespace slipstream::policy
