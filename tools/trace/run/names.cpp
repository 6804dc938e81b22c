#include "tools/trace/run/names.h"

namespace slipstream::run {

Names::Names(trace_db::DatabaseReader* reader) {
  if (reader->HasTable("StringIds")) text_.emplace(*reader, "SELECT value FROM StringIds WHERE id = ?1");
  if (reader->HasTable("SLIPSTREAM_SITES")) {
    line_.emplace(*reader, "SELECT file, line, function FROM SLIPSTREAM_SITES WHERE siteId = ?1");
  }
}

const std::string& Names::TextOf(int64_t id) {
  const auto [text, is_new] = texts_.try_emplace(id);
  if (is_new && text_) {
    text_->Again();
    if (text_->Bind(1, id).Next()) text->second = text_->Text(0);
  }
  return text->second;
}

const Line& Names::LineOf(int64_t site) {
  const auto [line, is_new] = lines_.try_emplace(site);
  if (is_new && site != 0 && line_) {
    line_->Again();
    if (line_->Bind(1, site).Next()) {
      line->second = {std::string(line_->Text(0)), line_->NumberIfKnown(1), std::string(line_->Text(2))};
    }
  }
  return line->second;
}

}  // namespace slipstream::run
