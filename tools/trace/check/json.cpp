#include <utility>

#include "tools/text/json_text.h"
#include "tools/trace/check/check.h"

namespace slipstream::trace_check {
namespace {

using text::Json;
using text::OrNull;

Json ListOf(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"about", finding.key}, {"count", finding.count}, {"text", finding.text}});
  }
  return list;
}

}  // namespace

std::string CheckJson(const Check& check) {
  Json processes = Json::array();
  for (const ProcessCheck& process : check.processes) {
    Json there = Json::object();
    for (const Amount& amount : process.there) there[amount.key] = amount.count;
    processes.push_back({{"spool", process.spool},
                         {"name", process.name},
                         {"host", OrNull(process.host)},
                         {"whole", process.whole()},
                         {"counted_calls", OrNull(process.counted)},
                         {"has", std::move(there)},
                         {"lacks", ListOf(process.lacks)},
                         {"contradicts", ListOf(process.contradicts)},
                         {"notes", ListOf(process.notes)}});
  }
  const Json root = {{"schema", kCheckSchema},
                     {"whole", check.whole()},
                     {"unreadable", check.unreadable},
                     {"processes", std::move(processes)}};
  return text::JsonText(root);
}

}  // namespace slipstream::trace_check
