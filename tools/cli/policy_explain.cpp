#include "tools/cli/policy_explain.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/options.h"
#include "policy/rule_keys.h"
#include "policy/site.h"
#include "policy/text.h"
#include "policy/transfer_plan.h"
#include "policy/value.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/policy_output.h"
#include "tools/text/json_text.h"
#include "transfer/decision.h"

namespace slipstream::cli {
namespace {

using policy::Decider;
using policy::Direction;
using policy::Loaded;
using policy::Origin;
using policy::TransferPlan;
using policy::TransferRule;
using text::Json;
using text::OrNull;
using transfer::Decision;

struct Copy {
  Direction direction = Direction::kHostToDevice;
  std::uint64_t bytes = 0;
  int device = 0;
  std::optional<std::string> site{};

  bool ToHost() const { return direction == Direction::kDeviceToHost; }
};

// A key or a rule's key, its value and where that came from.
struct Source {
  std::string key{};
  std::string literal{};
  Origin origin{};

  // "transfer.h2d = \"off\" (p.toml:3)"
  std::string Text() const { return key + " = " + literal + " (" + policy::Escape(origin.Format()) + ")"; }
};

struct Condition {
  std::string_view name;     // in the summary
  std::string_view meaning;  // without what it has in common with the others
};

struct Explanation {
  Copy copy;
  TransferPlan plan;
  // By whom; nothing: the engine has no way to do it.
  std::optional<Source> promote;
  std::optional<Source> skip;
  // What is not the copy's: why no copy of the process is promoted at all. Empty: nothing.
  std::string off{};
  // How a copy that is left alone by the policy is counted; null: it is not.
  const char* counted = nullptr;
  int threads = 1;
  std::vector<Condition> promote_conditions{};
  std::vector<Condition> skip_conditions{};

  // Whether the bytes may lie in device memory until the stream's turn has come.
  bool device_staging = false;

  bool Promotes() const { return off.empty() && plan.promote; }
  std::size_t PieceBytes() const {
    return copy.ToHost() ? policy::FetchedPieceBytesOf(copy.bytes) : policy::PieceBytesOf(copy.bytes);
  }
  bool NeedsDeviceMemory() const { return Promotes() && copy.bytes > policy::kOneDmaBytes; }
  bool GoesAhead() const { return Promotes() && !copy.ToHost() && copy.bytes >= policy::kAheadFrom && device_staging; }
};

// An option of the command line as one of the policy's is checked: the same words for what is wrong.
std::optional<policy::Value> Read(const char* name, policy::OptionType type, const std::string& text, std::int64_t min,
                                  std::int64_t max, std::span<const std::string_view> choices = {}) {
  const policy::Option option = {.table = {},
                                 .key = name,
                                 .type = type,
                                 .doc = {},
                                 .set = nullptr,
                                 .get = nullptr,
                                 .min = min,
                                 .max = max,
                                 .choices = choices};
  policy::Problem problem{.file = std::string("slipstream policy explain: ") + name};
  auto value = AcceptText(option, text, problem);
  if (!value) std::fprintf(stderr, "%s\n", problem.Format().c_str());
  return value;
}

std::optional<Copy> ReadCopy(const ExplainOptions& options) {
  static constexpr std::string_view kDirections[] = {"h2d", "d2h"};
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  // All that is wrong, not the first of it.
  const auto size = Read("--size", policy::OptionType::kSize, options.size, 1, kMostBytes);
  const auto direction = Read("--direction", policy::OptionType::kChoice, options.direction, 0, 0, kDirections);
  const auto device = Read("--device", policy::OptionType::kInteger, options.device, 0, 255);
  const bool no_site = options.site && !policy::ParseSite(*options.site);
  if (no_site) {
    const policy::Problem problem = {.file = "slipstream policy explain: --site",
                                     .found = policy::Quote(*options.site),
                                     .expected = "a file, or a file and a line: \"train.py:42\""};
    std::fprintf(stderr, "%s\n", problem.Format().c_str());
  }
  if (!size || !direction || !device || no_site) return std::nullopt;
  return Copy{.direction = direction->number == 0 ? Direction::kHostToDevice : Direction::kDeviceToHost,
              .bytes = static_cast<std::uint64_t>(size->number),
              .device = static_cast<int>(device->number),
              .site = options.site};
}

Source SourceOf(const Loaded& loaded, const std::string& key) {
  const policy::Option* const option = policy::FindOption(key);
  return {key, policy::Literal(*option, option->get(loaded.policy)), loaded.origins.at(key)};
}

// A key of a rule, by its last part.
Source SourceOfRule(const Loaded& loaded, std::size_t rule, std::string_view name) {
  const policy::RuleKey* const known = policy::FindRuleKey(name);
  const std::string key = policy::RuleName(rule) + "." + std::string(name);
  return {key, policy::Literal(known->option, known->get(loaded.policy.transfer.rules[rule])), loaded.origins.at(key)};
}

std::string KeyOf(Decider decider, const Copy& copy) {
  if (decider == Decider::kStagingKey) return "transfer.device_staging";
  if (decider == Decider::kSkipKey) return "transfer.skip_synchronize";
  if (decider == Decider::kDirectionKey) return copy.ToHost() ? "transfer.d2h" : "transfer.h2d";
  return copy.bytes <= policy::kSmallCopyBytes ? "transfer.small_copies" : "transfer.large_copies";
}

std::optional<Source> WhoDecided(const Loaded& loaded, const Explanation& what, Decider decider,
                                 std::string_view rule_key) {
  if (decider == Decider::kEngine) return std::nullopt;
  if (decider == Decider::kRule) {
    return SourceOfRule(loaded, static_cast<std::size_t>(what.plan.rule), rule_key);
  }
  return SourceOf(loaded, KeyOf(decider, what.copy));
}

const char* NameOf(Decision decision) { return transfer::kDecisionTexts[static_cast<std::size_t>(decision)].name; }

// The decisions whose names begin so, but for those by which the policy itself is counted.
std::vector<Condition> ConditionsOf(std::string_view prefix) {
  const std::string_view settled[] = {NameOf(Decision::kH2dDeclinedOff),   NameOf(Decision::kH2dDeclinedRule),
                                      NameOf(Decision::kD2hDeclinedOff),   NameOf(Decision::kD2hDeclinedRule),
                                      NameOf(Decision::kD2hDeclinedSmall), NameOf(Decision::kSyncKeptOff),
                                      NameOf(Decision::kSyncKeptRule)};
  std::vector<Condition> conditions;
  for (const policy::DecisionText& text : transfer::kDecisionTexts) {
    const std::string_view name = text.name;
    if (!name.starts_with(prefix) || std::find(std::begin(settled), std::end(settled), name) != std::end(settled)) {
      continue;
    }
    std::string_view meaning = text.meaning;
    if (const std::size_t colon = meaning.find(": "); colon != std::string_view::npos) meaning.remove_prefix(colon + 2);
    conditions.push_back({name, meaning});
  }
  return conditions;
}

Decision HowLeftAlone(Decider decider, bool to_host) {
  switch (decider) {
    case Decider::kEngine:
      return Decision::kD2hDeclinedSmall;
    case Decider::kStagingKey:
      return to_host ? Decision::kD2hDeclinedDevice : Decision::kH2dDeclinedDevice;
    case Decider::kRule:
      return to_host ? Decision::kD2hDeclinedRule : Decision::kH2dDeclinedRule;
    default:
      return to_host ? Decision::kD2hDeclinedOff : Decision::kH2dDeclinedOff;
  }
}

Explanation Explain(const Loaded& loaded, const Copy& copy) {
  const policy::Transfer& transfer = loaded.policy.transfer;
  Explanation what;
  what.copy = copy;
  const auto site = copy.site ? policy::ParseSite(*copy.site) : std::nullopt;
  what.plan = PlanOf(transfer, copy.direction, copy.bytes, copy.device, RulesAtSite(transfer, site ? &*site : nullptr));
  what.promote = WhoDecided(loaded, what, what.plan.promote_by, "promote");
  what.skip = WhoDecided(loaded, what, what.plan.skip_by, "skip_synchronize");
  what.threads = CopyThreads(transfer, 0);
  what.device_staging = policy::DeviceStagingBytes(loaded.policy.transfer) != 0;
  if (policy::DisabledByEnvironment()) {
    what.off = std::string(policy::kDisableVariable) + " is set: every call passes through";
  } else if (!loaded.policy.enabled) {
    what.off = SourceOf(loaded, "enabled").Text() + ": every call passes through";
  }
  if (what.Promotes()) {
    what.promote_conditions = ConditionsOf(copy.ToHost() ? "transfer.d2h.declined." : "transfer.h2d.declined.");
    if (what.plan.skip_synchronize) what.skip_conditions = ConditionsOf("transfer.sync.kept.");
  } else if (what.off.empty() && Considers(transfer, copy.direction) && OffByPolicy(transfer) == nullptr) {
    what.counted = NameOf(HowLeftAlone(what.plan.promote_by, copy.ToHost()));
  }
  return what;
}

constexpr std::size_t kLabelWidth = 13;

std::string Line(std::string label, const std::string& text) {
  label.append(kLabelWidth - label.size(), ' ');
  return label + text + "\n";
}

std::string Conditions(const std::string& head, const std::vector<Condition>& conditions) {
  if (conditions.empty()) return {};
  std::size_t width = 0;
  for (const Condition& condition : conditions) width = std::max(width, condition.name.size());
  std::string out = "\n" + head + "\n";
  for (const Condition& condition : conditions) {
    out.append("  ").append(condition.name).append(width + 2 - condition.name.size(), ' ');
    out.append(condition.meaning).append("\n");
  }
  return out;
}

std::string RuleText(const Loaded& loaded, std::int16_t rule) {
  const std::vector<TransferRule>& rules = loaded.policy.transfer.rules;
  if (rules.empty()) return "the policy has none";
  if (rule == TransferPlan::kNoRule) return "none of " + std::to_string(rules.size()) + " matches";
  const std::string name = policy::RuleName(static_cast<std::size_t>(rule));
  const std::string& text = rules[static_cast<std::size_t>(rule)].name;
  return name + (text.empty() ? "" : " " + policy::Quote(text)) + " (" +
         policy::Escape(loaded.origins.at(name).Format()) + ") is the first that matches";
}

std::string ThreadsText(const Loaded& loaded, int threads) {
  const std::string count = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  const Source source = SourceOf(loaded, "transfer.threads");
  return count + (loaded.policy.transfer.threads > 0
                      ? ": " + source.Text()
                      : " on this machine: by its processors; fewer where a job has several ranks on it");
}

std::string TextOf(const Loaded& loaded, const Explanation& what) {
  const Copy& copy = what.copy;
  std::string size = policy::FormatSize(static_cast<std::int64_t>(copy.bytes));
  if (const std::string plain = std::to_string(copy.bytes) + "B"; size != plain) size += " (" + plain + ")";
  const std::string device = "device " + std::to_string(copy.device);
  std::string out =
      Line("copy", size + (copy.ToHost() ? " from " + device + " to" : " to " + device + " from") + " pageable memory");
  if (copy.site) {
    out += Line("site", policy::Escape(*copy.site));
  } else if (RulesHaveSites(loaded.policy.transfer)) {
    out += Line("site", "not said (--site train.py:42), so that no rule with a site matches");
  }
  out += Line("rule", RuleText(loaded, what.plan.rule));

  if (!what.Promotes()) {
    out += Line("promoted", "no: " + (!what.off.empty() ? what.off
                                      : what.promote    ? what.promote->Text()
                                                        : std::string("copies to the host of up to ") +
                                                           policy::FormatSize(policy::kSmallCopyBytes) + " never are"));
    out += Line("way", "the program's own call");
    out += Line("counted", what.counted != nullptr ? what.counted : "not at all");
    return out;
  }
  out += Line("promoted", "yes: " + what.promote->Text());
  if (!copy.ToHost() && copy.bytes <= policy::kSmallCopyBytes) {
    out += Line("way", "the driver's own, which takes the bytes at once");
  } else {
    const auto piece = policy::FormatSize(static_cast<std::int64_t>(what.PieceBytes()));
    out += Line("way", "the ring of staging memory, in pieces of " + piece);
    const std::string staging = SourceOf(loaded, "transfer.device_staging").Text();
    if (what.NeedsDeviceMemory()) {
      out += Line("device", "by way of as much memory of its own: " + staging);
    } else if (what.GoesAhead()) {
      out += Line("busy stream", "by way of device memory, ahead of the stream: " + staging);
    }
    out += Line("threads", ThreadsText(loaded, what.threads));
  }
  if (!what.skip) {
    out += Line("wait", "made: the copy is complete when its call returns");
  } else {
    out += Line("wait", (what.plan.skip_synchronize ? "may be skipped: " : "made: ") + what.skip->Text());
  }
  out += Conditions(
      "Looked at for every copy, if the engine serves the process (`slipstream doctor`). The program's own call is "
      "made, "
      "and counted, where:",
      what.promote_conditions);
  out += Conditions("The synchronization is made, and counted, where:", what.skip_conditions);
  return out;
}

Json SourceJson(bool value, const std::optional<Source>& source) {
  Json json;
  json["value"] = value;
  json["by"] = source ? Json(source->key) : Json(nullptr);
  json["origin"] = source ? OriginJson(source->origin) : Json(nullptr);
  return json;
}

Json NamesOf(const std::vector<Condition>& conditions) {
  Json names = Json::array();
  for (const Condition& condition : conditions) names.push_back(std::string(condition.name));
  return names;
}

std::string JsonOf(const Loaded& loaded, const Explanation& what) {
  const Copy& copy = what.copy;
  Json out;
  out["path"] = OrNull(loaded.path);
  out["copy"] = {{"direction", copy.ToHost() ? "d2h" : "h2d"},
                 {"bytes", copy.bytes},
                 {"device", copy.device},
                 {"site", OrNull(copy.site)}};
  out["rule"] = nullptr;
  if (what.plan.rule != TransferPlan::kNoRule) {
    const auto index = static_cast<std::size_t>(what.plan.rule);
    const std::string name = policy::RuleName(index);
    out["rule"] = {{"number", index + 1},
                   {"name", loaded.policy.transfer.rules[index].name},
                   {"origin", OriginJson(loaded.origins.at(name))}};
  }
  out["off"] = OrNull(what.off);
  out["promote"] = SourceJson(what.Promotes(), what.promote);
  out["skip_synchronize"] = SourceJson(what.Promotes() && what.plan.skip_synchronize, what.skip);
  out["counted"] = what.counted != nullptr ? Json(what.counted) : Json(nullptr);
  out["staging"] = nullptr;
  if (what.Promotes() && (copy.ToHost() || copy.bytes > policy::kSmallCopyBytes)) {
    out["staging"] = {{"kind", "ring"},
                      {"piece_bytes", what.PieceBytes()},
                      {"threads", what.threads},
                      {"device_memory", what.NeedsDeviceMemory()},
                      {"device_memory_if_busy", what.GoesAhead()}};
  }
  out["checked"] = {{"promote", NamesOf(what.promote_conditions)}, {"skip_synchronize", NamesOf(what.skip_conditions)}};
  return text::JsonText(out);
}

}  // namespace

int PolicyExplain(const ExplainOptions& options) noexcept {
  return Guarded([&]() -> int {
    const auto copy = ReadCopy(options);
    if (!copy) return kUsage;
    const policy::Environment env = policy::Environment::FromProcess();
    const Loaded loaded = policy::Load({.path = options.policy, .env = env, .search = policy::Search::kCommand});
    if (Complain(loaded) != 0) return 1;
    const Explanation what = Explain(loaded, *copy);
    return Print(options.json ? JsonOf(loaded, what) : TextOf(loaded, what));
  });
}

}  // namespace slipstream::cli
