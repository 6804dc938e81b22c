// `slipstream policy explain`: what it prints, and that it says what the engine's own function says.

#include "tools/cli/policy_explain.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "policy/load.h"
#include "policy/transfer_plan.h"
#include "tests/support/process.h"
#include "tools/cli/exit_codes.h"
#include "transfer/decision.h"

namespace slipstream::cli {
namespace {

using test::Finished;
using test::Folder;
using test::InChild;
using test::WriteFile;

constexpr char kPolicy[] =
    "version = 1\n"
    "[transfer]\n"
    "threads = 3\n"
    "h2d = \"off\"\n"
    "[[transfer.rule]]\n"
    "name = \"large batches wait\"\n"
    "direction = \"h2d\"\n"
    "min_size = \"64MiB\"\n"
    "promote = true\n"
    "skip_synchronize = false\n"
    "[[transfer.rule]]\n"
    "direction = \"h2d\"\n"
    "min_size = 4096\n"
    "promote = true\n"
    "[[transfer.rule]]\n"
    "device = 1\n"
    "promote = false\n";

// In a child whose working directory is `folder` and whose only variable is the given one.
Finished ExplainIn(const Folder& folder, const ExplainOptions& options, const std::string& variable = "") {
  return InChild([&] {
    if (::chdir(folder.path().c_str()) != 0) return 99;
    static std::string entry;  // static, both: environ outlives this function
    static char* entries[2];
    entry = variable;
    entries[0] = entry.data();
    environ = entries;
    const int status = PolicyExplain(options);
    ::fflush(nullptr);
    return status;
  });
}

class PolicyExplainTest : public ::testing::Test {
 protected:
  PolicyExplainTest() { WriteFile(folder_ / "p.toml", kPolicy); }

  Finished Of(const std::string& size, const std::string& direction, const std::string& device = "0") {
    return ExplainIn(folder_, {.size = size, .direction = direction, .device = device, .policy = "p.toml"});
  }

  const Folder folder_;
};

constexpr std::string_view kDeclinedConditions =
    "\n"
    "Looked at for every copy, if the engine serves the process (`slipstream doctor`). The program's own call is made, "
    "and counted, where:\n"
    "  transfer.h2d.declined.starting       staging memory is still being pinned\n"
    "  transfer.h2d.declined.no_memory      no memory could be pinned for staging\n"
    "  transfer.h2d.declined.full           all staging memory is in flight\n"
    "  transfer.h2d.declined.device         of more than 2 MiB, which the device has no staging memory for\n"
    "  transfer.h2d.declined.source         the source is not pageable memory\n"
    "  transfer.h2d.declined.destination    the destination is not plain memory of the device\n"
    "  transfer.h2d.declined.capture        a stream is being captured\n"
    "  transfer.h2d.declined.host_effect    earlier work may still write the source\n"
    "  transfer.h2d.declined.system_memory  the device reaches host memory by itself\n"
    "  transfer.h2d.declined.threads        of up to 64 KiB, beside another thread that has work of its own on another "
    "stream\n"
    "  transfer.h2d.declined.context        a context or a runtime that the engine does not serve\n"
    "  transfer.h2d.declined.driver         the driver is older than CUDA 12.5\n"
    "  transfer.h2d.declined.verify         a copy before did not arrive as its source was\n"
    "  transfer.h2d.declined.error          a driver call failed\n";

constexpr std::string_view kKeptConditions =
    "\n"
    "The synchronization is made, and counted, where:\n"
    "  transfer.sync.kept.host_effect  another stream may still use host memory\n"
    "  transfer.sync.kept.capture      a stream is being captured\n"
    "  transfer.sync.kept.contexts     more than one device context\n"
    "  transfer.sync.kept.mapped       the program uses managed or mapped host memory\n"
    "  transfer.sync.kept.printf       the program's kernels print\n"
    "  transfer.sync.kept.shared       memory is shared with other processes or devices\n"
    "  transfer.sync.kept.rdma         a transport may read the memory\n"
    "  transfer.sync.kept.threads      another thread has work of its own on another stream\n"
    "  transfer.sync.kept.error        a driver call failed\n";

TEST_F(PolicyExplainTest, ARulePromotesAndKeepsTheWait) {
  const Finished run = Of("80MB", "h2d");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(run.out,
            "copy         80MB (80000000B) to device 0 from pageable memory\n"
            "rule         transfer.rule[1] \"large batches wait\" (p.toml:5) is the first that matches\n"
            "promoted     yes: transfer.rule[1].promote = true (p.toml:9)\n"
            "way          the ring of staging memory, in pieces of 1MiB\n"
            "device       by way of as much memory of its own: transfer.device_staging = \"1GiB\" (default)\n"
            "threads      3 threads: transfer.threads = 3 (p.toml:3)\n"
            "wait         made: transfer.rule[1].skip_synchronize = false (p.toml:10)\n" +
                std::string(kDeclinedConditions));
}

TEST_F(PolicyExplainTest, ASmallCopyWhoseWaitMayBeSkipped) {
  EXPECT_EQ(Of("4KiB", "h2d").out,
            "copy         4KiB (4096B) to device 0 from pageable memory\n"
            "rule         transfer.rule[2] (p.toml:11) is the first that matches\n"
            "promoted     yes: transfer.rule[2].promote = true (p.toml:14)\n"
            "way          the driver's own, which takes the bytes at once\n"
            "wait         may be skipped: transfer.skip_synchronize = true (default)\n" +
                std::string(kDeclinedConditions) + std::string(kKeptConditions));
}

TEST_F(PolicyExplainTest, WhatAKeyLeavesAlone) {
  EXPECT_EQ(Of("7", "h2d").out,
            "copy         7B to device 0 from pageable memory\n"
            "rule         none of 3 matches\n"
            "promoted     no: transfer.h2d = \"off\" (p.toml:4)\n"
            "way          the program's own call\n"
            "counted      transfer.h2d.declined.off\n");
}

TEST_F(PolicyExplainTest, WhatARuleLeavesAlone) {
  EXPECT_EQ(Of("7", "h2d", "1").out,
            "copy         7B to device 1 from pageable memory\n"
            "rule         transfer.rule[3] (p.toml:15) is the first that matches\n"
            "promoted     no: transfer.rule[3].promote = false (p.toml:17)\n"
            "way          the program's own call\n"
            "counted      transfer.h2d.declined.rule\n");
}

TEST_F(PolicyExplainTest, CopiesToTheHost) {
  const Finished run = ExplainIn(folder_, {.size = "1MiB", .direction = "d2h"});
  EXPECT_EQ(run.out.substr(0, run.out.find("threads ")),
            "copy         1MiB (1048576B) from device 0 to pageable memory\n"
            "rule         the policy has none\n"
            "promoted     yes: transfer.d2h = \"on\" (default)\n"
            "way          the ring of staging memory, in pieces of 512KiB\n");
  EXPECT_NE(run.out.find(" on this machine: by its processors;"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\nwait         made: the copy is complete when its call returns\n"), std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("\n  transfer.d2h.declined.kernel   the system cannot prepare pages (before Linux 5.14)\n"),
            std::string::npos)
      << run.out;
  EXPECT_EQ(run.out.find("transfer.sync.kept."), std::string::npos) << run.out;

  EXPECT_EQ(ExplainIn(folder_, {.size = "64KiB", .direction = "d2h"}).out,
            "copy         64KiB (65536B) from device 0 to pageable memory\n"
            "rule         the policy has none\n"
            "promoted     no: copies to the host of up to 64KiB never are\n"
            "way          the program's own call\n"
            "counted      transfer.d2h.declined.small\n");
  // Nobody looks at them at all.
  EXPECT_EQ(ExplainIn(folder_, {.size = "1MiB", .direction = "d2h"}, "SLIPSTREAM_TRANSFER_D2H=off").out,
            "copy         1MiB (1048576B) from device 0 to pageable memory\n"
            "rule         the policy has none\n"
            "promoted     no: transfer.d2h = \"off\" (SLIPSTREAM_TRANSFER_D2H)\n"
            "way          the program's own call\n"
            "counted      not at all\n");
}

// Large ones come in pieces of huge pages; and what is longer than one DMA has device memory, or is left alone.
TEST_F(PolicyExplainTest, PiecesAndDeviceMemory) {
  const auto explained = [this](const std::string& size, const std::string& direction, const std::string& variable) {
    return ExplainIn(folder_, {.size = size, .direction = direction}, variable).out;
  };
  EXPECT_NE(explained("8MiB", "d2h", "").find("in pieces of 2MiB\n"), std::string::npos);
  EXPECT_NE(explained("1MiB", "h2d", "").find("\nbusy stream  "), std::string::npos);
  EXPECT_EQ(explained("1MiB", "d2h", "").find("\nbusy stream  "), std::string::npos);
  EXPECT_EQ(explained("1048575", "h2d", "").find("\nbusy stream  "), std::string::npos);
  constexpr const char* kNone = "SLIPSTREAM_TRANSFER_DEVICE_STAGING=63MiB";
  EXPECT_EQ(explained("1MiB", "h2d", kNone).find("\nbusy stream  "), std::string::npos);
  for (const char* direction : {"h2d", "d2h"}) {
    EXPECT_EQ(explained("2MiB", direction, "").find("\ndevice  "), std::string::npos);
    EXPECT_NE(explained("2MiB", direction, kNone).find("\npromoted     yes"), std::string::npos);
    EXPECT_NE(explained("2097153", direction, "").find("\ndevice       by way of as much memory of its own: "),
              std::string::npos);
    const std::string alone = explained("2097153", direction, kNone);
    EXPECT_NE(
        alone.find("\npromoted     no: transfer.device_staging = \"63MiB\" (SLIPSTREAM_TRANSFER_DEVICE_STAGING)\n"),
        std::string::npos)
        << alone;
    EXPECT_NE(alone.find(direction == std::string("h2d") ? "\ncounted      transfer.h2d.declined.device\n"
                                                         : "\ncounted      transfer.d2h.declined.device\n"),
              std::string::npos)
        << alone;
    EXPECT_NE(explained("1GiB", direction, "").find("\npromoted     yes"), std::string::npos);
    EXPECT_NE(explained("1073741825", direction, "").find("\npromoted     no"), std::string::npos);
  }
}

TEST_F(PolicyExplainTest, NothingIsPromotedWhereSlipstreamIsOff) {
  const ExplainOptions copy = {.size = "4KiB", .direction = "h2d", .policy = "p.toml"};
  EXPECT_NE(ExplainIn(folder_, copy, "SLIPSTREAM_DISABLE=1")
                .out.find("\npromoted     no: SLIPSTREAM_DISABLE is set: every call passes through\n"),
            std::string::npos);
  const std::string off = ExplainIn(folder_, copy, "SLIPSTREAM_ENABLED=false").out;
  EXPECT_NE(off.find("\npromoted     no: enabled = false (SLIPSTREAM_ENABLED): every call passes through\n"),
            std::string::npos)
      << off;
  EXPECT_NE(off.find("\ncounted      not at all\n"), std::string::npos) << off;
}

// Every decision of the engine to leave a copy alone or to keep a synchronization is a condition, a new one too.
TEST_F(PolicyExplainTest, NamesEveryReasonOfTheEngine) {
  const std::string up = Of("4KiB", "h2d").out;
  const std::string down = ExplainIn(folder_, {.size = "1MiB", .direction = "d2h"}).out;
  for (const policy::DecisionText& text : transfer::kDecisionTexts) {
    const std::string_view name = text.name;
    const bool by_policy = name.ends_with(".off") || name.ends_with(".rule") || name == "transfer.d2h.declined.small";
    const bool of_up = name.starts_with("transfer.h2d.declined.") || name.starts_with("transfer.sync.kept.");
    const bool of_down = name.starts_with("transfer.d2h.declined.");
    const std::string line = "\n  " + std::string(name) + " ";
    EXPECT_EQ(up.find(line) != std::string::npos, of_up && !by_policy) << name;
    EXPECT_EQ(down.find(line) != std::string::npos, of_down && !by_policy) << name;
  }
}

TEST_F(PolicyExplainTest, JsonSaysWhatTheEngineWouldBeTold) {
  const policy::Loaded loaded = policy::LoadText(kPolicy, "p.toml", policy::Environment(test::Variables{}));
  ASSERT_TRUE(loaded.ok()) << loaded.problems[0].Format();
  for (const bool to_host : {false, true}) {
    for (const std::uint64_t bytes : {1U, 4095U, 4096U, 65537U, 80000000U}) {
      for (const int device : {0, 1}) {
        SCOPED_TRACE(std::to_string(bytes) + (to_host ? " d2h " : " h2d ") + std::to_string(device));
        const Finished run = ExplainIn(folder_, {.size = std::to_string(bytes),
                                                 .direction = to_host ? "d2h" : "h2d",
                                                 .device = std::to_string(device),
                                                 .policy = "p.toml",
                                                 .json = true});
        ASSERT_EQ(run.status, 0) << run.err;
        const nlohmann::json json = nlohmann::json::parse(run.out);
        const auto direction = to_host ? policy::Direction::kDeviceToHost : policy::Direction::kHostToDevice;
        const policy::TransferPlan plan = PlanOf(loaded.policy.transfer, direction, bytes, device);
        EXPECT_EQ(json["copy"]["bytes"], bytes);
        EXPECT_EQ(json["promote"]["value"], plan.promote);
        EXPECT_EQ(json["skip_synchronize"]["value"], plan.promote && plan.skip_synchronize);
        EXPECT_EQ(json["rule"].is_null(), plan.rule == policy::TransferPlan::kNoRule);
        if (!json["rule"].is_null()) {
          EXPECT_EQ(json["rule"]["number"], plan.rule + 1);
        }
        EXPECT_EQ(json["staging"].is_null(), !plan.promote || (!to_host && bytes <= policy::kSmallCopyBytes));
      }
    }
  }
  const nlohmann::json json = nlohmann::json::parse(
      ExplainIn(folder_, {.size = "80MB", .direction = "h2d", .policy = "p.toml", .json = true}).out);
  EXPECT_EQ(json["path"], "p.toml");
  EXPECT_EQ(json["copy"],
            (nlohmann::json{{"direction", "h2d"}, {"bytes", 80000000}, {"device", 0}, {"site", nullptr}}));
  EXPECT_EQ(json["rule"]["name"], "large batches wait");
  EXPECT_EQ(json["rule"]["origin"],
            (nlohmann::json{{"kind", "file"}, {"layer", "named"}, {"file", "p.toml"}, {"line", 5}, {"column", 1}}));
  EXPECT_EQ(json["promote"]["by"], "transfer.rule[1].promote");
  EXPECT_EQ(json["promote"]["origin"]["line"], 9);
  EXPECT_EQ(json["skip_synchronize"]["by"], "transfer.rule[1].skip_synchronize");
  EXPECT_EQ(json["staging"], (nlohmann::json{{"kind", "ring"},
                                             {"piece_bytes", 1 << 20},
                                             {"threads", 3},
                                             {"device_memory", true},
                                             {"device_memory_if_busy", true}}));
  EXPECT_EQ(json["checked"]["promote"][0], "transfer.h2d.declined.starting");
  EXPECT_TRUE(json["checked"]["skip_synchronize"].empty());
  EXPECT_TRUE(json["counted"].is_null());
}

TEST_F(PolicyExplainTest, ARuleOfAPlace) {
  WriteFile(folder_ / "site.toml",
            "version = 1\n[[transfer.rule]]\nsite = \"job/train.py:42\"\npromote = false\n[[transfer.rule]]\n"
            "site = \"train.py\"\nskip_synchronize = false\n");
  const auto explained = [this](std::optional<std::string> site, bool json) {
    const Finished run = ExplainIn(
        folder_, {.size = "1MiB", .direction = "h2d", .site = std::move(site), .policy = "site.toml", .json = json});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out;
  };
  EXPECT_EQ(explained("/data/me/job/train.py:42", false),
            "copy         1MiB (1048576B) to device 0 from pageable memory\n"
            "site         /data/me/job/train.py:42\n"
            "rule         transfer.rule[1] (site.toml:2) is the first that matches\n"
            "promoted     no: transfer.rule[1].promote = false (site.toml:4)\n"
            "way          the program's own call\n"
            "counted      transfer.h2d.declined.rule\n");
  EXPECT_NE(explained("job/train.py:43", false).find("\nwait         made: transfer.rule[2].skip_synchronize = false"),
            std::string::npos);
  EXPECT_NE(explained("other.py:42", false).find("\nrule         none of 2 matches\n"), std::string::npos);
  EXPECT_NE(explained(std::nullopt, false)
                .find("\nsite         not said (--site train.py:42), so that no rule with a site matches\n"
                      "rule         none of 2 matches\n"),
            std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(explained("train.py:1", true));
  EXPECT_EQ(json["copy"]["site"], "train.py:1");
  EXPECT_EQ(json["rule"]["number"], 2);
}

TEST_F(PolicyExplainTest, ThatIsNoPlace) {
  const Finished run =
      ExplainIn(folder_, {.size = "1MiB", .direction = "h2d", .site = "train.py:", .policy = "p.toml"});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.err,
            "slipstream policy explain: --site: found \"train.py:\", expected a file, or a file and a line: "
            "\"train.py:42\"\n");
}

TEST_F(PolicyExplainTest, WrongOptionsAreUsageErrors) {
  const Finished run = Of("80M", "up", "256");
  EXPECT_EQ(run.status, kUsage);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(
      run.err,
      "slipstream policy explain: --size: found \"80M\", expected a size from 1B to 1024GiB, as a number of bytes "
      "or like \"512MiB\"\n"
      "slipstream policy explain: --direction: found \"up\", expected \"h2d\" or \"d2h\"\n"
      "slipstream policy explain: --device: found 256, expected an integer from 0 to 255\n");
  for (const char* size : {"0", "", "-1", "1.5B", "99999999999999999999"}) {
    EXPECT_EQ(Of(size, "h2d").status, kUsage) << size;
  }
}

TEST_F(PolicyExplainTest, ABrokenPolicyIsNotExplained) {
  WriteFile(folder_ / "p.toml", "version = 1\n[[transfer.rule]]\nmin_size = 1\n");
  const Finished run = Of("80MB", "h2d");
  EXPECT_EQ(run.status, kFailed);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "p.toml:2:1: a rule without an action, expected promote or skip_synchronize\n");
}

TEST_F(PolicyExplainTest, WithoutAFileTheVariableNamesIt) {
  EXPECT_NE(ExplainIn(folder_, {.size = "7", .direction = "h2d"}, "SLIPSTREAM_POLICY=p.toml").out.find("(p.toml:4)"),
            std::string::npos);
}

}  // namespace
}  // namespace slipstream::cli
