// S61: a program with a profiler of its own gets from CUPTI what it would get without slipstream, and slipstream
// records what the devices do when nobody else is there.

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "tests/preload/tracer/trace_testing.h"
#include "tracer/device/cupti_clients.h"
#include "tracer/device/device_window.h"

namespace slipstream::test {
namespace {

using tracer::RecordKind;
using tracer::SpoolRecord;
using tracer::TraceRecord;

// The engines make other copies of the program's, which a profiler sees.
const Variables kNoEngines = {
    {"SLIPSTREAM_TRANSFER_H2D", "off"}, {"SLIPSTREAM_TRANSFER_D2H", "off"}, {"SLIPSTREAM_ALLOCATOR_MODE", "off"}};

class CuptiClientTest : public ::testing::TestWithParam<const char*> {};

void SeesTheSame(const std::string& program, const std::string& how) {
  const Finished bare = RunProgram({program, how}, {{"SIMCUDA_SEED", "0"}});
  ASSERT_EQ(bare.status, 0);
  EXPECT_NE(bare.out.find("profiled "), std::string::npos) << bare.out;
  EXPECT_NE(bare.out.find(", 0 buffers of somebody else's"), std::string::npos) << bare.out;
  for (const char* const device : {"off", "cupti"}) {
    Variables more = kNoEngines;
    more["SLIPSTREAM_TRACER_DEVICE"] = device;
    const std::string directory = NewDirectory();
    const Finished traced = RunTraced({program, how}, directory, more);
    EXPECT_EQ(traced.out, bare.out) << device;
    EXPECT_EQ(traced.status, bare.status);
    const Trace trace = ReadOnlyTrace(directory);
    ASSERT_NE(trace.reader, nullptr);
    const CallCounts kernels = trace.Kernels();
    EXPECT_EQ(kernels.count("profiled"), 0U) << "the profiler's own";
    const bool there = std::string(device) == "cupti" && how != "first" && how != "early";
    EXPECT_EQ(kernels.count("before") != 0 ? kernels.at("before") : 0, there ? 30U : 0U);
    EXPECT_EQ(trace.end().dropped, 0U);
    EXPECT_EQ(trace.Calls().at("cudaLaunchKernel"), CountsIn(directory).at("cudaLaunchKernel"));
  }
}
TEST_P(CuptiClientTest, S61_C15_SeesTheSameWithAndWithout) { SeesTheSame(CUPTI_CLIENT, GetParam()); }

// By dlsym, from a libcupti that it opened for itself.
TEST_P(CuptiClientTest, S61_C15_AClientThatLooksUpSeesTheSame) { SeesTheSame(CUPTI_CLIENT_LOOKS_UP, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Ends, CuptiClientTest,
                         ::testing::Values("unsubscribe", "finalize", "keep", "first", "early", "stays", "rests"),
                         [](const auto& how) { return std::string(how.param); });

TEST(CuptiClientTest2, S61_WhenItIsGoneSlipstreamIsBackAndGoesAgain) {
  Variables more = kNoEngines;
  more["SLIPSTREAM_TRACER_DEVICE"] = "cupti";
  const std::string directory = NewDirectory();
  const Finished traced = RunTraced({CUPTI_CLIENT, "until"}, directory, more);
  EXPECT_NE(traced.out.find("somebody is there\n"), std::string::npos) << traced.out;
  EXPECT_NE(traced.out.find("profiled 100\n"), std::string::npos) << "in two profiles\n" << traced.out;
  EXPECT_NE(traced.out.find("100 calls, 0 buffers of somebody else's\n"), std::string::npos) << traced.out;
  const CallCounts kernels = ReadOnlyTrace(directory).Kernels();
  EXPECT_EQ(kernels.at("before"), 30U);
  EXPECT_EQ(kernels.count("profiled"), 0U);
  EXPECT_GE(kernels.at("after"), 10U);
}

// What slipstream left to another profiler is not in its report, which says so.
TEST(CuptiClientTest2, S61_C15_WhatWasLeftToAnotherIsSaid) {
  Variables more = kNoEngines;
  more["SLIPSTREAM_TRACER_DEVICE"] = "cupti";
  const auto report = [&more](const char* how) {
    const std::string directory = NewDirectory();
    EXPECT_EQ(RunTraced({CUPTI_CLIENT, how}, directory, more).status, 0) << how;
    const Finished finished = RunProgram({SLIPSTREAM_COMMAND, "report", "--full", directory, "--no-cache"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    return std::regex_replace(finished.out, std::regex("\\s+"), " ");  // as if it had no lines
  };
  // It was there first, and stays.
  const std::string nothing = report("first");
  EXPECT_NE(nothing.find("devices: nothing of them was recorded: another profiler had the devices"), std::string::npos)
      << nothing;
  EXPECT_TRUE(std::regex_search(nothing, std::regex("STEPS of preload_cupti_client \\(pid [0-9]+\\): [0-9]+ steps, ")))
      << "found by what the loop launches, though no device was recorded\n"
      << nothing;
  EXPECT_EQ(nothing.find("devices were recorded"), std::string::npos) << nothing;
  EXPECT_EQ(nothing.find("tracer.device was off"), std::string::npos) << nothing;
  // It came later, and stays.
  const std::string part = report("stays");
  const std::regex said("so this is [0-9.]+ [mun]?s of [0-9.]+ [mun]?s, in which its devices were recorded, as the");
  EXPECT_TRUE(std::regex_search(part, said)) << part;
  EXPECT_EQ(part.find("nothing of them was recorded"), std::string::npos) << part;
}

// As PyTorch's profiler, which never unsubscribes: slipstream records between its profiles, and each has its own clock.
TEST(CuptiClientTest2, AClientThatRestsLendsItsSubscription) {
  Variables more = kNoEngines;
  more["SLIPSTREAM_TRACER_DEVICE"] = "cupti";
  const std::string directory = NewDirectory();
  const Finished bare = RunProgram({CUPTI_CLIENT, "rests"}, {{"SIMCUDA_SEED", "0"}});
  EXPECT_NE(bare.out.find("\n6 streams, 0 times that are not its own\n"), std::string::npos) << bare.out;
  const Finished traced = RunTraced({CUPTI_CLIENT, "rests", "with-another"}, directory, more);
  EXPECT_EQ(traced.out, bare.out);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  const CallCounts kernels = trace.Kernels();
  EXPECT_EQ(kernels.at("before"), 30U);
  EXPECT_EQ(kernels.count("profiled"), 0U);
  EXPECT_GE(kernels.at("after"), 30U) << "10 behind each profile, at least";
  // All of it has its call, and happened in the run.
  std::set<uint32_t> calls;
  uint64_t end = 0;
  for (const SpoolRecord& next : trace.records) {
    if (next.record.kind != RecordKind::kCall) continue;
    calls.insert(next.record.correlation);
    end = std::max(end, next.record.end_ns);
  }
  size_t without_call = 0;
  for (const tracer::ActivityRecord& kernel : trace.Activities(tracer::ActivityKind::kKernel)) {
    without_call += calls.count(kernel.correlation) == 0 ? 1 : 0;
    // The simulated CUPTI's own clock is 5 % fast, which is the reader's to take out.
    EXPECT_LT(kernel.end_ns, end + end / 10);
  }
  // Slipstream came and went three times, and the program's only thread may have been in a call whenever it did.
  EXPECT_LE(without_call, 6U);
}

// tracer.device_after, tracer.device_for: a part of the run.
TEST(CuptiClientTest2, AWindowOfTheRun) {
  Variables more = kNoEngines;
  more["SLIPSTREAM_TRACER_DEVICE"] = "cupti";
  more["SLIPSTREAM_TRACER_DEVICE_AFTER"] = "1";
  more["SLIPSTREAM_TRACER_DEVICE_FOR"] = "1";
  const std::string directory = NewDirectory();
  EXPECT_EQ(RunTraced({CUPTI_CLIENT, "watches"}, directory, more).status, 0);
  const Trace trace = ReadOnlyTrace(directory);
  ASSERT_NE(trace.reader, nullptr);
  const CallCounts kernels = trace.Kernels();
  EXPECT_EQ(kernels.count("before"), 0U) << "in the first second";
  EXPECT_GE(kernels.at("profiled"), 10U);
  EXPECT_LT(kernels.at("profiled"), trace.Calls().at("cudaLaunchKernel"));
  EXPECT_EQ(kernels.count("after"), 0U);
}

TEST(DeviceWindowTest, WhenItIsAndHowLongUntilItChanges) {
  const tracer::DeviceWindow always;
  EXPECT_TRUE(always.Has(100, 100));
  EXPECT_TRUE(always.Has(100, 99)) << "another processor's clock";
  EXPECT_EQ(always.Wait(100, 5000, 250), 250U);
  const tracer::DeviceWindow window = {.after_ns = 1000, .for_ns = 500};
  EXPECT_FALSE(window.Has(100, 1099));
  EXPECT_TRUE(window.Has(100, 1100));
  EXPECT_TRUE(window.Has(100, 1599));
  EXPECT_FALSE(window.Has(100, 1600));
  EXPECT_EQ(window.Wait(100, 1000, 250), 100U);
  EXPECT_EQ(window.Wait(100, 100, 250), 250U);
  EXPECT_EQ(window.Wait(100, 1500, 250), 100U);
  EXPECT_EQ(window.Wait(100, 1600, 250), 250U);
  const tracer::DeviceWindow rest = {.after_ns = 1000, .for_ns = 0};
  EXPECT_FALSE(rest.Has(0, 999));
  EXPECT_TRUE(rest.Has(0, UINT64_MAX));
}

// Who is there, and until when.
TEST(CuptiClientsTest, UntilItHasFetchedWhatItDisabled) {
  tracer::CuptiClients clients;
  EXPECT_FALSE(clients.present());
  clients.Begin();
  EXPECT_TRUE(clients.present()) << "in a call";
  clients.Subscribed(nullptr);
  clients.End();
  EXPECT_TRUE(clients.present());
  clients.Enabled(10);
  clients.Enabled(2);
  clients.Unsubscribed();
  clients.Disabled(10);
  clients.Flushed();
  EXPECT_TRUE(clients.present()) << "one kind is left";
  clients.Disabled(2);
  EXPECT_TRUE(clients.present()) << "records are left";
  clients.Flushed();
  EXPECT_FALSE(clients.present());
  clients.Disabled(2);
  EXPECT_FALSE(clients.present()) << "it was not enabled";
  clients.Enabled(2);
  clients.Subscribed(nullptr);
  clients.Finalized();
  EXPECT_FALSE(clients.present());
  clients.ChangedForGood();
  EXPECT_TRUE(clients.present());
}

TEST(CuptiClientsTest, OneThatSharesIsThereWhileItListens) {
  const auto handle = reinterpret_cast<CUpti_SubscriberHandle>(8);
  tracer::CuptiClients clients;
  clients.Subscribed(handle);
  EXPECT_FALSE(clients.present());
  EXPECT_EQ(clients.shared(), handle);
  clients.Listens(CUPTI_CB_DOMAIN_RESOURCE, 3, true);
  clients.ListensToDomain(CUPTI_CB_DOMAIN_NVTX, true);
  EXPECT_FALSE(clients.present()) << "no calls";
  clients.Listens(CUPTI_CB_DOMAIN_RUNTIME_API, 3, true);
  EXPECT_TRUE(clients.present());
  clients.ListensToDomain(CUPTI_CB_DOMAIN_RUNTIME_API, false);
  EXPECT_FALSE(clients.present());
  clients.ListensToDomain(CUPTI_CB_DOMAIN_DRIVER_API, true);
  clients.Listens(CUPTI_CB_DOMAIN_DRIVER_API, 307, false);
  EXPECT_TRUE(clients.present()) << "all but one";
  clients.ListensToAll(false);
  EXPECT_FALSE(clients.present());
  clients.ListensToAll(true);
  EXPECT_TRUE(clients.present());
  clients.Unsubscribed();
  EXPECT_FALSE(clients.present());
  EXPECT_EQ(clients.shared(), nullptr);
  // Two at once, as newer drivers allow: neither is borrowed.
  clients.Subscribed(handle);
  clients.Subscribed(handle);
  EXPECT_EQ(clients.shared(), nullptr);
  EXPECT_TRUE(clients.present());
  clients.Finalized();
  EXPECT_FALSE(clients.present());
}

}  // namespace
}  // namespace slipstream::test
