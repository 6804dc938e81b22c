#include "tracer/ranges/operator_name.h"

#include <charconv>
#include <system_error>

namespace slipstream::tracer {
namespace {

constexpr std::string_view kSequence = ", seq = ";
constexpr std::string_view kOperator = ", op_id = ";
constexpr std::string_view kInputs = ", input_op_ids = ";  // the last one, if it is there

}  // namespace

OperatorName WithoutNumbers(std::string_view text, std::span<char> room) {
  OperatorName found = {.name = text, .sequence = std::nullopt};
  if (text.find(kSequence) == std::string_view::npos && text.find(kOperator) == std::string_view::npos) return found;
  size_t kept = 0;
  for (size_t at = 0; at < text.size() && kept < room.size();) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(kInputs)) break;
    const bool is_sequence = rest.starts_with(kSequence);
    if (is_sequence || rest.starts_with(kOperator)) {
      const char* const digits = rest.data() + (is_sequence ? kSequence : kOperator).size();
      uint64_t number = 0;
      const auto [end, error] = std::from_chars(digits, rest.data() + rest.size(), number);
      if (error == std::errc()) {
        if (is_sequence) found.sequence = number;
        at += static_cast<size_t>(end - rest.data());
        continue;
      }
    }
    room[kept++] = text[at++];
  }
  found.name = {room.data(), kept};
  return found;
}

}  // namespace slipstream::tracer
