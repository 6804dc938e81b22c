// The reader of what runs leave for their site, and what `slipstream site` makes of it.
#include "tests/fuzz/target.h"
#include "tests/site/site_testing.h"
#include "tools/site/totals.h"

namespace slipstream::fuzz {

std::vector<std::string> Seeds() {
  site::RunRecord full = site::SampleRecord();
  full.program = "py\xff\n";
  full.stood_aside = {{"transfer", "CUDA_LAUNCH_BLOCKING is set", 2}};
  full.failed_open = {{"allocator", "real frees", 7}};
  return {site::RecordJson(site::SampleRecord(), site::kSummaryText), site::RecordJson(full, "")};
}

void OneInput(std::string_view bytes) {
  site::RunRecord record;
  if (site::ParseRecord(bytes, &record) != site::RecordIs::kGood) return;
  Must(!record.user.empty() && record.start_unix_ns > 0, "a run has a user and a time");
  site::SiteView view = {.directory = "/runs"};
  view.totals.Add(record);
  Must(view.totals.all().runs == 1, "a record is a run");
  Must(!site::SiteText(view, nullptr).empty() && !site::SiteJson(view, nullptr).empty(), "it is shown");
}

}  // namespace slipstream::fuzz
