// Reads SIMCUDA_* once; README.md documents them.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/driver/world.h"

namespace simcuda {
namespace {

// "256MiB", "1GiB", "4096"; 0 for what is none.
size_t ParseBytes(const char* text) {
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  size_t unit = 1;
  if (std::strcmp(end, "KiB") == 0) {
    unit = size_t{1} << 10;
  } else if (std::strcmp(end, "MiB") == 0) {
    unit = size_t{1} << 20;
  } else if (std::strcmp(end, "GiB") == 0) {
    unit = size_t{1} << 30;
  } else if (*end != '\0') {
    return 0;
  }
  return number > 0 ? static_cast<size_t>(number * static_cast<double>(unit)) : 0;
}

// "88=1,89=1": CUdevice_attribute numbers of every device.
void ParseAttributes(World& world, const char* text) {
  while (*text != '\0') {
    char* end = nullptr;
    const long attribute = std::strtol(text, &end, 10);
    if (end == text || *end != '=') {
      return;
    }
    text = end + 1;
    const long value = std::strtol(text, &end, 10);
    for (Device& device : world.devices) {
      device.attributes[static_cast<int>(attribute)] = static_cast<int>(value);
    }
    if (*end != ',') {
      return;
    }
    text = end + 1;
  }
}

// "cudaMalloc:2@3,own:cuEventQuery:1@1+": function, code, which call; "+" also every later one. "own:" counts and fails
// only calls that slipstream makes itself.
void ParseFailures(const char* text) {
  std::string list(text);
  size_t start = 0;
  while (start < list.size()) {
    size_t comma = list.find(',', start);
    if (comma == std::string::npos) {
      comma = list.size();
    }
    const std::string item = list.substr(start, comma - start);
    start = comma + 1;
    const size_t at = item.find('@');
    const size_t colon = item.rfind(':', at);
    if (colon == std::string::npos || at == std::string::npos) {
      continue;
    }
    const std::string name = item.substr(0, colon);
    const int code = std::atoi(item.c_str() + colon + 1);
    char* end = nullptr;
    const unsigned long long nth = std::strtoull(item.c_str() + at + 1, &end, 10);
    simFailCall(name.c_str(), code, nth, *end == '+' ? 1 : 0);
  }
}

}  // namespace

void ReadEnvironment(World& world) {
  if (const char* mode = std::getenv("SIMCUDA_MODE")) {
    world.settings.timed = std::strcmp(mode, "timed") == 0;
    world.settings.poison = !world.settings.timed;
  }
  if (const char* seed = std::getenv("SIMCUDA_SEED")) {
    world.settings.seed = std::strtoull(seed, nullptr, 0);
  }
  if (const char* poison = std::getenv("SIMCUDA_POISON")) {
    world.settings.poison = std::strcmp(poison, "0") != 0;
  }
  if (const char* idle = std::getenv("SIMCUDA_IDLE_PROGRESS_MS")) {
    world.settings.idle_progress_ns = std::strtoull(idle, nullptr, 10) * 1000000;
  }
  if (const char* devices = std::getenv("SIMCUDA_DEVICES")) {
    world.settings.devices = std::clamp(std::atoi(devices), 1, kDeviceCount);
  }
  if (const char* kernels = std::getenv("SIMCUDA_KERNELS")) {
    world.settings.empty_kernels = std::strcmp(kernels, "empty") == 0;
  }
  if (const char* memory = std::getenv("SIMCUDA_MEMORY")) {
    if (const size_t bytes = ParseBytes(memory)) {
      for (Device& device : world.devices) {
        device.total_bytes = bytes;
      }
    }
  }
  if (const char* bandwidth = std::getenv("SIMCUDA_BANDWIDTH")) {
    const double gigabytes = std::strtod(bandwidth, nullptr);  // 1e9 bytes per second = bytes per ns
    if (gigabytes > 0) {
      world.settings.bytes_per_ns[0] = world.settings.bytes_per_ns[1] = gigabytes;
    }
  }
  if (const char* attributes = std::getenv("SIMCUDA_ATTRIBUTES")) {
    ParseAttributes(world, attributes);
  }
  if (const char* failures = std::getenv("SIMCUDA_FAIL")) {
    ParseFailures(failures);
  }
}

}  // namespace simcuda
