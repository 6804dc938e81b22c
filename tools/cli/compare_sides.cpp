#include "tools/cli/compare_sides.h"

#include <map>
#include <string_view>

#include "policy/options.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"

namespace slipstream::cli {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr std::string_view kLibrary = "libslipstream.so";

bool IsOurs(std::string_view path) { return path.substr(path.rfind('/') + 1) == kLibrary; }

// LD_PRELOAD, entries with colons or blanks between them (ld.so(8)), without our library.
std::string WithoutOurs(std::string_view preload) {
  std::string kept;
  while (!preload.empty()) {
    const size_t end = preload.find_first_of(": ");
    const std::string_view entry = preload.substr(0, end);
    if (!entry.empty() && !IsOurs(entry)) kept += (kept.empty() ? "" : ":") + std::string(entry);
    if (end == std::string_view::npos) break;
    preload.remove_prefix(end + 1);
  }
  return kept;
}

// Variables of ours that are no keys of a policy.
bool IsNoOverride(std::string_view name) {
  return name == policy::kPolicyVariable || name == policy::kSystemDirectoryVariable ||
         name == policy::kDisableVariable || name == policy::kRunDirectoryVariable || name == policy::kRunVariable ||
         name == policy::kRunPolicyVariable || name == policy::kChildrenVariable;
}

// Everything that acts is off; what sees and writes down stays as it is.
void SwitchEnginesOff(policy::Policy* policy) {
  policy->environment.clear();  // nothing that a bare command would not have
  policy->allocator.mode = policy::AllocatorMode::kOff;
  policy->transfer.h2d = policy::TransferMode::kOff;
  policy->transfer.d2h = policy::TransferMode::kOff;
  policy->transfer.unmap_in_background = false;
  policy->host = {.huge_pages = policy::HugePages::kOff, .max_kept = 0};
}

// As the text of a variable.
std::string TextOf(const policy::Option& option, const policy::Value& value) {
  switch (value.kind) {
    case policy::Value::Kind::kFlag:
      return value.flag ? "true" : "false";
    case policy::Value::Kind::kNumber:
      return option.type == policy::OptionType::kChoice ? std::string(option.choices[static_cast<size_t>(value.number)])
                                                        : std::to_string(value.number);
    case policy::Value::Kind::kText:
      return value.text;
    case policy::Value::Kind::kList:
      break;
  }
  return "";
}

// The policy as variables, all of it: no file has a say where they are set. Not [children], which a variable of its own
// carries.
void PutIntoVariables(const policy::Policy& policy, Variables* variables) {
  const policy::Policy defaults;
  for (const policy::Option& option : policy::Options()) {
    if (!option.overridable || option.type == policy::OptionType::kList) continue;
    const policy::Value value = option.get(policy);
    if (value != option.get(defaults)) (*variables)[policy::VariableOf(option)] = TextOf(option, value);
  }
  (*variables)[policy::kSystemDirectoryVariable] = "";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> BareVariables(const policy::Environment& environment) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const auto& [name, value] : environment.variables()) {
    if (policy::IsOwnVariable(name)) continue;
    if (name == "NVTX_INJECTION64_PATH" && IsOurs(value)) continue;
    if (name != "LD_PRELOAD") {
      variables.emplace_back(name, value);
    } else if (std::string kept = WithoutOurs(value); !kept.empty()) {
      variables.emplace_back(name, std::move(kept));
    }
  }
  return variables;
}

PreloadEnvironment VariablesOf(const CompareSide& side, const policy::Environment& environment, bool recorded,
                               const std::string& run_directory) {
  if (side.bare && !recorded) {
    PreloadEnvironment bare;
    for (const auto& [name, value] : BareVariables(environment)) bare.variables.push_back(name + "=" + value);
    return bare;
  }
  Preparation prepared = side.prepared;
  policy::Tracer& tracer = prepared.loaded.policy.tracer;
  tracer.record = recorded ? policy::Record::kOn : policy::Record::kOff;
  // Calls and their lines are all that steps need, and what devices did is the dearest part of a trace.
  if (recorded) {
    tracer.device = policy::DeviceWork::kOff;
    tracer.stacks = policy::Stacks::kLine;
    tracer.window.clear();
  }
  if (side.bare) {
    SwitchEnginesOff(&prepared.loaded.policy);
    prepared.loaded.layers.clear();  // a [[transfer.rule]] in one of them would outrank all variables
    const auto bare = BareVariables(environment);
    Variables variables(bare.begin(), bare.end());
    PutIntoVariables(prepared.loaded.policy, &variables);
    return EnvironmentOf(prepared, policy::Environment(variables), run_directory);
  }
  Variables variables(environment.variables().begin(), environment.variables().end());
  variables["SLIPSTREAM_TRACER_RECORD"] = recorded ? "on" : "off";
  if (recorded) {
    variables["SLIPSTREAM_TRACER_DEVICE"] = "off";
    variables["SLIPSTREAM_TRACER_STACKS"] = "line";
    variables["SLIPSTREAM_TRACER_WINDOW"] = "";
  }
  return EnvironmentOf(prepared, policy::Environment(variables), run_directory);
}

std::vector<std::string> PrepareSide(const char* whose, const CompareSide& side, const policy::Environment& environment,
                                     bool recorded, const std::string& tmpdir, RunDirectory* directory) {
  if (recorded || (!side.bare && WantsCounters(side.prepared.loaded.policy))) {
    std::vector<std::string> places = RunDirectoryPlaces(tmpdir);
    if (recorded) places.erase(places.begin());  // traces are large, and /dev/shm is memory
    std::string error;
    if (!directory->Create(places, &error)) Complain(whose, "no counters and no trace: " + policy::Escape(error));
  }
  PreloadEnvironment made = VariablesOf(side, environment, recorded, directory->path());
  if (made.error.empty()) return std::move(made.variables);
  Complain(whose, made.error);
  return {};
}

bool MakeSides(const std::vector<std::string>& policies, bool both_under, const policy::Environment& environment,
               std::array<CompareSide, 2>* sides, compare::Comparison* comparison, int* status) {
  const bool two = both_under || policies.size() == 2;
  for (size_t i = 0; i < sides->size(); ++i) {
    CompareSide& side = (*sides)[i];
    side.bare = i == 0 && !two;
    if (!policies.empty()) side.policy = policies.size() == 2 ? policies[i] : policies.front();
    side.prepared = PrepareRun(side.policy, environment);
    *status = side.prepared.status;
    if (*status != kSuccess) return false;
    if (!side.bare) SayNotes(side.prepared.loaded);
    compare::Side& said = comparison->sides[i];
    const policy::Policy& policy = side.prepared.loaded.policy;
    if (side.bare) {
      said.name = "bare";
      said.detail = kBareDetail;
      continue;
    }
    said.name = !two ? "slipstream" : i == 0 ? "A" : "B";
    said.policy = side.prepared.loaded.Files();
    said.file = side.policy.value_or("");
    said.detail = "under slipstream, policy: " + said.policy;
    said.counted = WantsCounters(policy);
    if (!policy.enabled) {
      comparison->notes.push_back("the policy of " + said.name +
                                  " says enabled = false: slipstream passes everything through there.");
    }
    if (WantsTrace(policy)) {
      comparison->notes.push_back("the policy of " + said.name +
                                  " records traces, which costs time. Here it does not: `slipstream run` would.");
    }
  }
  std::string set;
  for (const auto& [name, value] : environment.variables()) {
    if (!policy::IsOwnVariable(name) || IsNoOverride(name)) continue;
    set += (set.empty() ? "" : ", ") + name;
  }
  if (!set.empty()) {
    comparison->notes.push_back("set in the environment, and stronger than any policy: " + set +
                                (two ? "." : ". The bare side does not have it."));
  }
  return true;
}

}  // namespace slipstream::cli
