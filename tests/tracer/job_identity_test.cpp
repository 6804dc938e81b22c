// Which process of a job this is, by each launcher's variables.

#include "tracer/job_identity.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace slipstream::tracer {
namespace {

using Variables = std::map<std::string, std::string>;

void Expect(const Variables& variables, const JobIdentity& expected) {
  const JobIdentity job = JobIdentityOf(policy::Environment(variables));
  EXPECT_EQ(job.launcher, expected.launcher);
  EXPECT_EQ(job.job, expected.job);
  EXPECT_EQ(job.rank, expected.rank);
  EXPECT_EQ(job.local_rank, expected.local_rank);
  EXPECT_EQ(job.world_size, expected.world_size);
}

const Variables kSlurm = {
    {"SLURM_PROCID", "9"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "4711"}};

TEST(JobIdentityTest, EachLauncher) {
  Expect({}, {});
  Expect({{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "run"}},
         {"torchrun", "run", 3, 1, 8});
  Expect(kSlurm, {"slurm", "4711", 9, 1, 16});
  Expect({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
         {"openmpi", "", 2, 0, 4});
  Expect({{"PMI_RANK", "5"}, {"MPI_LOCALRANKID", "1"}, {"PMI_SIZE", "6"}}, {"pmi", "", 5, 1, 6});
}

TEST(JobIdentityTest, TheNearestLauncherAndNothingOfTheOthers) {
  Variables both = kSlurm;
  both["RANK"] = "70";
  both["WORLD_SIZE"] = "128";
  Expect(both, {"torchrun", "", 70, -1, 128});
}

TEST(JobIdentityTest, WhatIsNoNumberIsNotThere) {
  for (const char* rank : {"", "x", "-1", "1x", " 1", "99999999999"}) {
    Variables variables = kSlurm;
    variables["RANK"] = rank;
    Expect(variables, {"slurm", "4711", 9, 1, 16});
  }
  Expect({{"RANK", "0"}, {"LOCAL_RANK", "-5"}, {"WORLD_SIZE", ""}}, {"torchrun", "", 0, -1, -1});
}

}  // namespace
}  // namespace slipstream::tracer
