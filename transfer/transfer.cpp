#include "transfer/transfer.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "transfer/mutant.h"

namespace slipstream::transfer {
namespace {

constexpr int kMostThreads = 8;          // more do not make the bus faster
constexpr int kProcessorsPerThread = 2;  // the rest belongs to the program and its data loaders

int Processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  const int count = CPU_COUNT(&allowed);
  // "quota period" in microseconds, or "max period" (cgroup v2).
  std::ifstream limit("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(limit >> quota >> period) || period <= 0) return count;
  return std::clamp(static_cast<int>(std::floor(quota / period)), 1, count);
}

}  // namespace

Standing StandingOf(const policy::Transfer& policy, std::string_view launch_blocking) {
  if (policy.h2d == policy::TransferMode::kOff && policy.d2h == policy::TransferMode::kOff)
    return {false, "transfer.h2d = \"off\", transfer.d2h = \"off\""};
  if (!launch_blocking.empty() && launch_blocking != "0" && !Broken(Mutant::kS14)) {
    return {false, "CUDA_LAUNCH_BLOCKING is set"};
  }
  const bool to_host = policy.d2h == policy::TransferMode::kOn;
  if (policy.h2d == policy::TransferMode::kOff) return {true, "copies from the device to pageable memory"};
  if (!policy.small_copies && !policy.large_copies && !to_host) {
    return {false, "transfer.small_copies = false, transfer.large_copies = false"};
  }
  return {true,
          to_host ? "copies between pageable memory and the device" : "host to device copies from pageable memory"};
}

int CopyThreads(const policy::Transfer& policy, int ranks_here) {
  if (policy.threads > 0) return policy.threads;
  return std::clamp(Processors() / std::max(ranks_here, 1) / kProcessorsPerThread, 1, kMostThreads);
}

}  // namespace slipstream::transfer
