#include "tools/trace/export/trace_texts.h"

#include <algorithm>
#include <cctype>

#include "tools/trace/db/clean_text.h"

namespace slipstream::trace_export {
namespace {

using trace_db::CleanText;
using trace_db::Question;

// Deeper than any recorder walks; a tree that is none (a damaged file) ends there.
constexpr size_t kDeepest = 4096;

}  // namespace

// CUPTI's versions are those of CUDA, from 3020 (3.2) on; "_v2" belongs to the function.
std::string_view WithoutApiVersion(std::string_view name) {
  constexpr size_t kDigits = 4;
  const size_t at = name.rfind("_v");
  if (at == std::string_view::npos || name.size() - at - 2 < kDigits) return name;
  const std::string_view version = name.substr(at + 2);
  const bool is_number = std::all_of(version.begin(), version.end(),
                                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  return is_number ? name.substr(0, at) : name;
}

TraceTexts::TraceTexts(trace_db::DatabaseReader& database) : database_(database) {
  if (database_.HasTable("StringIds")) text_.emplace(database_, "SELECT value FROM StringIds WHERE id = ?");
  if (database_.HasTable("SLIPSTREAM_SITES")) {
    line_.emplace(database_, "SELECT file, line, function FROM SLIPSTREAM_SITES WHERE siteId = ?");
  }
  has_stacks_ = database_.HasTable("SLIPSTREAM_STACKS") && database_.HasColumn("SLIPSTREAM_CALLS", "stackId");
  has_native_stacks_ = has_stacks_ && database_.HasColumn("SLIPSTREAM_CALLS", "nativeStackId") &&
                       database_.HasColumn("SLIPSTREAM_STACKS", "addressId") &&
                       database_.HasTable("SLIPSTREAM_ADDRESSES") && database_.HasTable("SLIPSTREAM_MODULES");
  if (has_native_stacks_) {
    address_.emplace(database_,
                     "SELECT name, path, isInterpreter FROM SLIPSTREAM_ADDRESSES LEFT JOIN SLIPSTREAM_MODULES "
                     "USING (moduleId) WHERE addressId = ?");
  }
}

const std::string& TraceTexts::TextOf(int64_t id) {
  const auto [text, is_new] = texts_.try_emplace(id);
  if (is_new && text_) {
    text_->Again();
    if (text_->Bind(1, id).Next()) text->second = CleanText(text_->Text(0));
  }
  return text->second;
}

const std::string& TraceTexts::FunctionOf(int64_t id) {
  const auto [function, is_new] = functions_.try_emplace(id);
  if (is_new) function->second = WithoutApiVersion(TextOf(id));
  return function->second;
}

const Line* TraceTexts::LineOf(int64_t site) {
  if (!line_) return nullptr;
  const auto [line, is_new] = lines_.try_emplace(site);
  if (is_new) {
    line_->Again();
    if (line_->Bind(1, site).Next()) {
      line->second = {.id = site,
                      .file = CleanText(line_->Text(0)),
                      .line = line_->NumberIfKnown(1),
                      .function = CleanText(line_->Text(2))};
    }
  }
  return line->second ? &*line->second : nullptr;
}

void TraceTexts::ReadStacks() {
  read_stacks_ = true;
  const std::string address = has_native_stacks_ ? "addressId" : "NULL";
  for (Question question(database_, "SELECT stackId, parentId, siteId, " + address + " FROM SLIPSTREAM_STACKS");
       question.Next();) {
    stacks_[question.Number(0)] = {
        .parent = question.Number(1), .site = question.Number(2), .address = question.Number(3)};
  }
}

const Line* TraceTexts::NativeLineOf(int64_t address) {
  const auto [line, is_new] = native_lines_.try_emplace(address);
  if (is_new && address_) {
    address_->Again();
    if (address_->Bind(1, address).Next()) {
      line->second = {.id = -address,
                      .file = address_->IsNull(1) ? "" : CleanText(address_->Text(1)),
                      .line = std::nullopt,
                      .function = CleanText(address_->Text(0)),
                      .is_native = true,
                      .is_interpreter = address_->Number(2) != 0};
    }
  }
  return line->second ? &*line->second : nullptr;
}

std::vector<const Line*> TraceTexts::LinesOf(int64_t stack) {
  if (!read_stacks_) ReadStacks();
  std::vector<const Line*> lines;
  for (auto node = stacks_.find(stack); node != stacks_.end() && lines.size() < kDeepest;
       node = stacks_.find(node->second.parent)) {
    const Line* const line = node->second.address != 0 ? NativeLineOf(node->second.address) : LineOf(node->second.site);
    if (line != nullptr) lines.push_back(line);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::vector<const Line*> TraceTexts::StackOf(const CallSite& site) {
  std::vector<const Line*> lines;
  if (has_stacks_ && site.stack != 0) lines = LinesOf(site.stack);
  if (has_native_stacks_ && site.native_stack != 0) {
    const std::vector<const Line*> native = LinesOf(site.native_stack);
    auto from = native.begin();
    if (!lines.empty()) {
      from = std::find_if(native.rbegin(), native.rend(), [](const Line* line) { return line->is_interpreter; }).base();
    }
    lines.insert(lines.end(), from, native.end());
  }
  if (lines.empty() && site.line != nullptr) lines.push_back(site.line);
  return lines;
}

}  // namespace slipstream::trace_export
