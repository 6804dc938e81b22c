// Which engines stood aside and which calls failed open, by the counters of processes.

#include "tools/site/engines.h"

#include <gtest/gtest.h>

#include "allocator/decision.h"
#include "tools/text/decisions.h"
#include "transfer/decision.h"

namespace slipstream::site {
namespace {

tracer::ProcessCounts Saying(const std::string& allocator, const std::string& transfer) {
  tracer::ProcessCounts process;
  process.facts = {{"allocator", allocator}, {"transfer", transfer}, {"trace", "on"}};
  return process;
}

TEST(EnginesTest, WhoStoodAsideAndWhy) {
  tracer::ProcessCounts later = Saying("serves: all", "serves: copies");
  later.facts.push_back({"allocator", "off since a library was loaded: x"});
  const std::vector<StoodAside> aside =
      WhoStoodAside({Saying("serves: all", "off: CUDA_LAUNCH_BLOCKING is set"),
                     Saying("serves: all", "off: CUDA_LAUNCH_BLOCKING is set"), later, Saying("serves: off", "off")});
  ASSERT_EQ(aside.size(), 3U);
  EXPECT_EQ(aside[0].engine, "transfer");
  EXPECT_EQ(aside[0].reason, "CUDA_LAUNCH_BLOCKING is set");
  EXPECT_EQ(aside[0].processes, 2U);
  EXPECT_EQ(aside[1].engine, "allocator");
  EXPECT_EQ(aside[1].reason, "since a library was loaded: x");
  EXPECT_EQ(aside[2].reason, "off");
}

TEST(EnginesTest, CallsThatFailedOpenAreSummedByReason) {
  tracer::ProcessCounts process;
  process.decisions = {{"transfer.h2d.declined.error", 3, 0, 0},
                       {"transfer.h2d.declined.off", 5, 0, 0},
                       {"transfer.sync.kept.error", 0, 0, 0}};
  const std::vector<FailedOpen> failed = WhatFailedOpen({process, process});
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].engine, "transfer");
  EXPECT_EQ(failed[0].reason, "copies to the device declined: a driver call failed");
  EXPECT_EQ(failed[0].calls, 6U);
}

// The names are the engines' own: one that is renamed there is noticed here.
TEST(EnginesTest, EveryDecisionByAnErrorFailedOpen) {
  size_t found = 0;
  const auto look = [&found](std::string_view name) {
    if (MeansFailedOpen(name)) ++found;
    EXPECT_TRUE(MeansFailedOpen(name) || !name.ends_with(".error")) << name;
  };
  for (const policy::DecisionText& one : transfer::kDecisionTexts) look(one.name);
  for (const policy::DecisionText& one : allocator::kDecisionTexts) look(one.name);
  EXPECT_EQ(found, 6U);
}

}  // namespace
}  // namespace slipstream::site
