#include "tools/trace/db/range_rows.h"

#include <cstring>

#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/global_id.h"

namespace slipstream::trace_db {
namespace {

using tracer::RangeKind;
using tracer::RangePayload;

int64_t EventType(RangeKind kind) {
  switch (kind) {
    case RangeKind::kMark:
      return kNvtxMark;
    case RangeKind::kPushed:
      return kNvtxPushPopRange;
    case RangeKind::kStarted:
      return kNvtxStartEndRange;
  }
  return kNvtxMark;
}

NumberOrNull Bits(const tracer::RangeRecord& range, RangePayload kind) {
  return {.known = range.payload == kind, .value = static_cast<int64_t>(range.payload_bits)};
}

std::optional<double> Double(const tracer::RangeRecord& range) {
  if (range.payload != RangePayload::kDouble) return std::nullopt;
  double value = 0;
  std::memcpy(&value, &range.payload_bits, sizeof(value));
  return value;
}

std::optional<double> Float(const tracer::RangeRecord& range) {
  if (range.payload != RangePayload::kFloat) return std::nullopt;
  const auto bits = static_cast<uint32_t>(range.payload_bits);
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

void RangeRows::Add(const tracer::RangeRecord& range, int64_t start, int64_t end, int64_t ended_on) {
  const bool is_mark = range.kind == RangeKind::kMark;
  const bool is_started = range.kind == RangeKind::kStarted;
  const int64_t began_on = range.thread != 0 ? GlobalTid(global_pid_, range.thread) : ended_on;
  const auto end_or_null = is_mark ? std::nullopt : std::optional(end);
  const auto ended = is_started ? std::optional(ended_on) : std::nullopt;
  const auto number = is_started ? std::optional(++next_range_) : std::nullopt;
  const NumberOrNull category = {.known = range.category != 0, .value = range.category};
  const NumberOrNull color = {.known = range.color != 0, .value = range.color};
  tables_.nvtx.Row(start, end_or_null, EventType(range.kind), number, category, color, kNull, began_on, ended,
                   NameOf(range.name).id, DomainId(range.domain), Bits(range, RangePayload::kUnsigned),
                   Bits(range, RangePayload::kSigned), Double(range), kNull, kNull, Float(range), kNull, kNull, kNull);
}

const RangeRows::Name& RangeRows::NameOf(uint32_t number) {
  const auto [known, is_new] = names_.try_emplace(number);
  if (is_new) {
    const std::string* const text = number == 0 ? nullptr : reader_.NameOf(tracer::NameTable::kRanges, number);
    if (text != nullptr) {
      known->second.id = tables_.strings.IdOf(CleanText(*text));
      known->second.step = trace_db::StepNameOf(*text);
    }
  }
  return known->second;
}

// As Nsight Systems has it: a row says what a domain is called, beside those of its ranges.
int64_t RangeRows::DomainId(uint32_t domain) {
  if (domain == 0) return 0;
  const auto [known, is_new] = domains_.try_emplace(domain, static_cast<int64_t>(domains_.size()) + 1);
  if (is_new) {
    tables_.nvtx.Row(0, kNull, kNvtxDomainCreate, kNull, kNull, kNull, kNull, global_pid_, kNull, NameOf(domain).id,
                     known->second, kNull, kNull, kNull, kNull, kNull, kNull, kNull, kNull, kNull);
  }
  return known->second;
}

}  // namespace slipstream::trace_db
