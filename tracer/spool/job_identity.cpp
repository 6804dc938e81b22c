#include "tracer/spool/job_identity.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "policy/number.h"

namespace slipstream::tracer {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* local_rank;
  const char* world_size;
  const char* local_size;
  const char* job;
};

// Nearest first. torchrun's names are also what scripts set by hand for torch.distributed's "env://".
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"pmi", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID"},  // MPICH, Intel MPI
    {"slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID"},
};

// Of this job step, host by host, as in "4(x2),3": srun sets it always, SLURM_NTASKS_PER_NODE only where the user asked
// for as many.
constexpr char kSlurmTasks[] = "SLURM_STEP_TASKS_PER_NODE";

std::optional<int32_t> Number(const policy::Environment& environment, const char* name) {
  const auto value = policy::NumberIn<int32_t>(environment.Get(name).value_or(""));
  return value.value_or(-1) >= 0 ? value : std::nullopt;
}

// The largest of the list's numbers: which of them is this host's is not said.
std::optional<int32_t> MostTasks(const policy::Environment& environment) {
  std::string_view rest = environment.Get(kSlurmTasks).value_or("");
  int32_t most = 0;
  while (!rest.empty()) {
    int32_t value = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec != std::errc()) return std::nullopt;
    most = std::max(most, value);
    const size_t comma = rest.find(',');
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return most > 0 ? std::optional(most) : std::nullopt;
}

int32_t LocalSize(const policy::Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    if (const std::optional<int32_t> size = Number(environment, launcher.local_size)) return *size;
  }
  return MostTasks(environment).value_or(-1);
}

}  // namespace

JobIdentity JobIdentityOf(const policy::Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int32_t> rank = Number(environment, launcher.rank);
    if (!rank) continue;
    return {.launcher = launcher.name,
            .job = std::string(environment.Get(launcher.job).value_or("")),
            .rank = *rank,
            .local_rank = Number(environment, launcher.local_rank).value_or(-1),
            .world_size = Number(environment, launcher.world_size).value_or(-1),
            .local_size = LocalSize(environment)};
  }
  JobIdentity unnamed;
  unnamed.local_size = LocalSize(environment);
  return unnamed;
}

}  // namespace slipstream::tracer
