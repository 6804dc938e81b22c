// differential_runner: carries programs out and prints what they observed. README.md says how it is used.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/differential/executor.h"
#include "tests/differential/generator.h"
#include "tests/differential/model.h"
#include "tests/differential/pattern.h"
#include "tests/differential/program.h"

namespace {

using differential::Observation;
using differential::Observations;
using differential::Program;

constexpr const char* kUsage =
    "differential_runner [--family main|free|managed|devices] --seed N [--count M]    programs N to N + M - 1\n"
    "differential_runner --program FILE                                      programs in text form\n"
    "  --print        the programs in text form, without running them\n"
    "  --check        only whether the programs are determined: exit status 3 and the reason if one is not\n"
    "  --trace        every observation, behind its operation; on standard error each operation before it begins\n"
    "  --batch K      one digest for K programs\n"
    "  --sim-seed N   added to the seeds of the simulator's scheduler\n"
    "  --strict       exit status 4 if a call fails that should not, or the reverse\n"
    "Prints a line for each program: its seed and the digest of its observations.\n";

constexpr int kUsageStatus = 2;
constexpr int kNotDetermined = 3;
constexpr int kNotAsModeled = 4;

struct Options {
  differential::Family family = differential::Family::kMain;
  uint64_t seed = 1;
  uint64_t count = 1;
  uint64_t batch = 1;
  uint64_t sim_seed = 0;
  const char* file = nullptr;
  bool print = false;
  bool check = false;
  bool trace = false;
  bool strict = false;
};

bool ReadOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    const auto number = [&i, value](uint64_t* to) {
      if (value == nullptr) return false;
      char* end = nullptr;
      *to = std::strtoull(value, &end, 10);
      ++i;
      return *value != '\0' && *end == '\0';
    };
    bool fine = true;
    if (name == "--print") {
      options->print = true;
    } else if (name == "--check") {
      options->check = true;
    } else if (name == "--trace") {
      options->trace = true;
    } else if (name == "--strict") {
      options->strict = true;
    } else if (name == "--seed") {
      fine = number(&options->seed);
    } else if (name == "--count") {
      fine = number(&options->count);
    } else if (name == "--batch") {
      fine = number(&options->batch) && options->batch > 0;
    } else if (name == "--sim-seed") {
      fine = number(&options->sim_seed);
    } else if (name == "--family" && value != nullptr) {
      fine = differential::FamilyNamed(value, &options->family);
      ++i;
    } else if (name == "--program" && value != nullptr) {
      options->file = value;
      ++i;
    } else {
      fine = false;
    }
    if (!fine) return false;
  }
  return true;
}

std::string Hex(uint64_t value) {
  char text[20];
  (void)std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string ObservationText(const Observation& observation) {
  std::string text = "-> " + std::to_string(observation.status);
  if (observation.read) text += " " + Hex(observation.hash);
  return text;
}

// One write a line: what was said before a crash arrives.
void Say(const std::string& text) {
  const char* from = text.data();
  size_t left = text.size();
  while (left > 0) {
    const ssize_t written = write(STDOUT_FILENO, from, left);
    if (written <= 0) return;
    from += written;
    left -= static_cast<size_t>(written);
  }
}

void SayTrace(const Program& program, const Observations& observations) {
  std::string text;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    text += "  " + std::to_string(i) + " " + ToText(program, program.ops[i]) + " " +
            ObservationText(observations.operations[i]) + "\n";
  }
  for (const Observations::Final& last : observations.finals) {
    text += "  end " + last.what + " " + ObservationText(last.observation) + "\n";
  }
  Say(text);
}

// Whether exactly those calls failed that the model expected to.
bool AsModeled(const Program& program, const Observations& observations) {
  std::vector<differential::Model> models(differential::kMaxThreads, differential::Model(program.family));
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const differential::Op& op = program.ops[i];
    differential::Model& model = models[IsSeparate(program.family) ? size_t(op.thread) : 0];
    (void)model.Apply(op);
    const bool asks = op.kind == differential::Kind::kLastError || op.kind == differential::Kind::kPeekError;
    if (asks || model.must_fail() == (observations.operations[i].status != 0)) continue;
    std::cerr << "program " << program.seed << ", operation " << i << ": " << ToText(program, op) << " "
              << ObservationText(observations.operations[i]) << ", but the model says "
              << (model.must_fail() ? "an error" : "no error") << "\n";
    return false;
  }
  for (const Observations::Final& last : observations.finals) {
    if (last.observation.status == 0) continue;
    std::cerr << "program " << program.seed << ": " << last.what << " " << ObservationText(last.observation) << "\n";
    return false;
  }
  return true;
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  int One(const Program& program) {
    if (options_.print) {
      Say(ToText(program));
      return 0;
    }
    std::string why;
    if ((options_.check || options_.file != nullptr) && !IsDetermined(program, &why)) {
      std::cerr << "not determined: " << why << "\n";
      return kNotDetermined;
    }
    if (options_.check) return 0;
    // Said before, so that a crash or a hang has a place.
    const auto announce = [&program](const differential::Op& op) {
      const std::string line = "at " + ToText(program, op) + "\n";
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    };
    const Observations observations = options_.trace ? executor_.Run(program, options_.sim_seed, announce)
                                                     : executor_.Run(program, options_.sim_seed);
    if (in_batch_ == 0) {
      first_of_batch_ = program.seed;
      digest_ = 0;
    }
    digest_ = options_.batch == 1 ? observations.Digest() : differential::Mixed(digest_, observations.Digest());
    if (options_.trace) SayTrace(program, observations);
    if (++in_batch_ == options_.batch) EndBatch();
    return options_.strict && !AsModeled(program, observations) ? kNotAsModeled : 0;
  }

  void EndBatch() {
    if (in_batch_ == 0) return;
    Say(std::to_string(first_of_batch_) + " " + Hex(digest_) + "\n");
    in_batch_ = 0;
  }

 private:
  const Options& options_;
  differential::Executor executor_;
  uint64_t in_batch_ = 0;
  uint64_t first_of_batch_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc < 2 || !ReadOptions(argc, argv, &options)) {
    std::cerr << kUsage;
    return kUsageStatus;
  }
  Runner runner(options);
  int status = 0;
  if (options.file != nullptr) {
    std::ifstream file(options.file);
    std::ostringstream text;
    text << file.rdbuf();
    std::vector<Program> programs;
    std::string error;
    if (!file || !Parse(text.str(), &programs, &error)) {
      std::cerr << options.file << ": " << (file ? error : "cannot be read") << "\n";
      return kUsageStatus;
    }
    for (const Program& program : programs) {
      if (status == 0) status = runner.One(program);
    }
  } else {
    for (uint64_t i = 0; i < options.count && status == 0; ++i) {
      status = runner.One(differential::Generate(options.family, options.seed + i));
    }
  }
  runner.EndBatch();
  return status;
}
