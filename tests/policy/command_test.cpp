#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "policy/load.h"
#include "policy/options.h"
#include "tests/support/process.h"
#include "tools/cli/policy_command.h"
#include "tools/text/json_bytes.h"

namespace slipstream::cli {
namespace {

using test::Variables;

using test::Finished;
using test::Folder;
using test::InChild;
using test::ModeOf;
using test::ReadFile;
using test::WriteFile;

// In a child, with no variable but the given one and one that leaves out this machine's own policy, so that neither the
// tester's environment nor a test changes the others.
template <typename Command>
Finished RunCommand(Command command, const std::string& variable = "") {
  return InChild([&] {
    static std::string entry;  // static, both: environ outlives this function
    static std::string no_system = "SLIPSTREAM_SYSTEM_DIRECTORY=";
    static char* entries[3];
    entry = variable;
    entries[0] = no_system.data();
    entries[1] = variable.empty() ? nullptr : entry.data();
    environ = entries;
    const int status = command();
    ::fflush(nullptr);
    return status;
  });
}

TEST(PolicyCheck, SaysThatAGoodFileIsOk) {
  const Folder folder;
  const std::string path = folder / "p.toml";
  WriteFile(path, "version = 1\n");
  const Finished check = RunCommand([&] { return PolicyCheck(path); });
  EXPECT_EQ(check.status, 0);
  EXPECT_EQ(check.out, path + ": ok\n");
  EXPECT_EQ(check.err, "");
}

TEST(PolicyCheck, PrintsEveryProblem) {
  const Folder folder;
  const std::string path = folder / "p.toml";
  WriteFile(path, "version = 1\nenabled = 3\n[alocator]\nmode = \"off\"\n");
  const Finished check = RunCommand([&] { return PolicyCheck(path); }, "SLIPSTREAM_LOG_LEVEL=loud");
  EXPECT_EQ(check.status, 1);
  EXPECT_EQ(check.out, "");
  EXPECT_EQ(check.err, path + ":2:11: \"enabled\": found 3, expected true or false\n" + path +
                           ":4:1: unknown key \"alocator.mode\"; did you mean \"allocator.mode\"?\n" +
                           "environment variable SLIPSTREAM_LOG_LEVEL: found \"loud\", expected \"off\", \"error\", "
                           "\"warn\", \"info\" or \"debug\"\n");
}

TEST(PolicyCheck, AKeyThatIsGoneIsAcceptedWithANote) {
  const Folder folder;
  const std::string path = folder / "p.toml";
  WriteFile(path, "version = 1\n[allocator]\n  pinned = \"pool\"\nmax_idle_pinned = []\npinned_fill_from = 3\n");
  const std::string note =
      "\" has no effect any more: the pinned pool was removed, because it was slower than the driver's own; take it "
      "out\n";
  const Finished check = RunCommand([&] { return PolicyCheck(path); }, "SLIPSTREAM_ALLOCATOR_PINNED=pool");
  EXPECT_EQ(check.status, 0);
  EXPECT_EQ(check.out, path + ": ok\n");
  EXPECT_EQ(check.err, path + ":3:3: \"allocator.pinned" + note + path + ":4:1: \"allocator.max_idle_pinned" + note +
                           path + ":5:1: \"allocator.pinned_fill_from" + note +
                           "environment variable SLIPSTREAM_ALLOCATOR_PINNED: \"allocator.pinned" + note);
  for (const bool json : {false, true}) {
    const Finished show = RunCommand([&] { return PolicyShow(path, json); });
    EXPECT_EQ(show.status, 0);
    EXPECT_EQ(show.out.find("allocator.pinned"), std::string::npos) << show.out;
  }
}

TEST(PolicyCheck, AValueThatIsGoneIsReadAsTheOneThatReplacesIt) {
  const Folder folder;
  const std::string path = folder / "p.toml";
  WriteFile(path, "version = 1\nallocator.mode = \"stream_ordered\"\n");
  const std::string note =
      ": allocator.mode = \"stream_ordered\" is read as \"expandable\": slipstream's own heap for cudaMallocAsync was "
      "removed, because PyTorch's expandable segments reserve less\n";
  const Finished check = RunCommand([&] { return PolicyCheck(path); });
  EXPECT_EQ(check.status, 0);
  EXPECT_EQ(check.err, path + ":2:18" + note);
  const Finished both = RunCommand([&] { return PolicyCheck(path); }, "SLIPSTREAM_ALLOCATOR_MODE=stream_ordered");
  EXPECT_EQ(both.err, path + ":2:18" + note + "environment variable SLIPSTREAM_ALLOCATOR_MODE" + note);
  const Finished show = RunCommand([&] { return PolicyShow(path, false); });
  EXPECT_NE(show.out.find("allocator.mode                \"expandable\""), std::string::npos) << show.out;
  // Only of the key that had it.
  WriteFile(path, "version = 1\ntransfer.h2d = \"stream_ordered\"\n");
  EXPECT_EQ(RunCommand([&] { return PolicyCheck(path); }).status, 1);
}

TEST(PolicyCheck, AMissingFileIsAProblem) {
  const Finished check = RunCommand([] { return PolicyCheck("/nonexistent.toml"); });
  EXPECT_EQ(check.status, 1);
  EXPECT_EQ(check.err, "/nonexistent.toml: cannot be opened: No such file or directory\n");
}

TEST(PolicyShow, PrintsValuesWithTheirOrigin) {
  const Folder folder;
  WriteFile(folder / "p.toml",
            "version = 1\nlog.max_size = 65536\nchildren.drop = [\"a\", \"*/x\"]\n[transfer]\nskip_synchronize = "
            "false\n[environment]\nA = \"b\"\n");
  const Finished show = RunCommand(
      [&] {
        if (::chdir(folder.path().c_str()) != 0) return 2;
        return PolicyShow("p.toml", false);
      },
      "SLIPSTREAM_TRACER_NVTX=false");
  EXPECT_EQ(show.status, 0) << show.err;
  EXPECT_EQ(show.out,
            "version                       1                 p.toml:1\n"
            "enabled                       true              default\n"
            "log.level                     \"off\"             default\n"
            "log.file                      \"\"                default\n"
            "log.max_size                  \"64KiB\"           p.toml:2\n"
            "intercept.level               \"runtime\"         default\n"
            "run.watcher                   \"auto\"            default\n"
            "run.summaries                 \"\"                default\n"
            "run.summaries_mode            \"private\"         default\n"
            "children.preload              \"all\"             default\n"
            "children.keep                 []                default\n"
            "children.drop                 [\"a\", \"*/x\"]      p.toml:3\n"
            "allocator.mode                \"segments\"        default\n"
            "allocator.free_synchronizes   false             default\n"
            "allocator.max_idle            \"0B\"              default\n"
            "allocator.keep_free           \"512MiB\"          default\n"
            "allocator.decay               2                 default\n"
            "allocator.pre_reserve         \"0B\"              default\n"
            "allocator.pre_reserve_block   \"20MiB\"           default\n"
            "transfer.h2d                  \"on\"              default\n"
            "transfer.d2h                  \"on\"              default\n"
            "transfer.small_copies         true              default\n"
            "transfer.large_copies         true              default\n"
            "transfer.skip_synchronize     false             p.toml:5\n"
            "transfer.skip_with_rdma       false             default\n"
            "transfer.hmm                  \"assume_private\"  default\n"
            "transfer.threads              0                 default\n"
            "transfer.max_pinned           \"512MiB\"          default\n"
            "transfer.max_mirrored         \"0B\"              default\n"
            "transfer.device_staging       \"1GiB\"            default\n"
            "transfer.verify               false             default\n"
            "transfer.start                \"background\"      default\n"
            "transfer.unmap_in_background  true              default\n"
            "host.huge_pages               \"auto\"            default\n"
            "host.max_kept                 \"1GiB\"            default\n"
            "tracer.counters               \"time\"            default\n"
            "tracer.nvtx                   false             SLIPSTREAM_TRACER_NVTX\n"
            "tracer.max_threads            64                default\n"
            "tracer.record                 \"off\"             default\n"
            "tracer.stacks                 \"line\"            default\n"
            "tracer.device                 \"cupti\"           default\n"
            "tracer.device_after           0                 default\n"
            "tracer.device_for             0                 default\n"
            "tracer.ranges                 true              default\n"
            "tracer.command_line           false             default\n"
            "tracer.max_file               \"256MiB\"          default\n"
            "tracer.keep                   \"first\"           default\n"
            "tracer.window                 \"\"                default\n"
            "environment.A                 \"b\"               p.toml:7\n"
            "\n"
            "Files, each over those above it, and variables over all:\n"
            "system   /etc/slipstream  not looked for: SLIPSTREAM_SYSTEM_DIRECTORY is empty\n"
            "user     not looked for: the command line names a file\n"
            "project  not looked for: the command line names a file\n"
            "named    p.toml           read\n");
}

TEST(PolicyShow, PrintsWhatRulesSetBehindTheirTable) {
  const Folder folder;
  WriteFile(folder / "p.toml",
            "version = 1\n[[transfer.rule]]\nname = \"n\"\nmin_size = \"1MiB\"\npromote = false\n"
            "[[transfer.rule]]\ndirection = \"d2h\"\nskip_synchronize = false\n");
  const auto show = [&](bool json) {
    return RunCommand([&] {
      if (::chdir(folder.path().c_str()) != 0) return 2;
      return PolicyShow("p.toml", json);
    });
  };
  const std::string text = show(false).out;
  const std::size_t begin = text.find("transfer.unmap_in_background");
  EXPECT_EQ(text.substr(begin, text.find("tracer.nvtx") - begin),
            "transfer.unmap_in_background       true              default\n"
            "transfer.rule[1].name              \"n\"               p.toml:3\n"
            "transfer.rule[1].min_size          \"1MiB\"            p.toml:4\n"
            "transfer.rule[1].promote           false             p.toml:5\n"
            "transfer.rule[2].direction         \"d2h\"             p.toml:7\n"
            "transfer.rule[2].skip_synchronize  false             p.toml:8\n"
            "host.huge_pages                    \"auto\"            default\n"
            "host.max_kept                      \"1GiB\"            default\n"
            "tracer.counters                    \"time\"            default\n");
  const nlohmann::json json = nlohmann::json::parse(show(true).out);
  EXPECT_EQ(json["policy"]["transfer"]["rule"],
            (nlohmann::json::array({{{"name", "n"}, {"min_size", 1 << 20}, {"promote", false}},
                                    {{"direction", "d2h"}, {"skip_synchronize", false}}})));
  EXPECT_EQ(json["origins"]["transfer.rule[1].min_size"],
            (nlohmann::json{{"kind", "file"}, {"layer", "named"}, {"file", "p.toml"}, {"line", 4}, {"column", 12}}));
  EXPECT_FALSE(json["origins"].contains("transfer.rule[2].min_size"));
}

TEST(PolicyShow, ListsAreArraysInJson) {
  const Finished show = RunCommand([] { return PolicyShow(std::nullopt, true); }, "SLIPSTREAM_CHILDREN_KEEP=a:*/b");
  const nlohmann::json json = nlohmann::json::parse(show.out);
  EXPECT_EQ(json["policy"]["children"]["keep"], (nlohmann::json::array({"a", "*/b"})));
  EXPECT_EQ(json["policy"]["children"]["drop"], nlohmann::json::array());
}

// The commands in a child whose working directory is a project, under a user's and a system's policy.
template <typename Command>
Finished InLayers(const Folder& root, Command command) {
  const std::string user = root / "home/.config/slipstream";
  const std::string project = root / "home/project";
  std::filesystem::create_directories(user);
  std::filesystem::create_directories(root / "home/project/.git");
  std::filesystem::create_directories(root / "etc");
  WriteFile(root / "etc/policy.toml", "version = 1\n[transfer]\nh2d = \"off\"\n");
  WriteFile(user + "/policy.toml", "version = 1\n[log]\nlevel = \"warn\"\n");
  return InChild([&] {
    static std::string home = "HOME=" + (root / "home");
    static std::string system = "SLIPSTREAM_SYSTEM_DIRECTORY=" + (root / "etc");
    static char* entries[] = {home.data(), system.data(), nullptr};
    environ = entries;
    if (::chdir(project.c_str()) != 0) return 99;
    const int status = command();
    ::fflush(nullptr);
    return status;
  });
}

TEST(PolicyShow, NamesTheLayerOfEveryValueAndEveryPlaceThatWasLookedAt) {
  const Folder root;
  const std::string out = InLayers(root, [] { return PolicyShow(std::nullopt, false); }).out;
  EXPECT_NE(out.find("\"off\"             system " + (root / "etc/policy.toml:3") + "\n"), std::string::npos) << out;
  EXPECT_NE(out.find("\"warn\"            user " + (root / "home/.config/slipstream/policy.toml:3") + "\n"),
            std::string::npos)
      << out;
  const auto padded = [&](const std::string& path) {
    const std::size_t width = (root / "home/.config/slipstream/policy.toml").size() + 2;
    return path + std::string(width - path.size(), ' ');
  };
  EXPECT_EQ(out.substr(out.find("Files, each")),
            "Files, each over those above it, and variables over all:\n"
            "system   " +
                padded(root / "etc/policy.toml") +
                "read\n"
                "system   " +
                padded(root / "etc/policy.d/*.toml") +
                "not there\n"
                "user     " +
                padded(root / "home/.config/slipstream/policy.toml") +
                "read\n"
                "project  " +
                padded(root / "home/project/slipstream.toml") + "not there\n");

  const auto json = nlohmann::json::parse(InLayers(root, [] { return PolicyShow(std::nullopt, true); }).out);
  EXPECT_TRUE(json["path"].is_null());
  EXPECT_EQ(json["origins"]["transfer.h2d"]["layer"], "system");
  EXPECT_EQ(json["origins"]["transfer.h2d"]["line"], 3);
  ASSERT_EQ(json["layers"].size(), 4U);
  EXPECT_EQ(json["layers"][2], (nlohmann::json{{"layer", "user"},
                                               {"file", root / "home/.config/slipstream/policy.toml"},
                                               {"found", true},
                                               {"note", nullptr}}));
  EXPECT_EQ(json["layers"][3]["found"], false);
}

TEST(PolicyCheck, WithoutAFileChecksEveryLayer) {
  const Folder root;
  const Finished good = InLayers(root, [] { return PolicyCheck(std::nullopt); });
  EXPECT_EQ(good.status, 0);
  EXPECT_NE(good.out.find("home/.config/slipstream/policy.toml  ok\n"), std::string::npos) << good.out;
  std::filesystem::create_directories(root / "home/project");
  WriteFile(root / "home/project/slipstream.toml", "version = 1\nenabeld = false\n");
  const Finished bad = InLayers(root, [] { return PolicyCheck(std::nullopt); });
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.out, "");
  EXPECT_EQ(bad.err,
            (root / "home/project/slipstream.toml") + ":2:1: unknown key \"enabeld\"; did you mean \"enabled\"?\n");
  // A file for itself, as before there were layers.
  WriteFile(root / "p.toml", "version = 1\n");
  EXPECT_EQ(InLayers(root, [&] { return PolicyCheck(root / "p.toml"); }).out, (root / "p.toml") + ": ok\n");
}

TEST(PolicyShow, WithoutAPathTakesTheVariable) {
  const Folder folder;
  WriteFile(folder / "p.toml", "version = 1\nenabled = false\n");
  const Finished none = RunCommand([] { return PolicyShow(std::nullopt, false); });
  EXPECT_NE(none.out.find("enabled                       true"), std::string::npos) << none.out;
  const Finished named =
      RunCommand([] { return PolicyShow(std::nullopt, false); }, "SLIPSTREAM_POLICY=" + (folder / "p.toml"));
  EXPECT_NE(named.out.find("enabled                       false"), std::string::npos) << named.out;
}

TEST(PolicyShow, RefusesABrokenPolicy) {
  const Finished show = RunCommand([] { return PolicyShow(std::nullopt, true); }, "SLIPSTREAM_LOG_LEVLE=debug");
  EXPECT_EQ(show.status, 1);
  EXPECT_EQ(show.out, "");
  EXPECT_EQ(show.err,
            "environment variable SLIPSTREAM_LOG_LEVLE: not one that slipstream knows; did you mean "
            "\"SLIPSTREAM_LOG_LEVEL\"?\n");
}

TEST(PolicyShow, JsonHoldsEveryKeyWithItsOrigin) {
  const Folder folder;
  const std::string path = folder / "p.toml";
  WriteFile(path, "version = 1\nlog.max_size = \"1MB\"\n[environment]\nA = \"b\"\n");
  // Any bytes may stand in a variable, and come back.
  const Finished show = RunCommand([&] { return PolicyShow(path, true); }, "SLIPSTREAM_LOG_FILE=/tmp/\xff");
  ASSERT_EQ(show.status, 0) << show.err;
  const nlohmann::json json = text::ParseBytes(show.out);
  EXPECT_EQ(json["path"], path);
  EXPECT_EQ(json["policy"]["log"]["max_size"], 1000000);
  EXPECT_EQ(json["policy"]["log"]["file"], "/tmp/\xff");
  EXPECT_EQ(json["policy"]["environment"], (nlohmann::json{{"A", "b"}}));
  EXPECT_EQ(json["origins"]["log.max_size"],
            (nlohmann::json{{"kind", "file"}, {"layer", "named"}, {"file", path}, {"line", 2}, {"column", 16}}));
  EXPECT_EQ(json["origins"]["log.file"],
            (nlohmann::json{{"kind", "environment"}, {"variable", "SLIPSTREAM_LOG_FILE"}}));
  EXPECT_EQ(json["origins"]["enabled"], (nlohmann::json{{"kind", "default"}}));
  EXPECT_EQ(json["origins"]["environment.A"]["line"], 4);
  for (const policy::Option& option : policy::Options()) {
    const nlohmann::json& table = option.table.empty() ? json["policy"] : json["policy"][std::string(option.table)];
    EXPECT_TRUE(table.contains(std::string(option.key))) << policy::KeyOf(option);
    EXPECT_TRUE(json["origins"].contains(policy::KeyOf(option)));
  }
  EXPECT_EQ(json["policy"]["tracer"]["counters"], "time");

  const Finished bare = RunCommand([] { return PolicyShow(std::nullopt, true); });
  EXPECT_TRUE(nlohmann::json::parse(bare.out)["path"].is_null());
}

TEST(PolicyShow, DimsDefaultsOnATerminalOnly) {
  const auto on_terminal = [](const std::string& variable) {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_GE(terminal, 0);
    EXPECT_EQ(::grantpt(terminal), 0);
    EXPECT_EQ(::unlockpt(terminal), 0);
    const int inner = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
    EXPECT_GE(inner, 0);
    const Finished show = RunCommand(
        [&] {
          ::dup2(inner, STDOUT_FILENO);
          return PolicyShow(std::nullopt, false);
        },
        variable);
    EXPECT_EQ(show.status, 0);
    // All of it is in the terminal's buffer by now; `inner` kept it open.
    char buffer[8192];
    const ssize_t count = ::read(terminal, buffer, sizeof(buffer));
    ::close(inner);
    ::close(terminal);
    return std::string(buffer, count < 0 ? 0 : static_cast<std::size_t>(count));
  };
  const std::string colored = on_terminal("SLIPSTREAM_ENABLED=false");
  EXPECT_NE(colored.find("\033[2mversion"), std::string::npos) << colored;
  EXPECT_NE(colored.find("\nenabled"), std::string::npos) << colored;  // Not a default: not dimmed.
  EXPECT_EQ(on_terminal("NO_COLOR=1").find('\033'), std::string::npos);
  EXPECT_EQ(on_terminal("TERM=dumb").find('\033'), std::string::npos);
  EXPECT_EQ(RunCommand([] { return PolicyShow(std::nullopt, false); }).out.find('\033'), std::string::npos);
}

TEST(PolicyShow, AFullDiskIsAnError) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const Finished show = RunCommand([] {
    ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
    return PolicyShow(std::nullopt, false);
  });
  EXPECT_EQ(show.status, 1);
  EXPECT_EQ(show.err, "slipstream policy: standard output: No space left on device\n");
}

TEST(PolicyInit, WritesAPolicyThatPassesTheCheckAndIsTheDefaults) {
  const Folder folder;
  const std::string path = folder / "p.toml";
  const Finished init = RunCommand([&] {
    ::umask(0);
    return PolicyInit(path, false);
  });
  EXPECT_EQ(init.status, 0) << init.err;
  EXPECT_EQ(init.out, "Wrote " + path + ": every key, commented out at its default.\n");
  EXPECT_EQ(ModeOf(path), 0644U);
  EXPECT_EQ(RunCommand([&] { return PolicyCheck(path); }).out, path + ": ok\n");
  const policy::Loaded loaded = policy::Load({.path = path, .env = policy::Environment(Variables{})});
  EXPECT_EQ(loaded.policy, policy::Policy());
}

TEST(PolicyInit, ReplacesOnlyWithForce) {
  const Folder folder;
  const std::string path = folder / "p.toml";
  WriteFile(path, "mine\n", 0600);
  const Finished refused = RunCommand([&] { return PolicyInit(path, false); });
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err, path + ": exists; --force replaces it\n");
  EXPECT_EQ(ReadFile(path), "mine\n");

  const Finished forced = RunCommand([&] {
    ::umask(022);
    return PolicyInit(path, true);
  });
  EXPECT_EQ(forced.status, 0) << forced.err;
  EXPECT_EQ(RunCommand([&] { return PolicyCheck(path); }).status, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "something was left behind";
}

TEST(PolicyInit, FollowsNoDanglingLink) {
  const Folder folder;
  ASSERT_EQ(::symlink((folder / "elsewhere").c_str(), (folder / "p.toml").c_str()), 0);
  EXPECT_EQ(RunCommand([&] { return PolicyInit(folder / "p.toml", false); }).status, 1);
  EXPECT_NE(::access((folder / "elsewhere").c_str(), F_OK), 0);
}

TEST(PolicyInit, SaysWhyItCannotWrite) {
  const Folder folder;
  EXPECT_EQ(RunCommand([&] { return PolicyInit(folder / "missing/p.toml", false); }).err,
            folder / "missing/p.toml: cannot be written: No such file or directory\n");
  const Finished directory = RunCommand([&] {
    ::mkdir((folder / "d").c_str(), 0755);
    return PolicyInit(folder / "d", true);
  });
  EXPECT_EQ(directory.status, 1);
  EXPECT_EQ(directory.err, folder / "d: cannot be replaced: Is a directory\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "something was left behind";
}

}  // namespace
}  // namespace slipstream::cli
