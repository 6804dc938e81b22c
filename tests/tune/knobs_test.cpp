// What is tried, and what is not and why.

#include "tools/tune/knobs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "policy/load.h"
#include "policy/options.h"

namespace slipstream::tune {
namespace {

constexpr Traffic kAll = {.copies_to_device = true, .copies_to_host = true, .allocates = true, .uses_pytorch = true};

class KnobsTest : public ::testing::Test {
 protected:
  std::vector<Knob> Make(const Traffic& traffic = kAll, const Machine& machine = {8, uint64_t{80} << 30},
                         const std::vector<std::string>& environment = {}) {
    not_tried_.clear();
    return KnobsFor(base_, traffic, machine, environment, &not_tried_);
  }
  static const Knob* Find(const std::vector<Knob>& knobs, const std::string& key) {
    const auto at = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& knob) { return knob.key == key; });
    return at == knobs.end() ? nullptr : &*at;
  }

  policy::Policy base_;
  std::vector<NotTried> not_tried_;
};

// A policy with any of them is one that slipstream takes.
TEST_F(KnobsTest, EveryValueIsOneThatThePolicyAccepts) {
  for (const Knob& knob : Make()) {
    const policy::Option* const option = policy::FindOption(knob.key);
    ASSERT_NE(option, nullptr) << knob.key;
    EXPECT_FALSE(knob.values.empty()) << knob.key;
    for (std::string value : knob.values) {
      std::erase(value, '"');
      policy::Problem problem;
      EXPECT_TRUE(policy::AcceptText(*option, value, problem)) << knob.key << " = " << value;
    }
  }
}

TEST_F(KnobsTest, WhatHoldsAlreadyIsNotTried) {
  EXPECT_EQ(Find(Make(), "transfer.h2d")->values, std::vector<std::string>{"\"off\""});
  base_.transfer.h2d = policy::TransferMode::kOff;
  const std::vector<Knob> knobs = Make();
  EXPECT_EQ(Find(knobs, "transfer.h2d")->values, std::vector<std::string>{"\"on\""});
  EXPECT_EQ(Find(knobs, "transfer.device_staging"), nullptr);
  EXPECT_EQ(Find(knobs, "transfer.max_mirrored"), nullptr);
}

TEST_F(KnobsTest, WhatTheProgramDoesNotDoIsNotTried) {
  EXPECT_TRUE(Make({}).empty());
  EXPECT_GE(not_tried_.size(), 8U);
  for (const NotTried& one : not_tried_) EXPECT_NE(one.why, "") << one.key;
  Traffic traffic = kAll;
  traffic.uses_pytorch = false;
  EXPECT_EQ(Find(Make(traffic), "allocator.mode")->values, std::vector<std::string>{"\"off\""});
}

// Whatever a program does, nothing else is tried.
TEST_F(KnobsTest, NamesWhatCanBeTuned) {
  const std::vector<std::string> keys = KeysToTune();
  std::vector<std::string> tried;
  for (const Knob& knob : Make()) tried.push_back(knob.key);
  EXPECT_EQ(tried, keys);
  EXPECT_TRUE(NamesKey("transfer.threads", "transfer.threads"));
  EXPECT_TRUE(NamesKey("transfer", "transfer.threads"));
  EXPECT_FALSE(NamesKey("trans", "transfer.threads"));
  EXPECT_FALSE(NamesKey("transfer.threads", "transfer.threads_more"));
  EXPECT_FALSE(NamesKey("", "transfer.threads"));
}

TEST_F(KnobsTest, NoMoreThreadsThanProcessors) {
  EXPECT_EQ(Find(Make(kAll, {2, 0}), "transfer.threads")->values, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(Find(Make(kAll, {2, 0}), "allocator.pre_reserve"), nullptr) << "the device's memory is not known";
}

// "1024MiB" and "1GiB" are one value.
TEST_F(KnobsTest, TheBasesValueIsNotTriedInOtherWords) {
  const auto values = [this](const std::string& key) {
    Traffic traffic;
    traffic.copies_to_device = true;
    std::vector<NotTried> not_tried;
    for (const Knob& knob : KnobsFor(base_, traffic, {}, {}, &not_tried)) {
      if (knob.key == key) return knob.values;
    }
    return std::vector<std::string>();
  };
  base_.transfer.device_staging = uint64_t{1} << 30;
  EXPECT_EQ(values("transfer.device_staging"), (std::vector<std::string>{"\"512MiB\"", "\"0B\""}));
  base_.transfer.max_pinned = uint64_t{2} << 30;
  EXPECT_EQ(values("transfer.max_pinned"), (std::vector<std::string>{"\"1GiB\"", "\"256MiB\""}));
}

// As much as the program comes to, and half of it, in blocks of 20 MiB; where that is not known, parts of the device.
TEST_F(KnobsTest, MemoryInAdvanceIsWhatTheProgramUses) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const auto values = [&](uint64_t peak, uint64_t memory) {
    Traffic traffic = kAll;
    traffic.pool_peak = peak;
    const std::vector<Knob> knobs = Make(traffic, {8, memory});
    const Knob* const knob = Find(knobs, "allocator.pre_reserve");
    return knob == nullptr ? std::vector<std::string>() : knob->values;
  };
  using Values = std::vector<std::string>;
  EXPECT_EQ(values(0, 81920 * kMiB), (Values{"\"10GiB\"", "\"2560MiB\""}));
  EXPECT_EQ(values(3077 * kMiB, 81920 * kMiB), (Values{"\"3060MiB\"", "\"1520MiB\""}));
  // Not more than the pool keeps idle: a quarter of the device.
  EXPECT_EQ(values(3077 * kMiB, 4096 * kMiB), (Values{"\"1020MiB\""}));
  base_.allocator.max_idle = 45 * kMiB;
  EXPECT_EQ(values(3077 * kMiB, 4096 * kMiB), (Values{"\"40MiB\""}));

  const auto why = [&] {
    const auto at = std::find_if(not_tried_.begin(), not_tried_.end(),
                                 [](const NotTried& one) { return one.key == "allocator.pre_reserve"; });
    return at == not_tried_.end() ? "" : at->why;
  };
  EXPECT_TRUE(values(19 * kMiB, 4096 * kMiB).empty());
  EXPECT_EQ(why(), "the pool never holds a block of it");
  EXPECT_TRUE(values(0, 0).empty());
  EXPECT_EQ(why(), "the device's memory is not known");
  base_.allocator.mode = policy::AllocatorMode::kOff;
  EXPECT_TRUE(values(3077 * kMiB, 4096 * kMiB).empty());
  EXPECT_EQ(why(), "there is no pool to fill");
}

// What changes numbers is the user's to name; nothing else is ever set.
TEST_F(KnobsTest, VariablesAreTriedWhereTheyAreNamed) {
  for (const Knob& knob : Make()) EXPECT_FALSE(knob.key.starts_with("environment.")) << knob.key;
  const std::vector<Knob> knobs = Make(kAll, {8, 0}, {"NVIDIA_TF32_OVERRIDE=1", "A=b\"c"});
  EXPECT_EQ(Find(knobs, "environment.NVIDIA_TF32_OVERRIDE")->values, std::vector<std::string>{"\"1\""});
  EXPECT_EQ(Find(knobs, "environment.A")->values, std::vector<std::string>{"\"b\\\"c\""});
}

}  // namespace
}  // namespace slipstream::tune
