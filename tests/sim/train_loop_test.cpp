// The bundled training loop: correct programs give the same answer whatever the seed, the mode and the runtime's mood.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace {

struct Result {
  int status = -1;
  std::string output;
};

Result RunLoop(const std::string& environment, const std::string& arguments) {
  Result result;
  const std::string command = "env " + environment + " " TRAIN_LOOP " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return result;
  }
  char buffer[4096];
  size_t got = 0;
  while ((got = fread(buffer, 1, sizeof buffer, pipe)) > 0) {
    result.output.append(buffer, got);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

std::string FinalLine(const Result& result) {
  const size_t start = result.output.find("final loss");
  return start == std::string::npos ? "none: " + result.output
                                    : result.output.substr(start, result.output.find('\n', start) - start);
}

const char* const kSmall = "--steps 21 --batch 32 --features 64 --quiet-steps";

TEST(TrainLoopTest, GivesOneAnswerForEverySeedAndInTime) {
  const Result first = RunLoop("SIMCUDA_SEED=0", kSmall);
  EXPECT_EQ(first.status, 0) << first.output;
  for (int seed = 1; seed < 8; ++seed) {
    EXPECT_EQ(FinalLine(RunLoop("SIMCUDA_SEED=" + std::to_string(seed), kSmall)), FinalLine(first)) << seed;
  }
  EXPECT_EQ(FinalLine(RunLoop("SIMCUDA_MODE=timed", kSmall)), FinalLine(first));
}

TEST(TrainLoopTest, Learns) {
  const Result result = RunLoop("SIMCUDA_SEED=1", "--steps 40 --batch 64 --features 32");
  float first = 0;
  float last = 0;
  ASSERT_EQ(std::sscanf(result.output.c_str() + result.output.find("step   0"), "step 0 loss %f", &first), 1);
  ASSERT_EQ(std::sscanf(FinalLine(result).c_str(), "final loss %f", &last), 1);
  EXPECT_LT(last, first / 2);
}

TEST(TrainLoopTest, LabelsEveryFigure) {
  const Result result = RunLoop("SIMCUDA_SEED=1", "--steps 3 --batch 8 --features 8");
  size_t start = result.output.find('\n') + 1;  // the first line names the device
  int lines = 0;
  while (start < result.output.size()) {
    const size_t end = result.output.find('\n', start);
    EXPECT_NE(result.output.substr(start, end - start).find("(simulated device)"), std::string::npos);
    start = end + 1;
    ++lines;
  }
  EXPECT_EQ(lines, 5);
}

TEST(TrainLoopTest, SaysWhatWentWrong) {
  const Result failed = RunLoop("SIMCUDA_FAIL=cudaMalloc:2@3", kSmall);
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.output.find("out of memory"), std::string::npos) << failed.output;
  EXPECT_EQ(RunLoop("", "--steps none").status, 2);
}

}  // namespace
