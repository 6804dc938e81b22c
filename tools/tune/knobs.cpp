#include "tools/tune/knobs.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "policy/options.h"
#include "policy/value.h"
#include "tools/tune/policy_file.h"

namespace slipstream::tune {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Knobs {
 public:
  Knobs(const policy::Policy& base, std::vector<NotTried>* not_tried) : base_(base), not_tried_(*not_tried) {}

  // Values as TOML; that of the base is left out.
  void Try(const std::string& key, const std::vector<std::string>& values) {
    const policy::Option* const option = policy::FindOption(key);
    if (option == nullptr) return;
    const std::string now = policy::Literal(*option, option->get(base_));
    Knob knob = {.key = key, .values = values};
    std::erase(knob.values, now);
    if (!knob.values.empty()) made_.push_back(std::move(knob));
  }
  void TryUnless(bool pointless, const char* why, const std::string& key, const std::vector<std::string>& values) {
    if (pointless) {
      not_tried_.push_back({key, why});
    } else {
      Try(key, values);
    }
  }
  std::vector<Knob> made_;

 private:
  const policy::Policy& base_;
  std::vector<NotTried>& not_tried_;
};

// As policy::Literal writes it: a value that is the base's is known by its text.
std::string Size(uint64_t bytes) { return Quoted(policy::FormatSize(static_cast<int64_t>(bytes))); }

// Memory to take in advance: all that the program comes to, and half of it, in whole blocks, and no more than the pool
// keeps idle. Where nobody knows what it comes to, parts of the device.
std::vector<std::string> InAdvance(const policy::Allocator& allocator, const Traffic& traffic, const Machine& machine) {
  if (machine.device_memory == 0) return {};
  const uint64_t block = (allocator.pre_reserve_block + kMiB - 1) / kMiB * kMiB;
  const uint64_t most = allocator.max_idle != 0 ? allocator.max_idle : machine.device_memory / 4;
  const bool known = traffic.pool_peak != 0;
  std::vector<std::string> values;
  for (const uint64_t wanted : {known ? traffic.pool_peak : machine.device_memory / 8,
                                known ? traffic.pool_peak / 2 : machine.device_memory / 32}) {
    const uint64_t bytes = std::min(wanted, most) / block * block;
    if (bytes == 0) continue;
    if (std::string value = Size(bytes); std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(std::move(value));
    }
  }
  return values;
}

}  // namespace

std::vector<Knob> KnobsFor(const policy::Policy& base, const Traffic& traffic, const Machine& machine,
                           const std::vector<std::string>& environment, std::vector<NotTried>* not_tried) {
  Knobs knobs(base, not_tried);
  const bool no_copies = !traffic.copies_to_device && !traffic.copies_to_host;
  // What can win most comes first: the time may be over before the end.
  knobs.TryUnless(!traffic.copies_to_device, "the program copies nothing to a device", "transfer.h2d",
                  {"\"on\"", "\"off\""});
  knobs.TryUnless(!traffic.copies_to_host, "the program copies nothing to the host", "transfer.d2h",
                  {"\"on\"", "\"off\""});
  std::vector<std::string> modes = {"\"segments\"", "\"off\""};
  if (traffic.uses_pytorch) modes.insert(modes.begin(), "\"expandable\"");
  knobs.TryUnless(!traffic.allocates, "the program allocates no memory of a device", "allocator.mode", modes);
  const bool is_off = base.transfer.h2d == policy::TransferMode::kOff;
  knobs.TryUnless(is_off || !traffic.copies_to_device, "nothing is promoted to a device", "transfer.device_staging",
                  {Size(1024 * kMiB), Size(512 * kMiB), Size(0)});
  knobs.TryUnless(is_off || !traffic.copies_to_device, "nothing is promoted to a device", "transfer.max_mirrored",
                  {Size(1024 * kMiB), Size(4096 * kMiB), Size(0)});
  std::vector<std::string> threads;
  for (const int count : {1, 2, 4, 8, 12, 16}) {
    if (count <= machine.processors) threads.push_back(std::to_string(count));
  }
  knobs.TryUnless(no_copies, "the program copies nothing", "transfer.threads", threads);
  knobs.TryUnless(no_copies, "the program copies nothing", "transfer.max_pinned",
                  {Size(2048 * kMiB), Size(1024 * kMiB), Size(256 * kMiB)});
  knobs.TryUnless(!traffic.copies_to_device, "the program copies nothing to a device", "transfer.unmap_in_background",
                  {"true", "false"});
  const std::vector<std::string> in_advance = InAdvance(base.allocator, traffic, machine);
  const bool has_pool = base.allocator.mode != policy::AllocatorMode::kOff;
  const char* const why = !traffic.allocates || !has_pool ? "there is no pool to fill"
                          : machine.device_memory == 0    ? "the device's memory is not known"
                                                          : "the pool never holds a block of it";
  knobs.TryUnless(!traffic.allocates || !has_pool || in_advance.empty(), why, "allocator.pre_reserve", in_advance);
  knobs.TryUnless(!traffic.allocates, "the program allocates no memory of a device", "allocator.decay", {"30"});
  for (const std::string& setting : environment) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    knobs.made_.push_back(
        {"environment." + setting.substr(0, equals), {Quoted(std::string_view(setting).substr(equals + 1))}});
  }
  return knobs.made_;
}

std::vector<std::string> KeysToTune() {
  std::vector<NotTried> all;  // of a program that does nothing
  KnobsFor({}, {}, {}, {}, &all);
  std::vector<std::string> keys;
  keys.reserve(all.size());
  for (const NotTried& one : all) keys.push_back(one.key);
  return keys;
}

bool NamesKey(const std::string& name, const std::string& key) { return key == name || key.starts_with(name + "."); }

}  // namespace slipstream::tune
