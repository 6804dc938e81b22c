#include "tools/cli/tune_machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>

#include "tracer/spool/device_facts.h"
#include "tracer/spool/spool_reader.h"

namespace slipstream::cli {

DevicesSeen DevicesOf(const std::string& run_directory) {
  std::string error;
  std::map<std::string, tracer::DeviceFacts> devices;  // ranks see one device under several numbers
  for (const std::string& path : tracer::ListSpools(run_directory, &error)) {
    const auto reader = tracer::SpoolReader::Open(path, &error);
    if (reader == nullptr) continue;
    bool found = false;
    tracer::SpoolRecord record;
    // They stand together, behind the first calls.
    while (!found) {
      const bool more = reader->Next(&record);
      for (const auto& [key, text] : reader->facts()) {
        if (!tracer::DeviceOfFactKey(key)) continue;
        found = true;
        tracer::DeviceFacts device = tracer::DeviceOfFactText(text);
        devices.emplace(device.uuid.empty() ? key : device.uuid, std::move(device));
      }
      if (!more) break;
    }
  }
  DevicesSeen seen;
  for (const auto& [id, device] : devices) {
    seen.names.push_back(device.name);
    const int64_t memory = device.total_memory.value_or(0);
    if (memory <= 0) continue;
    const auto bytes = static_cast<uint64_t>(memory);
    seen.smallest_memory = seen.smallest_memory == 0 ? bytes : std::min(seen.smallest_memory, bytes);
  }
  return seen;
}

std::string DevicesText(const std::vector<std::string>& names) {
  std::map<std::string, size_t> counts;
  for (const std::string& name : names) ++counts[name.empty() ? "a device without a name" : name];
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + (count == 1 ? "" : std::to_string(count) + " x ") + name;
  }
  return text;
}

uint64_t PoolPeakOf(const std::vector<tracer::ProcessCounts>& processes) {
  uint64_t peak = 0;
  for (const tracer::ProcessCounts& process : processes) {
    for (const tracer::MemoryCounts& sample : process.memory) {
      peak = std::max(peak, sample.figures.live_bytes + sample.figures.idle_bytes);
    }
  }
  return peak;
}

tune::Place PlaceHere(const std::vector<std::string>& devices, const std::string& version, const std::string& module) {
  tune::Place place = {.devices = DevicesText(devices), .slipstream = version};
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) place.host = host.data();
  std::ifstream file(module + "/version");
  std::getline(file, place.driver);
  return place;
}

}  // namespace slipstream::cli
