// What `slipstream doctor` says of what it found.

#include "tools/cli/doctor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace slipstream::cli {
namespace {

DoctorReport Report() {
  DoctorReport report;
  report.slipstream_version = "1.2.3";
  report.library = "/lib/libslipstream.so";
  report.policy = "defaults";
  report.transfer_policy = "on in the policy";
  return report;
}

tracer::ProcessCounts ProcessWithTransfer(const std::string& transfer) {
  tracer::ProcessCounts process;
  process.pid = 7;
  process.executable = "python3";
  process.functions = {{"cudaMalloc", "allocate", true, 1, 0, 0, 0}};
  process.facts = {{"allocator", "off: allocator.mode = \"off\""}, {"transfer", transfer}};
  return process;
}

TEST(DoctorTest, TheTransferEngineSaysItselfWhetherItServes) {
  DoctorReport report = Report();
  report.probe.command = {"python3"};
  report.probe.processes = {ProcessWithTransfer("off: the device reaches host memory by itself (ATS)")};
  const std::string off = FormatReport(report);
  EXPECT_NE(off.find("\n  transfer       off: the device reaches host memory by itself (ATS)\n"), std::string::npos)
      << off;
  EXPECT_EQ(off.find("on in the policy"), std::string::npos) << off;

  report.probe.processes = {ProcessWithTransfer("serves: host to device")};
  report.probe.processes[0].decisions = {{"transfer.h2d.promoted.small", 2, 64, 0},
                                         {"transfer.sync.kept.rdma", 2, 0, 0}};
  const std::string serves = FormatReport(report);
  EXPECT_NE(serves.find("\n  transfer       serves: host to device\n"
                        "                 promoted 2 copies to the device, 64 B: small\n"
                        "                 kept 2 synchronizations: with a transport that may read the\n"
                        "                   memory\n"),
            std::string::npos)
      << serves;
}

TEST(DoctorTest, ItSaysWhetherThePythonsLinesCanBeRead) {
  DoctorReport report = Report();
  report.probe.processes = {ProcessWithTransfer("serves")};
  EXPECT_EQ(FormatReport(report).find("Python lines"), std::string::npos);  // a process without Python
  report.probe.processes[0].facts.push_back({"python_lines", "read: CPython 3.14.2"});
  EXPECT_NE(FormatReport(report).find("\n  Python lines   read, from CPython 3.14.2\n"), std::string::npos)
      << FormatReport(report);
  report.probe.processes[0].facts.push_back({"python_lines", "unsupported: this is a free-threaded CPython 3.14.2"});
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("\n  Python lines   none, this is a free-threaded CPython 3.14.2 (not supported)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("read, from"), std::string::npos) << text;  // the last one counts
}

TEST(DoctorTest, ObstaclesAreNamed) {
  DoctorReport report = Report();
  report.obstacles = {"/dev/shm: No such file or directory"};
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("\n  obstacle       /dev/shm: No such file or directory\n"), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(ReportJson(report))["obstacles"], nlohmann::json(report.obstacles));
}

// Usable as a check of a machine's health.
TEST(DoctorTest, WhatIsAFailure) {
  DoctorReport well = Report();
  well.driver.error.clear();
  well.driver.devices.resize(1);
  well.library = "/usr/lib/libslipstream.so";
  well.policy_problems.clear();
  well.obstacles.clear();
  well.probe = {};
  well.probe.not_run = "PyTorch is missing";
  EXPECT_EQ(FailuresOf(well), std::vector<std::string>());
  EXPECT_TRUE(FormatReport(well).ends_with("\nALL IS WELL.\n"));
  EXPECT_EQ(nlohmann::json::parse(ReportJson(well))["ok"], true);
  const auto fails = [&](const std::string& why, const auto& change) {
    DoctorReport report = well;
    change(&report);
    report.failures = FailuresOf(report);
    EXPECT_EQ(report.failures, std::vector<std::string>{why});
    EXPECT_TRUE(FormatReport(report).ends_with("\nNOT WELL: " + why + ".\n")) << FormatReport(report);
    const auto json = nlohmann::json::parse(ReportJson(report));
    EXPECT_EQ(json["ok"], false);
    EXPECT_EQ(json["failures"], nlohmann::json(report.failures));
  };
  fails("libslipstream.so is not found", [](DoctorReport* report) { report->library.clear(); });
  fails("the policy cannot be used", [](DoctorReport* report) { report->policy_problems = {"policy.toml:1: no"}; });
  fails("no driver", [](DoctorReport* report) { report->driver.error = "no driver"; });
  fails("the driver has no device", [](DoctorReport* report) { report->driver.devices.clear(); });
  fails("there is an obstacle", [](DoctorReport* report) { report->obstacles = {"/dev/shm"}; });
  fails("there are 2 obstacles", [](DoctorReport* report) { report->obstacles = {"/dev/shm", "setuid"}; });
  fails("the probe failed (exit status 3)", [](DoctorReport* report) {
    report->probe.command = {"python3"};
    report->probe.exit_status = 3;
  });
  fails("the probe called no hook", [](DoctorReport* report) { report->probe.command = {"true"}; });
}

TEST(DoctorTest, WithoutAProcessThePolicyIsAllThatIsKnown) {
  DoctorReport report = Report();
  report.probe.not_run = "no device";
  const std::string text = FormatReport(report);
  EXPECT_NE(text.find("\n  transfer       on in the policy\n"), std::string::npos) << text;
}

TEST(DoctorTest, JsonHoldsTheDecisions) {
  DoctorReport report = Report();
  report.probe.processes = {ProcessWithTransfer("serves")};
  report.probe.processes[0].decisions = {{"transfer.h2d.promoted.small", 2, 64, 5},
                                         {"transfer.sync.kept.rdma", 0, 0, 0}};
  const auto json = nlohmann::json::parse(ReportJson(report));
  EXPECT_EQ(json["transfer_policy"], "on in the policy");
  EXPECT_EQ(json["probe"]["processes"][0]["facts"]["transfer"], "serves");
  EXPECT_EQ(json["probe"]["processes"][0]["decisions"],
            (nlohmann::json{{"transfer.h2d.promoted.small", {{"count", 2}, {"bytes", 64}, {"time_ns", 5}}}}));
}

}  // namespace
}  // namespace slipstream::cli
