#include "tracer/ranges/nvtx_injection.h"

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstring>
#include <cwchar>
#include <new>
#include <type_traits>

#include "tracer/ranges/operator_name.h"

namespace slipstream::tracer {
namespace {

std::atomic<ProgramRanges*> g_ranges{nullptr};
constinit thread_local bool t_own_call = false;

// Only ever called where Attach has succeeded.
ProgramRanges& Ranges() { return *g_ranges.load(std::memory_order_acquire); }

uint32_t NameOf(const char* text) {
  return text == nullptr ? RangeNames::kUnknown : Ranges().names().Intern({text, std::strlen(text)});
}

// As UTF-8; wchar_t holds code points. What is none stands there as U+FFFD.
uint32_t NameOf(const wchar_t* text) {
  if (text == nullptr) return RangeNames::kUnknown;
  std::array<char, RangeNames::kMaxTextBytes> bytes;
  size_t count = 0;
  for (; *text != L'\0' && count + 4 <= bytes.size(); ++text) {
    auto point = static_cast<uint32_t>(static_cast<std::make_unsigned_t<wchar_t>>(*text));
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) point = 0xfffd;
    const auto put = [&](uint32_t byte) { bytes[count++] = static_cast<char>(byte); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xc0 | point >> 6);
      put(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
      put(0xe0 | point >> 12);
      put(0x80 | (point >> 6 & 0x3f));
      put(0x80 | (point & 0x3f));
    } else {
      put(0xf0 | point >> 18);
      put(0x80 | (point >> 12 & 0x3f));
      put(0x80 | (point >> 6 & 0x3f));
      put(0x80 | (point & 0x3f));
    }
  }
  return Ranges().names().Intern({bytes.data(), count});
}

// Handles of domains and strings are one more than the number of their name: a null handle would stand for the domain
// without a name, and for no string.
template <typename Handle>
Handle HandleOf(uint32_t name) {
  return reinterpret_cast<Handle>(uintptr_t{name} + 1);  // NOLINT(performance-no-int-to-ptr)
}
template <typename Handle>
uint32_t NumberOf(Handle handle) {
  return handle == nullptr ? RangeNames::kUnknown : static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle) - 1);
}

void SetPayload(const nvtxEventAttributes_t& event, RangeDetail* range) {
  const auto set = [range](RangePayload kind, uint64_t bits) {
    range->payload = kind;
    range->payload_bits = bits;
  };
  switch (event.payloadType) {
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
      return set(RangePayload::kUnsigned, event.payload.ullValue);
    case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
      return set(RangePayload::kUnsigned, event.payload.uiValue);
    case NVTX_PAYLOAD_TYPE_INT64:
      return set(RangePayload::kSigned, static_cast<uint64_t>(event.payload.llValue));
    case NVTX_PAYLOAD_TYPE_INT32:
      return set(RangePayload::kSigned, static_cast<uint64_t>(int64_t{event.payload.iValue}));
    case NVTX_PAYLOAD_TYPE_DOUBLE: {
      uint64_t bits = 0;
      std::memcpy(&bits, &event.payload.dValue, sizeof(bits));
      return set(RangePayload::kDouble, bits);
    }
    case NVTX_PAYLOAD_TYPE_FLOAT: {
      uint32_t bits = 0;
      std::memcpy(&bits, &event.payload.fValue, sizeof(bits));
      return set(RangePayload::kFloat, bits);
    }
    default:
      return;  // none, or one of a newer NVTX
  }
}

// An operator's number stands beside its name, where nothing else does.
void SetName(const char* text, RangeDetail* range) {
  if (text == nullptr) return;
  std::array<char, RangeNames::kMaxTextBytes> room;
  const OperatorName named = WithoutNumbers({text, std::strlen(text)}, room);
  range->name = Ranges().names().Intern(named.name);
  if (!named.sequence || range->payload != RangePayload::kNone) return;
  range->payload = RangePayload::kUnsigned;
  range->payload_bits = *named.sequence;
}
void SetName(const wchar_t* text, RangeDetail* range) { range->name = NameOf(text); }

// A program may be compiled with an older NVTX, whose attributes end earlier: what it has is what `size` says.
RangeDetail DetailOf(const nvtxEventAttributes_t* event) {
  RangeDetail range;
  if (event == nullptr || event->size < sizeof(nvtxEventAttributes_t)) return range;
  range.category = event->category;
  if (event->colorType == NVTX_COLOR_ARGB) range.color = event->color;
  SetPayload(*event, &range);
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      SetName(event->message.ascii, &range);
      break;
    case NVTX_MESSAGE_TYPE_UNICODE:
      SetName(event->message.unicode, &range);
      break;
    case NVTX_MESSAGE_TYPE_REGISTERED:
      range.name = NumberOf(event->message.registered);
      break;
    default:
      break;
  }
  return range;
}

template <typename Character>
RangeDetail Named(const Character* text) {
  RangeDetail range;
  SetName(text, &range);
  return range;
}

constexpr uint32_t kNoDomain = 0;

void NVTX_API MarkEx(const nvtxEventAttributes_t* event) { Ranges().Mark(kNoDomain, DetailOf(event)); }
void NVTX_API MarkA(const char* text) { Ranges().Mark(kNoDomain, Named(text)); }
void NVTX_API MarkW(const wchar_t* text) { Ranges().Mark(kNoDomain, Named(text)); }
nvtxRangeId_t NVTX_API StartEx(const nvtxEventAttributes_t* event) {
  return Ranges().Start(kNoDomain, DetailOf(event));
}
nvtxRangeId_t NVTX_API StartA(const char* text) { return Ranges().Start(kNoDomain, Named(text)); }
nvtxRangeId_t NVTX_API StartW(const wchar_t* text) { return Ranges().Start(kNoDomain, Named(text)); }
void NVTX_API End(nvtxRangeId_t range) { Ranges().End(range); }
int NVTX_API PushEx(const nvtxEventAttributes_t* event) { return Ranges().Push(kNoDomain, DetailOf(event)); }
int NVTX_API PushA(const char* text) { return Ranges().Push(kNoDomain, Named(text)); }
int NVTX_API PushW(const wchar_t* text) { return Ranges().Push(kNoDomain, Named(text)); }
int NVTX_API Pop() { return Ranges().Pop(kNoDomain); }

void NVTX_API DomainMarkEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  Ranges().Mark(NumberOf(domain), DetailOf(event));
}
nvtxRangeId_t NVTX_API DomainStartEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return Ranges().Start(NumberOf(domain), DetailOf(event));
}
void NVTX_API DomainEnd(nvtxDomainHandle_t, nvtxRangeId_t range) { Ranges().End(range); }
int NVTX_API DomainPushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return Ranges().Push(NumberOf(domain), DetailOf(event));
}
int NVTX_API DomainPop(nvtxDomainHandle_t domain) { return Ranges().Pop(NumberOf(domain)); }
nvtxStringHandle_t NVTX_API DomainRegisterA(nvtxDomainHandle_t, const char* text) {
  return HandleOf<nvtxStringHandle_t>(NameOf(text));
}
nvtxStringHandle_t NVTX_API DomainRegisterW(nvtxDomainHandle_t, const wchar_t* text) {
  return HandleOf<nvtxStringHandle_t>(NameOf(text));
}
nvtxDomainHandle_t NVTX_API DomainCreateA(const char* text) { return HandleOf<nvtxDomainHandle_t>(NameOf(text)); }
nvtxDomainHandle_t NVTX_API DomainCreateW(const wchar_t* text) { return HandleOf<nvtxDomainHandle_t>(NameOf(text)); }

class Functions {
 public:
  Functions(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
    if (callbacks.GetModuleFunctionTable(module, &table_, &count_) == 0) table_ = nullptr;
  }
  bool there() const { return table_ != nullptr; }
  // A library with an older NVTX has fewer.
  template <typename Function>
  void Set(unsigned index, Function* function) {
    if (index < count_ && table_[index] != nullptr) {
      *table_[index] = reinterpret_cast<NvtxFunctionPointer>(function);
    }
  }

 private:
  NvtxFunctionTable table_ = nullptr;
  unsigned count_ = 0;
};

}  // namespace

ProgramRanges* MakeProgramRanges() {
  ProgramRanges* ranges = g_ranges.load(std::memory_order_acquire);
  if (ranges != nullptr) return ranges;
  RangeNames* const names = RangeNames::Create({});
  if (names == nullptr) return nullptr;
  auto* const mine = new (std::nothrow) ProgramRanges(*names);
  if (mine == nullptr || !g_ranges.compare_exchange_strong(ranges, mine, std::memory_order_acq_rel)) {
    delete mine;
    delete names;
    return ranges;
  }
  return mine;
}

OwnNvtxCall::OwnNvtxCall() { t_own_call = true; }
OwnNvtxCall::~OwnNvtxCall() { t_own_call = false; }

bool AttachToNvtx(const void* (*get_table)(unsigned)) {
  if (t_own_call || get_table == nullptr) return false;
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable == nullptr) return false;
  Functions core(*callbacks, NVTX_CB_MODULE_CORE);
  Functions core2(*callbacks, NVTX_CB_MODULE_CORE2);
  if (!core.there() || !core2.there() || MakeProgramRanges() == nullptr) return false;
  core.Set(NVTX_CBID_CORE_MarkEx, MarkEx);
  core.Set(NVTX_CBID_CORE_MarkA, MarkA);
  core.Set(NVTX_CBID_CORE_MarkW, MarkW);
  core.Set(NVTX_CBID_CORE_RangeStartEx, StartEx);
  core.Set(NVTX_CBID_CORE_RangeStartA, StartA);
  core.Set(NVTX_CBID_CORE_RangeStartW, StartW);
  core.Set(NVTX_CBID_CORE_RangeEnd, End);
  core.Set(NVTX_CBID_CORE_RangePushEx, PushEx);
  core.Set(NVTX_CBID_CORE_RangePushA, PushA);
  core.Set(NVTX_CBID_CORE_RangePushW, PushW);
  core.Set(NVTX_CBID_CORE_RangePop, Pop);
  core2.Set(NVTX_CBID_CORE2_DomainMarkEx, DomainMarkEx);
  core2.Set(NVTX_CBID_CORE2_DomainRangeStartEx, DomainStartEx);
  core2.Set(NVTX_CBID_CORE2_DomainRangeEnd, DomainEnd);
  core2.Set(NVTX_CBID_CORE2_DomainRangePushEx, DomainPushEx);
  core2.Set(NVTX_CBID_CORE2_DomainRangePop, DomainPop);
  core2.Set(NVTX_CBID_CORE2_DomainRegisterStringA, DomainRegisterA);
  core2.Set(NVTX_CBID_CORE2_DomainRegisterStringW, DomainRegisterW);
  core2.Set(NVTX_CBID_CORE2_DomainCreateA, DomainCreateA);
  core2.Set(NVTX_CBID_CORE2_DomainCreateW, DomainCreateW);
  return true;
}

}  // namespace slipstream::tracer
