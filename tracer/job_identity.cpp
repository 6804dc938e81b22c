#include "tracer/job_identity.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace slipstream::tracer {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* local_rank;
  const char* world_size;
  const char* job;
};

// Nearest first. torchrun's names are also what scripts set by hand for torch.distributed's "env://".
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"},
    {"pmi", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "PMI_JOBID"},  // MPICH, Intel MPI
    {"slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_ID"},
};

std::optional<int32_t> Number(const policy::Environment& environment, const char* name) {
  const std::optional<std::string_view> text = environment.Get(name);
  if (!text) return std::nullopt;
  int32_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stopped != end || value < 0) return std::nullopt;
  return value;
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
            .world_size = Number(environment, launcher.world_size).value_or(-1)};
  }
  return {};
}

}  // namespace slipstream::tracer
