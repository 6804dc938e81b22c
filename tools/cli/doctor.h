// `slipstream doctor`: what slipstream finds on this machine, what it can intercept of a command, and what
// stands aside and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tracer/counters/counter_reader.h"

namespace slipstream::cli {

struct DoctorOptions {
  std::optional<std::string> policy;
  bool json = false;
  std::vector<std::string> command;  // empty: a small PyTorch program, where PyTorch can be imported
};

struct DeviceFacts {
  std::string name;
  uint64_t memory_bytes = 0;
  bool pageable_access = false;        // HMM or ATS: the device reads pageable host memory (S02)
  bool uses_host_page_tables = false;  // ATS
  bool maps_by_hand = false;           // cuMemCreate and cuMemMap, which expandable segments need
};

struct DriverFacts {
  std::string version;   // of the kernel module; empty: unknown
  int cuda_version = 0;  // cuDriverGetVersion; 0: no driver library
  std::string error;     // why the driver cannot be used; empty: it can
  std::vector<DeviceFacts> devices;
};

struct ProbeFacts {
  std::vector<std::string> command;  // empty: there was nothing to run
  std::string not_run;               // why not
  int exit_status = 0;
  std::string output;  // of the command, where it failed
  std::vector<tracer::ProcessCounts> processes;
};

struct DoctorReport {
  std::string slipstream_version;
  std::string library;
  std::string policy;                        // file or "defaults"
  std::vector<std::string> policy_problems;  // one line each
  std::string transfer_policy;               // what the policy alone says of the transfer engine
  DriverFacts driver;
  std::string pytorch;  // version and interpreter, or why there is none
  std::string huge_pages;
  std::string mirrors;  // whether there can be any
  std::string locked_memory;
  std::vector<std::string> notes;      // things in the environment that matter
  std::vector<std::string> obstacles;  // obstacles.h
  ProbeFacts probe;
  // Why this is no machine, or no program, for slipstream; empty: all is well.
  std::vector<std::string> failures;
};

// Looks; changes nothing. Runs the command (or a PyTorch probe) once under the library.
DoctorReport Examine(const DoctorOptions& options, const std::string& version);

std::string FormatReport(const DoctorReport& report);
std::string ReportJson(const DoctorReport& report);  // schema "slipstream-doctor-1"

// What of the rest of the report is a failure: no library, a policy that cannot be used, no driver or device, an
// obstacle, and a probe that fails or calls no hook. Where nothing is probed, nothing of that is.
std::vector<std::string> FailuresOf(const DoctorReport& report);

// Prints the report. kSuccess where there is no failure, kFailed otherwise: a check of a machine's health.
int Doctor(const DoctorOptions& options, const std::string& version);

}  // namespace slipstream::cli
