// The reader of counter files, and what the command makes of a run's directory.
#include <filesystem>

#include "tests/fuzz/spool_input.h"
#include "tracer/counters/counter_file.h"
#include "tracer/counters/counter_reader.h"

namespace slipstream::fuzz {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const uint32_t threads : {1U, 3U}) {
    const std::string run = Directory() + "/counters" + std::to_string(threads);
    std::filesystem::create_directory(run);
    std::string error;
    tracer::CounterFile* const file = tracer::CounterFile::Create(run, threads, {.rank = 1, .local_rank = 0}, &error);
    Must(file != nullptr, error.c_str());
    static auto* const kept = new std::vector<tracer::CounterFile*>;  // nobody unmaps one
    kept->push_back(file);
    const char* const names[] = {"transfer.h2d.promoted.small", "transfer.sync.skipped"};
    file->NameDecisions(names);
    file->AddFact("policy", "defaults");
    file->Claim(7)->decisions[1].count.store(3);
    for (int i = 0; i < 3; ++i) file->RecordMemory({.device = i % 2, .live_bytes = 1000});
    for (const auto& entry : std::filesystem::directory_iterator(run)) seeds.push_back(BytesOf(entry.path()));
  }
  return seeds;
}

void OneInput(std::string_view bytes) {
  static const std::string run = [] {
    std::filesystem::create_directory(Directory() + "/run");
    return Directory() + "/run";
  }();
  FileOf(bytes, std::string("run/1-1") + tracer::kCounterSuffix);
  std::vector<std::string> problems;
  const std::vector<tracer::ProcessCounts> processes = tracer::ReadRunDirectory(run, &problems);
  Must(processes.size() + problems.size() == 1, "a file is read, or it is said why not");
  for (const tracer::ProcessCounts& process : processes) {
    Must(process.LastMemory().size() <= process.memory.size(), "no sample is made up");
    process.FactsOf("policy");
  }
}

}  // namespace slipstream::fuzz
