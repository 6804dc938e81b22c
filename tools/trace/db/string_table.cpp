#include "tools/trace/db/string_table.h"

#include "tools/trace/db/clean_text.h"
#include "tracer/python/call_site.h"
#include "tracer/python/line_table.h"

namespace slipstream::trace_db {

int64_t StringTable::IdOf(const std::string& text) {
  const auto [at, is_new] = ids_.try_emplace(text, static_cast<int64_t>(ids_.size()) + 1);
  if (is_new) table_.Row(at->second, CleanText(text));
  return at->second;
}

int64_t SiteTable::IdOf(const tracer::SpoolSite& site, std::string_view pytorch) {
  // Neither a file nor a function has a NUL in its name.
  const std::string key = site.file + '\0' + std::to_string(site.line) + '\0' + site.function;
  const auto [at, is_new] = ids_.try_emplace(key, static_cast<int64_t>(ids_.size()) + 1);
  if (is_new) {
    const NumberOrNull line = {.known = site.line != tracer::kNoLine, .value = site.line};
    table_.Row(at->second, CleanText(site.file), line, CleanText(site.function),
               tracer::IsLibraryFile(site.file, pytorch));
  }
  return at->second;
}

StackTable::Stack StackTable::IdOf(const Frame& frame, const Stack* parent, bool is_cut) {
  const int64_t place = frame.address ? -*frame.address : frame.site.value_or(0);
  const int64_t above = parent != nullptr ? parent->id : is_cut ? -1 : 0;
  const auto [at, is_new] = ids_.try_emplace({place, above}, static_cast<int64_t>(ids_.size()) + 1);
  const Stack stack = {.id = at->second, .depth = parent != nullptr ? parent->depth + 1 : 0};
  if (is_new) {
    const NumberOrNull parent_id = {.known = parent != nullptr, .value = above};
    table_.Row(stack.id, parent_id, frame.site, stack.depth, parent == nullptr && is_cut, frame.address);
  }
  return stack;
}

}  // namespace slipstream::trace_db
