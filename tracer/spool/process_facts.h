// The facts that a spool file has about its process.
//
// Threading: any thread that can open files; reads /proc.
// Hazard: the command line may hold secrets: it has a function of its own, and is written only if the policy says so
//   (tracer.command_line).
// Errors: an unknown fact is left out. Out of memory throws; the caller catches.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tracer/spool/job_identity.h"
#include "tracer/spool/own_files.h"

namespace slipstream::tracer {

using Facts = std::vector<std::pair<std::string, std::string>>;

// The keys. Numbers are decimal.
inline constexpr char kFactPid[] = "pid";
inline constexpr char kFactParentPid[] = "parent_pid";
inline constexpr char kFactHost[] = "host";
// Processes in whose files these two are alike stamp with one clock.
inline constexpr char kFactBootId[] = "boot_id";                  // of the kernel that runs
inline constexpr char kFactTimeNamespace[] = "time_namespace";    // as a link of /proc names it
inline constexpr char kFactStartTicks[] = "process_start_ticks";  // since boot, field 22 of proc(5)'s stat
inline constexpr char kFactExecutable[] = "executable";           // its path
inline constexpr char kFactCommandLine[] =
    "command_line";  // NUL behind every argument; at most kMaxSpoolText bytes; if asked for
inline constexpr char kFactProcessors[] = "processors";  // that the process may use
// That its control group lets it use, in thousandths; left out if there is no limit. Known once the recording runs.
inline constexpr char kFactProcessorLimit[] = "processor_limit";
inline constexpr char kFactSharedMemory[] = "shared_memory";  // bytes that /dev/shm has in all
inline constexpr char kFactLauncher[] = "launcher";           // these four as in JobIdentity; left out when not known
inline constexpr char kFactJob[] = "job";
inline constexpr char kFactRank[] = "rank";
inline constexpr char kFactLocalRank[] = "local_rank";
inline constexpr char kFactWorldSize[] = "world_size";
// The folder of a PyTorch that is not in site-packages, with its slash (pytorch_folder.h); left out if none was seen.
inline constexpr char kFactPyTorchFolder[] = "pytorch_folder";
inline constexpr char kFactKeep[] = "keep";  // "newest", or "first: ..." and why not; left out if it was not asked for
inline constexpr char kFactWindow[] = "window";           // tracer.window, where it has one
inline constexpr char kFactDeviceWork[] = "device_work";  // "on", or kDeviceWorkOff and why
inline constexpr char kDeviceWorkOff[] = "off: ";
inline constexpr char kFactNativeStacks[] = "native_stacks";  // why there are none, where they were asked for

// How often something that belongs into the trace found no room so far; left out if never. Nothing is missing from a
// trace that has none of these and no dropped records.
inline constexpr char kFactStacksRefused[] = "stacks.refused";
inline constexpr char kFactFramesRefused[] = "native_frames.refused";
inline constexpr char kFactSitesRefused[] = "sites.refused";
inline constexpr char kFactRangesRefused[] = "ranges.refused";
inline constexpr char kFactRangeNamesRefused[] = "range_names.refused";
inline constexpr char kFactCallersRefused[] = "callers.refused";
struct RefusedFact {
  const char* key;
  const char* one;  // what it counts, for people
  const char* many;
};
inline constexpr RefusedFact kRefusedFacts[] = {
    {kFactSitesRefused, "line of the program found no room", "lines of the program found no room"},
    {kFactStacksRefused, "stack found no room", "stacks found no room"},
    {kFactFramesRefused, "native frame found no room", "native frames found no room"},
    {kFactRangesRefused, "NVTX range found no room", "NVTX ranges found no room"},
    {kFactRangeNamesRefused, "name of an NVTX range found no room", "names of NVTX ranges found no room"},
    {kFactCallersRefused, "caller of an allocation found no room", "callers of allocations found no room"},
};

// And of each device "device.0", ... (device_facts.h), once the process uses any.

std::string HostName();
// As kFactCommandLine has it; empty: not known.
std::string CommandLine();
// All of the above that belong to every trace: not the command line.
Facts ProcessFacts(OwnFiles* files, const JobIdentity& job);

}  // namespace slipstream::tracer
