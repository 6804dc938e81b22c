#include "tools/cli/site_command.h"

#include <cstdint>
#include <cstdio>
#include <limits>

#include "policy/environment.h"
#include "policy/load.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/site/records.h"
#include "tracer/base/clock.h"

namespace slipstream::cli {
namespace {

// Of the policy that holds here; empty: it names none, or cannot be used.
std::string DirectoryOfPolicy() {
  const policy::Loaded loaded = policy::Load(
      {.path = std::nullopt, .env = policy::Environment::FromProcess(), .search = policy::Search::kCommand});
  return loaded.ok() ? loaded.policy.run.summaries : "";
}

}  // namespace

int Site(const SiteOptions& options) {
  site::SiteView view = {.directory = options.directory, .since = options.since};
  if (view.directory.empty()) view.directory = DirectoryOfPolicy();
  if (view.directory.empty()) {
    std::fprintf(stderr, "slipstream site: no directory: run.summaries is not set here. Write:  slipstream site DIR\n");
    return kUsage;
  }
  int64_t since = std::numeric_limits<int64_t>::min() / 2;
  if (options.since_s) since = static_cast<int64_t>(tracer::UnixNs()) - static_cast<int64_t>(*options.since_s * 1e9);
  std::string error;
  const auto add = [&view](const site::RunRecord& record) { view.totals.Add(record); };
  if (!site::ReadRecords(view.directory, since, add, &view.skipped, &error)) {
    std::fprintf(stderr, "slipstream site: %s: %s. Name the directory of run.summaries\n",
                 policy::Escape(view.directory).c_str(), error.c_str());
    return kFailed;
  }
  const site::By* const only = options.by ? &*options.by : nullptr;
  const std::string text = options.json ? site::SiteJson(view, only) : site::SiteText(view, only);
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? kSuccess : kFailed;
}

}  // namespace slipstream::cli
