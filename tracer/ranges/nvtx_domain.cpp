#include "tracer/ranges/nvtx_domain.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <new>

#include "policy/thread_owned.h"
#include "tracer/ranges/nvtx_injection.h"

namespace slipstream::tracer {
namespace {

// NVTX category ids; 0 means "none", so they start at 1. Names as tools show them.
enum Category : uint32_t { kAllocation = 1, kCopy, kSynchronize, kLaunch, kOther, kDecision };

Category CategoryOf(HookGroup group) {
  switch (group) {
    case HookGroup::kAllocate:
    case HookGroup::kFree:
    case HookGroup::kHostMemory:
    case HookGroup::kPool:
      return kAllocation;
    case HookGroup::kCopy:
    case HookGroup::kSet:
    case HookGroup::kManaged:
      return kCopy;
    case HookGroup::kSynchronize:
      return kSynchronize;
    case HookGroup::kLaunch:
    case HookGroup::kGraph:
      return kLaunch;
    default:
      return kOther;
  }
}

// What was decided in the calling thread's open range.
struct Decided {
  uint64_t bytes;
  uint32_t decision;
};
struct Notes {
  bool open = false;
  uint32_t count = 0;
  std::array<Decided, NvtxDomain::kMaxMarks> decided;
};
using NotesHere = policy::ThreadOwned<Notes>;

nvtxEventAttributes_t Event(uint32_t category, nvtxStringHandle_t name, uint64_t bytes) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = category;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = name;
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = bytes;
  return event;
}

}  // namespace

NvtxDomain* NvtxDomain::Open() {
  const OwnNvtxCall own;
  nvtxDomainHandle_t domain = nvtxDomainCreateA("slipstream");
  if (domain == nullptr) return nullptr;  // what the API returns when no tool is attached
  return new (std::nothrow) NvtxDomain(domain);
}

NvtxDomain::NvtxDomain(nvtxDomainRegistration_st* domain) : domain_(domain), names_(), categories_(), decisions_() {
  nvtxDomainNameCategoryA(domain_, kAllocation, "alloc");
  nvtxDomainNameCategoryA(domain_, kCopy, "copy");
  nvtxDomainNameCategoryA(domain_, kSynchronize, "sync");
  nvtxDomainNameCategoryA(domain_, kLaunch, "launch");
  nvtxDomainNameCategoryA(domain_, kOther, "other");
  nvtxDomainNameCategoryA(domain_, kDecision, "decision");
  for (size_t i = 0; i < kHookCount; ++i) {
    const auto id = static_cast<HookId>(i);
    names_[i] = nvtxDomainRegisterStringA(domain_, NameOf(id));
    categories_[i] = CategoryOf(GroupOf(id));
  }
}

void NvtxDomain::NameDecisions(std::span<const char* const> names) {
  for (size_t i = 0; i < std::min(names.size(), decisions_.size()); ++i) {
    decisions_[i] = nvtxDomainRegisterStringA(domain_, names[i]);
  }
}

void NvtxDomain::Push(HookId id, uint64_t bytes) const {
  if (Notes* const notes = NotesHere::Get()) {
    notes->open = true;
    notes->count = 0;
  }
  const nvtxEventAttributes_t event = Event(categories_[Index(id)], names_[Index(id)], bytes);
  nvtxDomainRangePushEx(domain_, &event);
}

void NvtxDomain::Note(size_t decision, uint64_t bytes) {
  Notes* const notes = NotesHere::Find();
  if (notes == nullptr || !notes->open || notes->count == notes->decided.size()) return;
  notes->decided[notes->count++] = {bytes, static_cast<uint32_t>(decision)};
}

void NvtxDomain::Pop() const {
  Notes* const notes = NotesHere::Find();
  if (notes != nullptr) notes->open = false;
  for (uint32_t i = 0; notes != nullptr && i < notes->count; ++i) {
    const Decided& decided = notes->decided[i];
    if (decided.decision >= decisions_.size()) continue;
    const nvtxEventAttributes_t event = Event(kDecision, decisions_[decided.decision], decided.bytes);
    nvtxDomainMarkEx(domain_, &event);
  }
  nvtxDomainRangePop(domain_);
}

}  // namespace slipstream::tracer
