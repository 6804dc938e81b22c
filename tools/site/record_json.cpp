#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <utility>

#include "policy/number.h"
#include "tools/site/run_record.h"
#include "tools/text/json_text.h"

namespace slipstream::site {
namespace {

using text::Json;

// What a reader takes of a file that anybody may have written.
constexpr size_t kDeepest = 64;
constexpr size_t kLongestText = 512;
constexpr size_t kMostReasons = 16;
constexpr double kMostDuration = 1e9;  // seconds: 30 years
constexpr uint64_t kMostCount = uint64_t{1} << 53;
constexpr int kLastSignal = 64;

std::string UtcTime(int64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  char time[32] = {};
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  return std::strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0 ? "" : time;
}

// The fields of a record as they are read. Nothing else is kept of the text.
class RecordReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit RecordReader(RunRecord* record) : record_(*record) {}

  bool null() override { return true; }
  bool boolean(bool value) override {
    if (In("gained") && key_ == "unknown") record_.gain_unknown = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    // What is below 0 is none of the numbers of a run.
    bad_ = bad_ || (depth_ == 1 && value < 0 && IsNumber());
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    TakeNumber(value);
    return true;
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    if (depth_ == 1 && key_ == "duration_s") TakeDuration(value);
    return true;
  }
  bool string(string_t& value) override {
    TakeText(value);
    return true;
  }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override {
    if (depth_ == 0) is_object_ = true;
    if (depth_ == 1) below_ = key_;
    if (In("stood_aside")) aside_ = {};
    if (In("failed_open")) failed_ = {};
    return ++depth_ <= kDeepest;
  }
  bool key(string_t& value) override {
    // Of summaries below it there are more.
    if (depth_ <= 3) key_ = value.size() <= kLongestText ? value : "";
    return true;
  }
  bool end_object() override {
    --depth_;
    if (In("stood_aside") && record_.stood_aside.size() < kMostReasons) record_.stood_aside.push_back(aside_);
    if (In("failed_open") && record_.failed_open.size() < kMostReasons) record_.failed_open.push_back(failed_);
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (depth_ == 1) below_ = key_;
    return ++depth_ <= kDeepest;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

  RecordIs Judge() const {
    if (!is_object_ || schema_ == 0) return RecordIs::kForeign;
    if (schema_ > kRecordSchema) return RecordIs::kNewer;
    return bad_ || record_.user.empty() || record_.program.empty() || record_.start_unix_ns <= 0 ? RecordIs::kDamaged
                                                                                                 : RecordIs::kGood;
  }

 private:
  bool In(std::string_view below) const { return depth_ == 2 && below_ == below; }
  bool InEntry(std::string_view below) const { return depth_ == 3 && below_ == below; }
  bool IsNumber() const {
    return key_ == "duration_s" || key_ == "start_unix_ns" || key_ == "exit_status" || key_ == "processes";
  }

  void TakeDuration(double value) {
    bad_ = bad_ || !std::isfinite(value) || value < 0 || value > kMostDuration;
    record_.duration_s = value;
  }

  void TakeNumber(uint64_t value) {
    if (depth_ == 1 && key_ == "duration_s") {
      TakeDuration(static_cast<double>(value));
    } else if (depth_ == 1 && key_ == "start_unix_ns") {
      bad_ = bad_ || value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      record_.start_unix_ns = static_cast<int64_t>(value);
    } else if (depth_ == 1 && key_ == "exit_status") {
      bad_ = bad_ || value > 255;
      record_.exit_status = static_cast<int>(value & 0xFF);
    } else if (depth_ == 1 && key_ == "pid") {
      record_.pid = static_cast<int64_t>(value & 0xFFFFFFFF);
    } else if (depth_ == 1 && key_ == "processes") {
      TakeCount(value, &record_.processes);
    } else if (In("gained") && key_ == "estimated_ns") {
      TakeCount(value, &record_.estimated_gain_ns);
    } else if (InEntry("stood_aside") && key_ == "processes") {
      TakeCount(value, &aside_.processes);
    } else if (InEntry("failed_open") && key_ == "calls") {
      TakeCount(value, &failed_.calls);
    }
  }

  void TakeCount(uint64_t value, uint64_t* count) {
    bad_ = bad_ || value > kMostCount;
    *count = value;
  }

  void TakeText(const std::string& value) {
    if (depth_ == 1 && key_ == "schema") {
      TakeSchema(value);
      return;
    }
    std::string* const field = FieldFor();
    if (field != nullptr) *field = text::FromParser(std::string_view(value).substr(0, kLongestText));
  }

  std::string* FieldFor() {
    if (depth_ == 1) {
      if (key_ == "host") return &record_.host;
      if (key_ == "user") return &record_.user;
      if (key_ == "program") return &record_.program;
      if (key_ == "version") return &record_.version;
    }
    if (InEntry("stood_aside")) {
      if (key_ == "engine") return &aside_.engine;
      if (key_ == "reason") return &aside_.reason;
    }
    if (InEntry("failed_open")) {
      if (key_ == "engine") return &failed_.engine;
      if (key_ == "reason") return &failed_.reason;
    }
    return nullptr;
  }

  void TakeSchema(std::string_view value) {
    if (!value.starts_with(kRecordSchemaName)) return;
    schema_ = policy::NumberIn<uint64_t>(value.substr(kRecordSchemaName.size())).value_or(0);
  }

  RunRecord& record_;
  size_t depth_ = 0;
  std::string key_;    // the last one of the record itself or of what lies in it
  std::string below_;  // the record's key that the others are below
  StoodAside aside_;
  FailedOpen failed_;
  uint64_t schema_ = 0;
  bool is_object_ = false;
  bool bad_ = false;
};

}  // namespace

std::optional<int> SignalOf(const RunRecord& record) {
  constexpr int kKilled = 128;
  if (!record.exit_status || *record.exit_status <= kKilled) return std::nullopt;
  const int number = *record.exit_status - kKilled;
  return number <= kLastSignal ? std::optional(number) : std::nullopt;
}

std::string RecordJson(const RunRecord& record, const std::string& summary) {
  Json aside = Json::array();
  for (const StoodAside& one : record.stood_aside) {
    aside.push_back({{"engine", one.engine}, {"reason", one.reason}, {"processes", one.processes}});
  }
  Json failed = Json::array();
  for (const FailedOpen& one : record.failed_open) {
    failed.push_back({{"engine", one.engine}, {"reason", one.reason}, {"calls", one.calls}});
  }
  const Json root = {
      {"schema", std::string(kRecordSchemaName) + std::to_string(kRecordSchema)},
      {"host", record.host},
      {"user", record.user},
      {"program", record.program},
      {"version", record.version},
      {"pid", record.pid},
      {"start", UtcTime(record.start_unix_ns)},
      {"start_unix_ns", record.start_unix_ns},
      {"duration_s", text::OrNull(record.duration_s)},
      {"exit_status", text::OrNull(record.exit_status)},
      {"signal", text::OrNull(SignalOf(record))},
      {"processes", record.processes},
      {"gained", {{"estimated_ns", record.estimated_gain_ns}, {"unknown", record.gain_unknown}}},
      {"stood_aside", std::move(aside)},
      {"failed_open", std::move(failed)},
  };
  std::string text = text::DumpBytes(root, 2);
  text.resize(text.rfind('}'));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text += ",\n  \"summary\": ";
  if (summary.empty()) text += "null";
  // As deep as it lies here. Texts of JSON hold no line ends.
  for (size_t at = 0; at < summary.size();) {
    const size_t end = std::min(summary.find('\n', at), summary.size());
    text.append(at == 0 ? "" : "\n  ").append(summary, at, end - at);
    at = end + 1;
  }
  return text + "\n}\n";
}

RecordIs ParseRecord(std::string_view text, RunRecord* record) {
  *record = RunRecord();
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] != '{') return RecordIs::kForeign;
  RecordReader reader(record);
  try {
    const bool whole = text.find("\\u") == std::string_view::npos
                           ? nlohmann::json::sax_parse(text, &reader)
                           : nlohmann::json::sax_parse(text::ForParser(text), &reader);
    const RecordIs judged = reader.Judge();
    return whole || judged == RecordIs::kNewer ? judged : RecordIs::kDamaged;
  } catch (const nlohmann::json::exception&) {
    return RecordIs::kDamaged;
  }
}

}  // namespace slipstream::site
