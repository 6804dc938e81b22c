// What a spool file says about its process.
//
// Threading: any thread that can open files; reads /proc.
// Hazard: the command line may hold what its user would not show around: it goes into files that only they can read.
// Errors: a fact that cannot be had is left out. Out of memory throws; the caller catches.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tracer/job_identity.h"

namespace slipstream::tracer {

using Facts = std::vector<std::pair<std::string, std::string>>;

// The keys. Numbers are decimal.
inline constexpr char kFactPid[] = "pid";
inline constexpr char kFactParentPid[] = "parent_pid";
inline constexpr char kFactHost[] = "host";
inline constexpr char kFactStartTicks[] = "process_start_ticks";  // since boot, field 22 of proc(5)'s stat
inline constexpr char kFactExecutable[] = "executable";           // its path
inline constexpr char kFactCommandLine[] = "command_line";  // NUL behind every argument; at most kMaxSpoolText bytes
inline constexpr char kFactLauncher[] = "launcher";         // these four as in JobIdentity; left out when not known
inline constexpr char kFactJob[] = "job";
inline constexpr char kFactRank[] = "rank";
inline constexpr char kFactLocalRank[] = "local_rank";
inline constexpr char kFactWorldSize[] = "world_size";

std::string HostName();
Facts ProcessFacts(const JobIdentity& job);

}  // namespace slipstream::tracer
