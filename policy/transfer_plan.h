// Plans one copy by the policy: a pure function of (policy, request).
//
// Purpose: the transfer engine asks it for every copy, and `slipstream policy explain` for one that a user describes. A
//   plan is what the policy wants. The engine finds out for each copy whether it can be had (is the source pageable, is
//   staging memory free, can the program tell).
// Threading: pure functions; no allocation, no lock. Time: one step for each rule.
// Errors: none.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "policy/policy.h"
#include "policy/site.h"

namespace slipstream::policy {

enum class Direction : std::uint8_t { kHostToDevice, kDeviceToHost };

// -- how copies through staging memory are made
// Up to here the driver takes the bytes of pageable memory at once, and waits for nothing; from the device to the host
// such a copy is left alone.
inline constexpr std::size_t kSmallCopyBytes = std::size_t{64} << 10;
// Larger copies are cut into 32 pieces or a few more, so that every thread has some and ends when the others do. A
// piece must be worth taking, and a long copy is faster in longer pieces (measured on an H200's host: 256 MiB at 32
// GB/s in pieces of 1 MiB, at 24 in pieces of 512 KiB).
inline constexpr std::size_t kShortestPieceBytes = std::size_t{128} << 10;
inline constexpr std::size_t kLongestPieceBytes = std::size_t{1} << 20;
inline constexpr std::size_t kLongCopyBytes = std::size_t{32} << 20;

// Up to here a copy is one DMA out of one piece of staging memory. What is longer travels in pieces, and lies in device
// memory in between.
inline constexpr std::size_t kOneDmaBytes = std::size_t{2} << 20;

// A smaller copy's DMA takes no longer than sending it ahead of its stream.
inline constexpr std::size_t kAheadFrom = std::size_t{1} << 20;

constexpr std::size_t PieceBytesOf(std::uint64_t bytes) {
  return std::clamp<std::size_t>(std::bit_floor(bytes / 32), kShortestPieceBytes, kLongestPieceBytes);
}

// Copies to the host: where the destination may get huge pages each piece is one of them.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
inline constexpr std::size_t kWorthHugePages = std::size_t{8} << 20;  // less is filled as fast without

constexpr std::size_t FetchedPieceBytesOf(std::uint64_t bytes) {
  return bytes >= kWorthHugePages ? kHugePageBytes : std::size_t{512} << 10;
}

// Staging memory of the device: in whole segments of this size.
inline constexpr std::size_t kDeviceSegmentBytes = std::size_t{64} << 20;

// The most that there is of it, and that a copy may have.
constexpr std::uint64_t DeviceStagingBytes(const Transfer& policy) noexcept {
  return policy.device_staging / kDeviceSegmentBytes * kDeviceSegmentBytes;
}

// Whether a copy can be one operation of its stream: as one DMA, or by way of so much device memory.
constexpr bool HasStaging(const Transfer& policy, std::uint64_t bytes) noexcept {
  return bytes <= kOneDmaBytes || bytes <= DeviceStagingBytes(policy);
}

// -- what becomes of a copy
// Who decided.
enum class Decider : std::uint8_t {
  kDirectionKey,  // transfer.h2d or transfer.d2h
  kSizeKey,       // transfer.small_copies or transfer.large_copies
  kSkipKey,       // transfer.skip_synchronize
  kStagingKey,    // transfer.device_staging: the copy is longer than that
  kRule,          // the rule
  kEngine,        // the engine: it has no way to do it
};

struct TransferPlan {
  static constexpr std::int16_t kNoRule = -1;

  bool promote = false;
  // Of the synchronization behind it; has a meaning only where the copy is promoted.
  bool skip_synchronize = false;
  Decider promote_by = Decider::kDirectionKey;
  Decider skip_by = Decider::kSkipKey;
  // The first that matches, by its place in Transfer::rules, whether it says something or not.
  std::int16_t rule = kNoRule;
};

// What the keys alone say.
constexpr TransferPlan PlanByKeys(const Transfer& policy, Direction direction, std::uint64_t bytes) noexcept {
  TransferPlan plan;
  if (direction == Direction::kDeviceToHost) {
    // Such a copy is complete when it returns: nothing behind it can be skipped.
    plan.skip_by = Decider::kEngine;
    plan.promote = policy.d2h == TransferMode::kOn && bytes > kSmallCopyBytes;
    if (bytes <= kSmallCopyBytes) plan.promote_by = Decider::kEngine;
    return plan;
  }
  plan.skip_synchronize = policy.skip_synchronize;
  if (policy.h2d != TransferMode::kOn) return plan;
  plan.promote = bytes <= kSmallCopyBytes ? policy.small_copies : policy.large_copies;
  plan.promote_by = Decider::kSizeKey;
  return plan;
}

// Of which rules the site is that of a copy: a bit for each, by its place in Transfer::rules. A rule without a site
// means every place.
using RulesAt = std::uint64_t;
static_assert(kMostRules <= 64);

// Whether any rule has a site.
bool RulesHaveSites(const Transfer& policy) noexcept;

// `at`: where in the program the copy is made; null: not known.
RulesAt RulesAtSite(const Transfer& policy, const Site* at) noexcept;

// The same with the rules, of which there are some.
TransferPlan PlanByRules(const Transfer& policy, Direction direction, std::uint64_t bytes, int device,
                         RulesAt rules) noexcept;

// `device`: the ordinal of the copy's device. `rules`: RulesAtSite; where no rule has a site, all of them.
inline TransferPlan PlanOf(const Transfer& policy, Direction direction, std::uint64_t bytes, int device,
                           RulesAt rules = ~RulesAt{0}) noexcept {
  TransferPlan plan = policy.rules.empty() ? PlanByKeys(policy, direction, bytes)
                                           : PlanByRules(policy, direction, bytes, device, rules);
  if (plan.promote && !HasStaging(policy, bytes)) {
    plan.promote = false;
    plan.promote_by = Decider::kStagingKey;
  }
  return plan;
}

// Whether a rule promotes copies of this direction, whatever the keys say of it.
bool RulePromotes(const Transfer& policy, Direction direction) noexcept;

// Whether copies of this direction are looked at: it is on, or a rule promotes some of them.
inline bool Considers(const Transfer& policy, Direction direction) noexcept {
  const TransferMode mode = direction == Direction::kHostToDevice ? policy.h2d : policy.d2h;
  return mode == TransferMode::kOn || RulePromotes(policy, direction);
}

// Why the policy wants no copy promoted at all, in its own words; null where it wants some.
const char* OffByPolicy(const Transfer& policy) noexcept;

// -- on this machine
// Threads that copy, the calling one included: what the policy says, or half of the processors that this process
// may use (its affinity, its share among `ranks_here` processes of the job on this machine, its cgroup), 1 to 8.
// ranks_here below 1: unknown. Not pure: asks the system.
int CopyThreads(const Transfer& policy, int ranks_here);

}  // namespace slipstream::policy
