#include "tools/cli/policy_output.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "policy/text.h"
#include "tools/text/json_text.h"

namespace slipstream::cli {

int Complain(const policy::Loaded& loaded) {
  for (const policy::Problem& note : loaded.notes) std::fprintf(stderr, "%s\n", note.Format().c_str());
  for (const std::string& line : loaded.ForeignText()) std::fprintf(stderr, "%s\n", line.c_str());
  for (const policy::Problem& problem : loaded.problems) std::fprintf(stderr, "%s\n", problem.Format().c_str());
  if (loaded.out_of_memory) std::fprintf(stderr, "slipstream policy: out of memory\n");
  return loaded.ok() ? 0 : 1;
}

int Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "slipstream policy: standard output: %s\n", std::strerror(errno));
  return 1;
}

nlohmann::ordered_json OriginJson(const policy::Origin& origin) {
  nlohmann::ordered_json json;
  switch (origin.kind) {
    case policy::Origin::Kind::kDefault:
      json["kind"] = "default";
      break;
    case policy::Origin::Kind::kFile:
      json["kind"] = "file";
      json["layer"] = policy::NameOf(origin.layer);
      json["file"] = origin.name;
      json["line"] = origin.line;
      json["column"] = origin.column;
      break;
    case policy::Origin::Kind::kEnvironment:
      json["kind"] = "environment";
      json["variable"] = origin.name;
      break;
  }
  return json;
}

nlohmann::ordered_json ValueJson(const policy::Option& option, const policy::Value& value) {
  // A choice is a number only inside; people and scripts know its name.
  if (option.type == policy::OptionType::kChoice) {
    return std::string(option.choices[static_cast<std::size_t>(value.number)]);
  }
  switch (value.kind) {
    case policy::Value::Kind::kFlag:
      return value.flag;
    case policy::Value::Kind::kNumber:
      return value.number;
    case policy::Value::Kind::kText:
      return value.text;
    case policy::Value::Kind::kList:
      return value.list;
  }
  return nullptr;
}

std::string LayersText(const policy::Loaded& loaded, std::string_view read) {
  constexpr std::size_t kLayerWidth = 9;
  std::size_t width = 0;
  for (const policy::LayerFile& file : loaded.layers) width = std::max(width, policy::Escape(file.path).size());
  std::string out;
  for (const policy::LayerFile& file : loaded.layers) {
    std::string line = policy::NameOf(file.layer);
    line.append(kLayerWidth - line.size(), ' ');
    const std::string path = policy::Escape(file.path);
    if (!path.empty()) line.append(path).append(width + 2 - path.size(), ' ');
    const bool says_all = file.note.starts_with("not looked for") || file.note.starts_with("cannot");
    if (file.found) {
      line += read;
    } else if (!says_all) {
      line.append("not there").append(file.note.empty() ? "" : ", ");
    }
    out.append(line).append(policy::Escape(file.note)).append("\n");
  }
  return out;
}

nlohmann::ordered_json LayersJson(const policy::Loaded& loaded) {
  text::Json layers = text::Json::array();
  for (const policy::LayerFile& file : loaded.layers) {
    layers.push_back({{"layer", policy::NameOf(file.layer)},
                      {"file", text::OrNull(file.path)},
                      {"found", file.found},
                      {"note", text::OrNull(file.note)}});
  }
  return layers;
}

}  // namespace slipstream::cli
