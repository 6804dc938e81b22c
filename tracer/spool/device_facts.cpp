#include "tracer/spool/device_facts.h"

#include <algorithm>

#include "policy/number.h"

namespace slipstream::tracer {
namespace {

constexpr std::string_view kName = "name=";

void Put(std::string* text, const char* word, const std::string& value) {
  if (!value.empty()) *text += std::string(word) + "=" + value + " ";
}

void Put(std::string* text, const char* word, const std::optional<int64_t>& value) {
  if (value) Put(text, word, std::to_string(*value));
}

}  // namespace

std::string UuidText(const std::array<unsigned char, 16>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string DeviceFactText(const DeviceFacts& device) {
  std::string text;
  Put(&text, "uuid", device.uuid);
  Put(&text, "bus", device.bus);
  Put(&text, "total_memory", device.total_memory);
#define SLIPSTREAM_PUT(word, attribute) Put(&text, #word, device.word);
  SLIPSTREAM_DEVICE_ATTRIBUTES(SLIPSTREAM_PUT)
#undef SLIPSTREAM_PUT
  return text.append(kName) + device.name;
}

DeviceFacts DeviceOfFactText(std::string_view text) {
  DeviceFacts device;
  while (!text.empty() && !text.starts_with(kName)) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view word = pair.substr(0, equals);
    const std::string_view value = pair.substr(equals + 1);
    if (word == "uuid") device.uuid = value;
    if (word == "bus") device.bus = value;
    if (word == "total_memory") device.total_memory = policy::NumberIn<int64_t>(value);
#define SLIPSTREAM_TAKE(member, attribute) \
  if (word == #member) device.member = policy::NumberIn<int64_t>(value);
    SLIPSTREAM_DEVICE_ATTRIBUTES(SLIPSTREAM_TAKE)
#undef SLIPSTREAM_TAKE
  }
  if (text.starts_with(kName)) device.name = text.substr(kName.size());
  return device;
}

std::optional<int64_t> DeviceOfFactKey(std::string_view key) {
  if (!key.starts_with(kFactDevice)) return std::nullopt;
  key.remove_prefix(kFactDevice.size());
  const std::optional<int64_t> device = policy::NumberIn<int64_t>(key);
  // One number has one key.
  return device && *device >= 0 && std::to_string(*device) == key ? device : std::nullopt;
}

}  // namespace slipstream::tracer
