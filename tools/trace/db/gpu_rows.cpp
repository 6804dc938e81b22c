#include "tools/trace/db/gpu_rows.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/global_id.h"
#include "tools/trace/db/schema.h"
#include "tools/trace/db/table.h"
#include "tracer/spool/device_facts.h"
#include "tracer/spool/process_facts.h"

namespace slipstream::trace_db {
namespace {

using tracer::DeviceFacts;
using Known = std::optional<int64_t>;

struct Gpu {
  size_t host = 0;
  DeviceFacts facts;
  Known number;  // by which its processes know it; none: not all by the same
};

// A device as one process sees it.
struct Seen {
  int64_t process = 0;
  Known pid;
  int64_t number = 0;
  size_t gpu = 0;
  Known multiprocessors;
};

// None where a factor is not known, is no size, or is 0: a clock that the driver does not tell. Nor of what no number
// can hold.
Known Product(std::initializer_list<Known> factors) {
  int64_t product = 1;
  for (const Known& factor : factors) {
    if (factor.value_or(0) <= 0 || __builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
  }
  return product;
}

Known Quotient(const Known& dividend, const Known& divisor) {
  return dividend && divisor.value_or(0) > 0 ? Known(*dividend / *divisor) : std::nullopt;
}

// Memory moves two words in a period of its clock.
Known Bandwidth(const DeviceFacts& facts) {
  return Quotient(Product({2000, facts.memory_clock_khz, facts.memory_bus_bits}), 8);
}

// Two of one kind.
bool AreAlike(DeviceFacts a, DeviceFacts b) {
  a.uuid = b.uuid = a.bus = b.bus = "";
  return a == b;
}

class Gpus {
 public:
  void Add(size_t host, int64_t process, const SpoolSurvey& spool) {
    for (const auto& [key, value] : spool.facts) {
      const Known number = tracer::DeviceOfFactKey(key);
      if (!number) continue;
      const DeviceFacts facts = tracer::DeviceOfFactText(value);
      const size_t gpu = NumberOf(host, process, *number, facts);
      seen_.push_back({process, spool.Number(tracer::kFactPid), *number, gpu, facts.multiprocessors});
    }
  }

  void Write(Database* database) const {
    Table own(database, kOwnDevices);
    own.Create();
    for (const Seen& seen : seen_) own.Row(seen.process, seen.number, seen.gpu);
    Table gpus(database, kGpus);
    for (size_t id = 0; id < gpus_.size(); ++id) WriteGpu(&gpus, id);
    Table devices(database, kCudaDevices);
    for (const Seen* const seen : OneOfEachNumber()) {
      const DeviceFacts& facts = gpus_[seen->gpu].facts;
      devices.Row(seen->gpu, seen->number, *seen->pid, TextOrNull(facts.uuid), seen->multiprocessors);
    }
  }

 private:
  size_t NumberOf(size_t host, int64_t process, int64_t number, const DeviceFacts& facts) {
    const std::string identity = !facts.uuid.empty()  ? "uuid " + facts.uuid
                                 : !facts.bus.empty() ? "bus " + facts.bus
                                                      : std::to_string(process) + " " + std::to_string(number);
    const auto [at, is_new] = numbers_.try_emplace({host, identity}, gpus_.size());
    if (is_new) {
      gpus_.push_back({host, facts, number});
      return at->second;
    }
    Gpu& gpu = gpus_[at->second];
    if (gpu.number != number) gpu.number.reset();
    // A process that shares it with others by NVIDIA's service for that (MPS) may be told of a part.
    gpu.facts.multiprocessors = std::max(gpu.facts.multiprocessors, facts.multiprocessors);
    return at->second;
  }

  void WriteGpu(Table* table, size_t id) const {
    const Gpu& gpu = gpus_[id];
    const DeviceFacts& facts = gpu.facts;
    const NumberOrNull discrete = {.known = facts.integrated.has_value(), .value = facts.integrated.value_or(0) == 0};
    table->Row(GlobalVid(gpu.host), id, TextOrNull(facts.name), TextOrNull(facts.bus), discrete, facts.l2_cache,
               facts.total_memory, Bandwidth(facts), Product({1000, facts.clock_khz}), facts.multiprocessors, kNull,
               TextOrNull(facts.uuid), kNull, kNull, gpu.number, kNull, kNull, kNull, kNull, facts.constant_memory,
               kNull, facts.registers_per_block, facts.shared_per_block, facts.shared_per_block_optin,
               facts.shared_per_multiprocessor, facts.registers_per_multiprocessor, facts.warp_size,
               facts.async_engines, Quotient(facts.threads_per_multiprocessor, facts.warp_size),
               facts.blocks_per_multiprocessor, facts.threads_per_block, facts.block_x, facts.block_y, facts.block_z,
               facts.grid_x, facts.grid_y, facts.grid_z, facts.compute_major, facts.compute_minor, kNull, kNull);
  }

  // NVIDIA's layout tells processes by their numbers, which two of them may share: on two hosts, or one after the
  // other. A reader that joins by it must find one row, and none that is wrong about one of the two.
  std::vector<const Seen*> OneOfEachNumber() const {
    std::map<std::pair<int64_t, int64_t>, std::vector<const Seen*>> by_number;
    for (const Seen& seen : seen_) {
      if (seen.pid) by_number[{*seen.pid, seen.number}].push_back(&seen);
    }
    std::vector<const Seen*> found;
    for (const auto& [number, all] : by_number) {
      const DeviceFacts& first = gpus_[all.front()->gpu].facts;
      const bool alike = std::all_of(all.begin(), all.end(),
                                     [&](const Seen* seen) { return AreAlike(first, gpus_[seen->gpu].facts); });
      if (alike) found.push_back(all.front());
    }
    return found;
  }

  std::vector<Gpu> gpus_;  // by id
  std::map<std::pair<size_t, std::string>, size_t> numbers_;
  std::vector<Seen> seen_;
};

}  // namespace

void WriteGpus(Database* database, const std::vector<SpoolSurvey>& spools, const TimeBase& times) {
  Gpus gpus;
  for (size_t i = 0; i < spools.size(); ++i) gpus.Add(times.HostOf(i), static_cast<int64_t>(i) + 1, spools[i]);
  gpus.Write(database);
}

}  // namespace slipstream::trace_db
