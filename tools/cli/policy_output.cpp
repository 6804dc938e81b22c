#include "tools/cli/policy_output.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

namespace slipstream::cli {

int Complain(const policy::Loaded& loaded) {
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

}  // namespace slipstream::cli
