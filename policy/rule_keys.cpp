#include "policy/rule_keys.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace slipstream::policy {
namespace {

// One field of a rule. A direction and a switch have a first enumerator for "not said", which no text stands for.
template <auto kMember>
struct RuleField {
  static void Set(TransferRule& rule, const Value& value) {
    auto& field = rule.*kMember;
    using T = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<T, RuleSwitch>) {
      field = value.flag ? RuleSwitch::kTrue : RuleSwitch::kFalse;
    } else if constexpr (std::is_same_v<T, RuleDirection>) {
      field = static_cast<RuleDirection>(value.number + 1);
    } else if constexpr (std::is_same_v<T, std::string>) {
      field = value.text;
    } else {
      field = static_cast<T>(value.number);
    }
  }

  static Value Get(const TransferRule& rule) {
    const auto& field = rule.*kMember;
    using T = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<T, RuleSwitch>) {
      return field == RuleSwitch::kTrue;
    } else if constexpr (std::is_same_v<T, RuleDirection>) {
      return field == RuleDirection::kBoth ? std::int64_t{0} : static_cast<std::int64_t>(field) - 1;
    } else if constexpr (std::is_same_v<T, std::string>) {
      return field;
    } else {
      return static_cast<std::int64_t>(field);
    }
  }
};

constexpr std::string_view kDirections[] = {"h2d", "d2h"};
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

template <auto kMember>
constexpr RuleKey Row(std::string_view key, OptionType type, bool action, std::string_view example,
                      std::string_view doc, std::int64_t min = 0, std::int64_t max = 0) {
  return {.option = {.table = kRuleTable,
                     .key = key,
                     .type = type,
                     .doc = doc,
                     .set = nullptr,
                     .get = nullptr,
                     .min = min,
                     .max = max,
                     .choices = type == OptionType::kChoice ? std::span<const std::string_view>(kDirections)
                                                            : std::span<const std::string_view>(),
                     .overridable = false},
          .set = &RuleField<kMember>::Set,
          .get = &RuleField<kMember>::Get,
          .action = action,
          .example = example};
}

constexpr RuleKey kRuleKeys[] = {
    Row<&TransferRule::name>("name", OptionType::kString, false, "\"large batches wait\"",
                             "For people: stands in what `policy show` and `policy explain` print."),
    Row<&TransferRule::direction>("direction", OptionType::kChoice, false, "\"h2d\"",
                                  "Copies of this direction: h2d to the device, d2h to the host. Without it: both."),
    Row<&TransferRule::min_size>("min_size", OptionType::kSize, false, "\"16MiB\"", "Copies of this size and more.", 0,
                                 kMostBytes),
    Row<&TransferRule::max_size>("max_size", OptionType::kSize, false, "\"512MiB\"", "Copies of this size and less.", 1,
                                 kMostBytes),
    Row<&TransferRule::device>("device", OptionType::kInteger, false, "0",
                               "Copies of this device, by its number in the process (CUDA_VISIBLE_DEVICES counts). "
                               "Without it: any.",
                               0, 255),
    Row<&TransferRule::site>(
        "site", OptionType::kString, false, "\"train.py:42\"",
        "Copies that are made at this line of the program, or anywhere in the file (\"train.py\"): "
        "the innermost line that is not PyTorch's or Python's own. A file is known by the end of "
        "its path, from a slash on. Needs CPython 3.9 to 3.15; elsewhere the rule matches nothing."),
    Row<&TransferRule::promote>("promote", OptionType::kBool, true, "true",
                                "false: such copies are left alone. true: they are promoted where `h2d`, `d2h`, "
                                "`small_copies` or `large_copies` would leave them alone."),
    Row<&TransferRule::skip_synchronize>(
        "skip_synchronize", OptionType::kBool, true, "false",
        "The key `transfer.skip_synchronize`, for the synchronization behind such a copy to the device."),
};

}  // namespace

std::span<const RuleKey> RuleKeys() { return kRuleKeys; }

const RuleKey* FindRuleKey(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kRuleKeys), std::end(kRuleKeys),
                                         [name](const RuleKey& key) { return key.option.key == name; });
  return found == std::end(kRuleKeys) ? nullptr : found;
}

std::string RuleName(std::size_t index) { return std::string(kRuleTable) + "[" + std::to_string(index + 1) + "]"; }

}  // namespace slipstream::policy
