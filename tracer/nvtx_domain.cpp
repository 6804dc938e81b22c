#include "tracer/nvtx_domain.h"

#include <nvtx3/nvToolsExt.h>

#include <new>

namespace slipstream::tracer {
namespace {

// NVTX category ids; 0 means "none", so they start at 1. Names as tools show them.
enum Category : uint32_t { kAllocation = 1, kCopy, kSynchronize, kLaunch, kOther };

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

}  // namespace

NvtxDomain* NvtxDomain::Open() {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("slipstream");
  if (domain == nullptr) return nullptr;  // what the API returns when no tool is attached
  return new (std::nothrow) NvtxDomain(domain);
}

NvtxDomain::NvtxDomain(nvtxDomainRegistration_st* domain) : domain_(domain), names_(), categories_() {
  nvtxDomainNameCategoryA(domain_, kAllocation, "alloc");
  nvtxDomainNameCategoryA(domain_, kCopy, "copy");
  nvtxDomainNameCategoryA(domain_, kSynchronize, "sync");
  nvtxDomainNameCategoryA(domain_, kLaunch, "launch");
  nvtxDomainNameCategoryA(domain_, kOther, "other");
  for (size_t i = 0; i < kHookCount; ++i) {
    const auto id = static_cast<HookId>(i);
    names_[i] = nvtxDomainRegisterStringA(domain_, NameOf(id));
    categories_[i] = CategoryOf(GroupOf(id));
  }
}

void NvtxDomain::Push(HookId id, uint64_t bytes) const {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = categories_[Index(id)];
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = names_[Index(id)];
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = bytes;
  nvtxDomainRangePushEx(domain_, &event);
}

void NvtxDomain::Pop() const { nvtxDomainRangePop(domain_); }

}  // namespace slipstream::tracer
