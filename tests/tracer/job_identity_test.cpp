// Which process of a job this is, by each launcher's variables.

#include "tracer/spool/job_identity.h"

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
  EXPECT_EQ(job.local_size, expected.local_size);
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

// As where Open MPI's processes are started by Slurm.
TEST(JobIdentityTest, OpenMpiUnderSlurm) {
  Variables both = kSlurm;
  both["OMPI_COMM_WORLD_RANK"] = "2";
  both["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  both["OMPI_COMM_WORLD_SIZE"] = "4";
  both["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  both["SLURM_NTASKS_PER_NODE"] = "1";
  Expect(both, {"openmpi", "", 2, 0, 4, 2});
}

TEST(JobIdentityTest, AmongHowManyTheHostIsShared) {
  Expect({{"RANK", "3"}, {"LOCAL_WORLD_SIZE", "8"}}, {"torchrun", "", 3, -1, -1, 8});
  Expect({{"PMI_RANK", "5"}, {"MPI_LOCALNRANKS", "2"}}, {"pmi", "", 5, -1, -1, 2});
  Expect({{"SLURM_PROCID", "9"}, {"SLURM_NTASKS_PER_NODE", "4"}}, {"slurm", "", 9, -1, -1, 4});
  // A script that sets the rank by hand, and nothing else, is one of several processes all the same.
  Expect({{"RANK", "3"}, {"SLURM_NTASKS_PER_NODE", "4"}}, {"torchrun", "", 3, -1, -1, 4});
  Expect({{"LOCAL_WORLD_SIZE", "8"}}, {"", "", -1, -1, -1, 8});
  // Slurm's list of this step, host by host.
  for (const auto& [text, most] : std::map<std::string, int32_t>{
           {"4", 4}, {"4(x2)", 4}, {"3,4(x2)", 4}, {"2(x3),1", 2}, {"", -1}, {"x", -1}, {"4,", 4}, {"0", -1}}) {
    Expect({{"SLURM_STEP_TASKS_PER_NODE", text}}, {"", "", -1, -1, -1, most});
  }
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
