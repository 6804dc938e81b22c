// Plays damaged seeds to the target that it is linked to, until the time is over.
//
//   <target> [--seconds S] [--seed N]    default: 5 s, seed 1; the first inputs are the seeds themselves
//            [--inputs K --at-most T]    no fewer than K inputs, as long as that takes T seconds at most
//   <target> [--seed N] --run K          that input alone, as the message of a failure has it; --write FILE keeps it
//   <target> FILE...                     inputs that are there
//   <target> --corpus DIRECTORY          writes the seeds, for libFuzzer

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"

#ifdef SLIPSTREAM_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  slipstream::fuzz::OneInput({reinterpret_cast<const char*>(bytes), size});
  return 0;
}

#endif

namespace slipstream::fuzz {
namespace {

struct TemporaryDirectory {
  std::string path;
  TemporaryDirectory() {
    // In memory where that can be had: a file is written for every input.
    const std::string place =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    path = place + "/slipstream-fuzz-XXXXXX";
    Must(mkdtemp(path.data()) != nullptr, "no temporary directory");
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

void Must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "this must not be: %s\n", what);
  std::abort();
}

const std::string& Directory() {
  static const TemporaryDirectory directory;
  return directory.path;
}

std::string FileOf(std::string_view bytes, const std::string& name) {
  std::string path = Directory() + "/" + name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

}  // namespace slipstream::fuzz

#ifndef SLIPSTREAM_LIBFUZZER

namespace {

using slipstream::fuzz::OneInput;

char g_where[128] = "";

// What a failure needs to be had again. Async-signal-safe; then the signal's own way.
void SayWhere(int number) {
  [[maybe_unused]] const ssize_t wrote = write(STDERR_FILENO, g_where, std::strlen(g_where));
  signal(number, SIG_DFL);
  raise(number);
}

void Play(uint64_t seed, uint64_t run, const std::string& bytes) {
  std::snprintf(g_where, sizeof(g_where), "fuzz: this input can be had again by --seed %llu --run %llu\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(run));
  OneInput(bytes);
}

std::string Input(const std::vector<std::string>& seeds, uint64_t seed, uint64_t run) {
  if (run < seeds.size()) return seeds[run];
  return slipstream::fuzz::Mutator(seeds, seed * 1'000'000'007 + run).Next();
}

}  // namespace

// The sanitizers' end is no signal.
extern "C" [[gnu::visibility("default")]] void __asan_on_error() { std::fputs(g_where, stderr); }

int main(int argc, char** argv) {
  double seconds = 5;
  double at_most = 60;
  uint64_t inputs = 0;
  uint64_t seed = 1;
  long long only = -1;
  std::string write_to;
  std::string corpus;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (word == "--seconds") {
      seconds = std::atof(value());
    } else if (word == "--at-most") {
      at_most = std::atof(value());
    } else if (word == "--inputs") {
      inputs = std::strtoull(value(), nullptr, 10);
    } else if (word == "--seed") {
      seed = std::strtoull(value(), nullptr, 10);
    } else if (word == "--run") {
      only = std::atoll(value());
    } else if (word == "--write") {
      write_to = value();
    } else if (word == "--corpus") {
      corpus = value();
    } else {
      files.push_back(word);
    }
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) signal(number, SayWhere);
  for (const std::string& file : files) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    OneInput(bytes.str());
  }
  if (!files.empty()) return 0;
  const std::vector<std::string> seeds = slipstream::fuzz::Seeds();
  slipstream::fuzz::Must(!seeds.empty(), "no seeds");
  if (!corpus.empty()) {
    std::filesystem::create_directories(corpus);
    for (size_t i = 0; i < seeds.size(); ++i)
      std::ofstream(corpus + "/seed-" + std::to_string(i), std::ios::binary) << seeds[i];
    return 0;
  }
  if (only >= 0) {
    const std::string bytes = Input(seeds, seed, static_cast<uint64_t>(only));
    if (!write_to.empty()) std::ofstream(write_to, std::ios::binary) << bytes;
    Play(seed, static_cast<uint64_t>(only), bytes);
    return 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto goes_on = [&](uint64_t run) {
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return passed < seconds || (run < inputs && passed < at_most);
  };
  uint64_t run = 0;
  // All seeds whatever the time.
  for (; run < seeds.size() || goes_on(run); ++run) Play(seed, run, Input(seeds, seed, run));
  std::printf("%llu inputs of seed %llu\n", static_cast<unsigned long long>(run),
              static_cast<unsigned long long>(seed));
  return 0;
}

#endif
