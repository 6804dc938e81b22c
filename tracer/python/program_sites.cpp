#include "tracer/python/program_sites.h"

#include <array>
#include <atomic>
#include <new>
#include <span>
#include <string>

#include "policy/log.h"
#include "tracer/python/python_process.h"
#include "tracer/python/python_stack.h"
#include "tracer/python/stack_memo.h"

namespace slipstream::tracer {
namespace {

// So many frames are looked at first: the walk is most of what a line costs, and most calls need no more.
constexpr size_t kNear = 8;

// Published last.
std::atomic<CodeSites*> g_sites{nullptr};
std::atomic<PythonStack*> g_stack{nullptr};
std::atomic<bool> g_looked{false};
std::atomic<bool> g_unreadable{false};
std::atomic<void (*)(const char*)> g_say{nullptr};

void Find() {
  // A look first: threads of a program without Python come here at every call, and must not fight for the line.
  if (g_looked.load(std::memory_order_relaxed) || g_looked.exchange(true, std::memory_order_relaxed)) return;
  PythonProcess process;
  const PythonStatus why = FindPython(&process);
  if (why != PythonStatus::kOk) {
    policy::LogWarn("no line of the program can be told: " + LinesFact(why, process.version));
    return;
  }
  auto* const stack = new (std::nothrow) PythonStack(process);
  CodeSites* const sites = stack != nullptr ? CodeSites::Create(stack->layout(), {}) : nullptr;
  if (sites == nullptr) {
    policy::LogWarn("no line of the program can be told: there is no memory");
    delete stack;
    return;
  }
  g_stack.store(stack, std::memory_order_relaxed);
  g_sites.store(sites, std::memory_order_release);
}

// The first stack was compared with the layout, and did not have it.
[[gnu::cold]] void SayUnreadable(const PythonStack& stack) {
  if (g_unreadable.exchange(true, std::memory_order_relaxed)) return;
  const std::string fact = LinesFact(PythonStatus::kBadLayout, stack.version());
  policy::LogWarn("no line of the program can be told: " + fact);
  if (auto* const say = g_say.load(std::memory_order_acquire)) say(fact.c_str());
}

PythonStack::Walked Walk(std::span<PythonFrame> frames) {
  PythonStack* const stack = g_stack.load(std::memory_order_relaxed);
  const PythonStack::Walked walked = stack->Walk(frames);
  if (walked.status == PythonStatus::kBadLayout && !g_unreadable.load(std::memory_order_relaxed)) [[unlikely]] {
    SayUnreadable(*stack);
  }
  return walked;
}

CodeSites* FoundSites() {
  CodeSites* const sites = g_sites.load(std::memory_order_acquire);
  if (sites != nullptr) [[likely]]
    return sites;
  Find();
  return g_sites.load(std::memory_order_acquire);
}

}  // namespace

CodeSites::Chosen ProgramSites::Place() {
  CodeSites* const sites = FoundSites();
  if (sites == nullptr) return {};
  std::array<PythonFrame, kDeepest> frames;
  size_t seen = 0;
  CodeSites::Chosen chosen;
  for (const size_t depth : {kNear, kDeepest}) {
    const PythonStack::Walked walked = Walk(std::span(frames).first(depth));
    if (walked.frames <= seen) break;
    const bool in_backward = chosen.in_backward;
    chosen = sites->InternChosen(std::span(frames).subspan(seen, walked.frames - seen));
    chosen.in_backward |= in_backward;
    if (chosen.site != CodeSites::kUnknown || chosen.lost || !walked.cut) break;
    seen = walked.frames;
  }
  return chosen;
}

ProgramSites::PlaceAndStack ProgramSites::PlaceIn(StackTree* stacks) {
  CodeSites* const sites = FoundSites();
  if (sites == nullptr) return {};
  std::array<PythonFrame, kDeepest> frames;
  const PythonStack::Walked walked = Walk(frames);
  if (walked.frames == 0) return {};
  std::array<uint32_t, kDeepest> found;
  PlaceAndStack at;
  at.stack = InternStack(std::span(frames).first(walked.frames), walked.cut, sites, stacks, found.data());
  at.place = sites->ChooseWithin(std::span(found).first(walked.frames));
  return at;
}

void ProgramSites::OnUnreadable(void (*say)(const char* fact)) { g_say.store(say, std::memory_order_release); }

const CodeSites* ProgramSites::Sites() { return g_sites.load(std::memory_order_acquire); }

bool ProgramSites::Describe(uint32_t site, CallSite* description) {
  const CodeSites* const sites = g_sites.load(std::memory_order_acquire);
  return sites != nullptr && sites->Describe(site, description);
}

}  // namespace slipstream::tracer
