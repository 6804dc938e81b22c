// A small recorded run with something of every kind in it, for tests that ask about a database as a whole.
//
// Threading: one thread; it makes others.
#pragma once

#include <sys/stat.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/tracer/fake_python.h"
#include "tracer/base/clock.h"
#include "tracer/base/hook_id.h"
#include "tracer/python/code_sites.h"
#include "tracer/python/native_stack.h"
#include "tracer/spool/device_facts.h"
#include "tracer/spool/recorder.h"

namespace slipstream::trace_db {

// By a real recorder, into `directory`, which is made where it is missing. False: it could not be.
inline bool RecordSampleRun(const std::string& directory) {
  using tracer::HookId;
  using tracer::kOneLine;
  constexpr uint64_t kSteps = 3;
  mkdir(directory.c_str(), S_IRWXU);
  tracer::SpoolFailure why;
  tracer::RecorderOptions options = {.directory = directory};
  options.job = {.launcher = "torchrun", .job = "sample", .rank = 0, .local_rank = 0, .world_size = 1};
  options.decisions = {"transfer.h2d.promoted.small", "transfer.sync.skipped"};
  const std::unique_ptr<tracer::StackTree> stacks(tracer::StackTree::Create({}));
  options.stacks = stacks.get();
  const std::unique_ptr<tracer::NativeFrames> native(
      tracer::NativeFrames::Create({}, tracer::NativeFrames::Own::kKeep));
  options.native = native.get();
  const std::unique_ptr<tracer::Recorder> recorder(tracer::Recorder::Start(options, &why));
  if (recorder == nullptr) return false;
  tracer::DeviceFacts device;
  device.name = "Sample device";
  device.uuid = "00000000-0000-0000-0000-000000000001";
  device.multiprocessors = 132;
  recorder->Say({{std::string(tracer::kFactDevice) + "0", DeviceFactText(device)}});
  tracer::FakePython python(0x030b00f0);
  const std::unique_ptr<tracer::CodeSites> sites(tracer::CodeSites::Create(python.layout(), {}));
  recorder->SetSites(sites.get());
  const uintptr_t code = python.NewCode({.file = "train.py", .name = "step", .first_line = 42, .table = kOneLine});
  const uint32_t site = sites->Intern({code, 0});
  const uintptr_t main = python.NewCode({.file = "train.py", .name = "<module>", .first_line = 50, .table = kOneLine});
  const uint32_t python_stack =
      stacks->Intern(site, stacks->Intern(sites->Intern({main, 0}), tracer::StackTree::kNone));
  std::thread([&] {
    std::array<uint32_t, tracer::kDeepestNative> addresses;
    const tracer::NativeWalk walked = WalkNativeStack(native.get(), addresses);
    const uint32_t native_stack =
        InternNativeStack(std::span(addresses).first(walked.frames), walked.cut, stacks.get());
    const uint32_t stack = InternBothStacks(python_stack, native_stack, stacks.get());
    uint64_t number = 0;
    for (uint64_t step = 0; step < kSteps; ++step) {
      const uint64_t begin = tracer::NowNs();
      uint16_t decision = 0;
      for (const HookId hook :
           {HookId::cudaMalloc, HookId::cudaMemcpyAsync, HookId::cudaStreamSynchronize, HookId::cudaLaunchKernel}) {
        const uint64_t start = tracer::NowNs();
        const bool failed = hook == HookId::cudaMalloc && step == 1;
        const bool copies = hook == HookId::cudaMemcpyAsync || hook == HookId::cudaStreamSynchronize;
        if (copies) {
          recorder->Record(RecordOf(tracer::DecisionMade{.at_ns = tracer::NowNs(),
                                                         .decision = ++decision,
                                                         .bytes = 4096,
                                                         .saved_ns = hook == HookId::cudaMemcpyAsync ? 2000 : 1000,
                                                         .known = tracer::Known::kModeled,
                                                         .call = ++number}));
        }
        recorder->Record({.start_ns = start,
                          .end_ns = tracer::NowNs(),
                          .bytes = 4096,
                          .number = copies ? number : 0,
                          .stack = stack,
                          .site = site,
                          .status = failed ? 2 : 0,
                          .hook = static_cast<uint16_t>(tracer::Index(hook)),
                          .decision = static_cast<uint16_t>(copies ? decision : 0),
                          .device = 0,
                          .kind = tracer::RecordKind::kCall});
      }
      recorder->Record(tracer::MemoryRecord(tracer::NowNs(), {.device = 0, .live_bytes = 4096 * (step + 1)}));
      recorder->Record(tracer::MarkRecord(tracer::NowNs(), site, step));
      recorder->Record(tracer::StepRecord(begin, tracer::NowNs(), step));
    }
  }).join();
  return recorder->Finish(60'000'000'000);
}

}  // namespace slipstream::trace_db
