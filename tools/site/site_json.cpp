#include <string>
#include <utility>

#include "tools/site/totals.h"
#include "tools/text/json_text.h"

namespace slipstream::site {
namespace {

using SiteJsonValue = text::Json;

constexpr char kSiteSchema[] = "slipstream-site-1";

SiteJsonValue FiguresJson(const Figures& figures) {
  return {{"runs", figures.runs},
          {"untimed", figures.untimed},
          {"duration_s", figures.duration_s},
          {"estimated_gain_s", figures.estimated_gain_s},
          {"gain_unknown", figures.gain_unknown},
          {"failed", figures.failed},
          {"crashed", figures.crashed},
          {"failed_open", figures.failed_open},
          {"stood_aside", figures.stood_aside}};
}

SiteJsonValue GroupsJson(const Totals::Groups& groups, By by) {
  SiteJsonValue rows = SiteJsonValue::array();
  for (const auto& [name, figures] : groups) {
    SiteJsonValue row = {{std::string(NameOf(by)), name}};
    row.update(FiguresJson(figures));
    rows.push_back(std::move(row));
  }
  return rows;
}

SiteJsonValue ReasonsJson(const Totals::Reasons& reasons, const char* count) {
  SiteJsonValue rows = SiteJsonValue::array();
  for (const auto& [what, counts] : reasons) {
    rows.push_back({{"engine", what.first}, {"reason", what.second}, {"runs", counts.runs}, {count, counts.count}});
  }
  return rows;
}

}  // namespace

std::string SiteJson(const SiteView& view, const By* only) {
  const Totals& totals = view.totals;
  SiteJsonValue by = SiteJsonValue::object();
  for (const By one : kAllBy) {
    if (only == nullptr || *only == one) by[std::string(NameOf(one))] = GroupsJson(totals.Of(one), one);
  }
  const SiteJsonValue root = {{"schema", kSiteSchema},
                              {"directory", view.directory},
                              {"since", text::OrNull(view.since)},
                              {"first_unix_ns", totals.first_unix_ns()},
                              {"last_unix_ns", totals.last_unix_ns()},
                              {"all", FiguresJson(totals.all())},
                              {"by", std::move(by)},
                              {"stood_aside", ReasonsJson(totals.stood_aside(), "processes")},
                              {"failed_open", ReasonsJson(totals.failed_open(), "calls")},
                              {"skipped",
                               {{"foreign", view.skipped.foreign},
                                {"damaged", view.skipped.damaged},
                                {"newer", view.skipped.newer},
                                {"large", view.skipped.large},
                                {"irregular", view.skipped.irregular},
                                {"unreadable", view.skipped.unreadable}}}};
  return text::JsonText(root);
}

}  // namespace slipstream::site
