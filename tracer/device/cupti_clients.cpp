#include "tracer/device/cupti_clients.h"

namespace slipstream::tracer {

constinit CuptiClients g_cupti_clients;

CuptiListening::Functions* CuptiListening::Of(CUpti_CallbackDomain domain) {
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return &runtime_;
  return domain == CUPTI_CB_DOMAIN_DRIVER_API ? &driver_ : nullptr;
}

void CuptiListening::Set(CUpti_CallbackDomain domain, CUpti_CallbackId function, bool on) {
  if (Functions* const functions = Of(domain); functions != nullptr && function < kMaxFunction) {
    functions->set(function, on);
  }
}

void CuptiListening::SetDomain(CUpti_CallbackDomain domain, bool on) {
  if (Functions* const functions = Of(domain)) on ? functions->set() : functions->reset();
}

void CuptiListening::SetAll(bool on) {
  SetDomain(CUPTI_CB_DOMAIN_RUNTIME_API, on);
  SetDomain(CUPTI_CB_DOMAIN_DRIVER_API, on);
}

void CuptiClients::Begin() {
  const std::lock_guard guard(mutex_);
  ++in_calls_;
}

void CuptiClients::End() {
  const std::lock_guard guard(mutex_);
  --in_calls_;
}

void CuptiClients::Listens(CUpti_CallbackDomain domain, CUpti_CallbackId function, bool on) {
  const std::lock_guard guard(mutex_);
  listening_.Set(domain, function, on);
}

void CuptiClients::ListensToDomain(CUpti_CallbackDomain domain, bool on) {
  const std::lock_guard guard(mutex_);
  listening_.SetDomain(domain, on);
}

void CuptiClients::ListensToAll(bool on) {
  const std::lock_guard guard(mutex_);
  listening_.SetAll(on);
}

void CuptiClients::Subscribed(CUpti_SubscriberHandle shared) {
  const std::lock_guard guard(mutex_);
  ++subscribers_;
  shared_ = subscribers_ == 1 ? shared : nullptr;
}

void CuptiClients::Unsubscribed() {
  const std::lock_guard guard(mutex_);
  listening_.SetAll(false);
  if (subscribers_ != 0) --subscribers_;
  shared_ = nullptr;
}

void CuptiClients::Registered(const CuptiBufferCallbacks& callbacks) {
  const std::lock_guard guard(mutex_);
  callbacks_ = callbacks;
}

void CuptiClients::RegisteredClock(CUpti_TimestampCallbackFunc theirs) {
  const std::lock_guard guard(mutex_);
  clock_ = theirs;
}

void CuptiClients::Enabled(uint32_t kind) {
  const std::lock_guard guard(mutex_);
  if (kind < kMaxKind) kinds_.set(kind);
}

void CuptiClients::Disabled(uint32_t kind) {
  const std::lock_guard guard(mutex_);
  if (kind >= kMaxKind || !kinds_.test(kind)) return;
  kinds_.reset(kind);
  unfetched_ = true;
}

void CuptiClients::Flushed() {
  const std::lock_guard guard(mutex_);
  if (kinds_.none()) unfetched_ = false;
}

void CuptiClients::Finalized() {
  const std::lock_guard guard(mutex_);
  listening_.SetAll(false);
  subscribers_ = 0;
  shared_ = nullptr;
  clock_ = nullptr;
  kinds_.reset();
  unfetched_ = false;
  callbacks_ = {};
}

void CuptiClients::ChangedForGood() { for_good_.store(true, std::memory_order_seq_cst); }

bool CuptiClients::present() const {
  if (for_good_.load(std::memory_order_seq_cst)) return true;
  const std::lock_guard guard(mutex_);
  const bool rests = shared_ != nullptr && !listening_.any();
  return in_calls_ != 0 || (subscribers_ != 0 && !rests) || kinds_.any() || unfetched_;
}

CUpti_SubscriberHandle CuptiClients::shared() const {
  if (for_good_.load(std::memory_order_seq_cst)) return nullptr;
  const std::lock_guard guard(mutex_);
  return shared_;
}

CUpti_TimestampCallbackFunc CuptiClients::clock() const {
  if (for_good_.load(std::memory_order_seq_cst)) return nullptr;
  const std::lock_guard guard(mutex_);
  return clock_;
}

CuptiBufferCallbacks CuptiClients::callbacks() const {
  if (for_good_.load(std::memory_order_seq_cst)) return {};
  const std::lock_guard guard(mutex_);
  return callbacks_;
}

}  // namespace slipstream::tracer
