#include "tools/cli/decisions.h"

#include <algorithm>

#include "tools/cli/text.h"

namespace slipstream::cli {
namespace {

using tracer::DecisionCounts;

struct Phrase {
  std::string_view name;
  std::string_view text;
};

// In the order of transfer/decision.h and allocator/decision.h, which the tools do not see; a test holds the names
// against them.
constexpr Phrase kPhrases[] = {
    {"transfer.promoted.small", "small"},
    {"transfer.promoted.large", "large"},
    {"transfer.ahead", "ahead of a busy stream"},
    {"transfer.fetched", "through staging memory"},
    {"transfer.left.off", "switched off by the policy"},
    {"transfer.left.rule", "by a rule of the policy"},
    {"transfer.left.memory", "not from plain device memory to pageable memory"},
    {"transfer.left.small", "of up to 64 KiB"},
    {"transfer.left.staging", "with no staging memory free"},
    {"transfer.left.device", "of more than 2 MiB, without device memory for them"},
    {"transfer.left.capture", "during a stream capture"},
    {"transfer.left.context", "in a context that the engine does not serve"},
    {"transfer.left.slower", "because that is faster here"},
    {"transfer.left.kernel", "because the system cannot prepare pages (before Linux 5.14)"},
    {"transfer.left.error", "after a failed call, or to memory that cannot be written"},
    {"transfer.aside.off", "switched off by the policy"},
    {"transfer.aside.rule", "by a rule of the policy"},
    {"transfer.aside.starting", "while staging memory was being pinned"},
    {"transfer.aside.no_memory", "as no memory could be pinned for staging"},
    {"transfer.aside.full", "while all staging memory was in flight"},
    {"transfer.aside.device", "of more than 2 MiB, without device memory for them"},
    {"transfer.aside.source", "from memory that is not pageable"},
    {"transfer.aside.destination", "to memory that is not plain device memory"},
    {"transfer.aside.capture", "during a stream capture"},
    {"transfer.aside.host_effect", "while earlier work could still write the source"},
    {"transfer.aside.system_memory", "because the device reaches host memory by itself"},
    {"transfer.aside.threads", "of up to 64 KiB, beside another thread that has work of its own"},
    {"transfer.aside.context", "in a context that the engine does not serve"},
    {"transfer.aside.driver", "because the driver is older than CUDA 12.5"},
    {"transfer.aside.verify", "because a copy had arrived wrong"},
    {"transfer.aside.error", "after a failed driver call"},
    {"transfer.skipped", "skipped"},
    {"transfer.skipped.rest", "after waiting for work on host memory"},
    {"transfer.kept.off", "switched off by the policy"},
    {"transfer.kept.rule", "by a rule of the policy"},
    {"transfer.kept.host_effect", "while another stream could still use host memory"},
    {"transfer.kept.capture", "during a stream capture"},
    {"transfer.kept.contexts", "with more than one device context"},
    {"transfer.kept.mapped", "with managed or mapped host memory in use"},
    {"transfer.kept.shared", "with memory shared between processes or devices"},
    {"transfer.kept.rdma", "with a transport that may read the memory"},
    {"transfer.kept.threads", "with another thread that has work of its own"},
    {"transfer.kept.error", "after a failed driver call"},
    {"transfer.paid.synchronize", "before a synchronise"},
    {"transfer.paid.copy", "before a blocking copy"},
    {"transfer.paid.free", "before a free"},
    {"transfer.paid.share", "before memory was shared with a process"},
    {"transfer.paid.capture", "before a stream capture"},
    {"transfer.paid.reset", "before a device reset"},
    {"transfer.paid.profiler", "before a profiler stopped"},
    {"transfer.paid.query", "because a query asked"},
    {"transfer.paid.thread_exit", "at the end of a thread"},
    {"transfer.paid.bound", "because two were open on a stream"},
    {"transfer.verified", "compared after reading them back"},
    {"transfer.verified.wrong", "WRONG, which switched the engine off"},
    {"transfer.unverified", "not compared, with no staging memory free or on a stream of several threads"},
    {"transfer.gave_back", "device staging memory went back to the driver"},
    {"transfer.unpinned", "staging memory was unpinned for it"},
    {"transfer.unmapped.background", "in the background"},
    {"transfer.unmapped.caller", "by the program's call, because too much was waiting"},
    {"allocator.reused", "from the pool"},
    {"allocator.reused.behind", "behind a wait of the device"},
    {"allocator.grown", "by the driver"},
    {"allocator.passed.capture", "during a stream capture"},
    {"allocator.passed.context", "in a context of the program's own"},
    {"allocator.passed.memory", "with no memory left in the driver"},
    {"allocator.parked", "kept"},
    {"allocator.freed.capture", "during a stream capture"},
    {"allocator.freed.shared", "of memory shared with a process"},
    {"allocator.freed.host_effect", "while host memory could still be written unseen"},
    {"allocator.freed.context", "with a context whose work cannot be fenced"},
    {"allocator.freed.cap", "with enough idle memory kept"},
    {"allocator.freed.reserve", "with little memory left in the driver"},
    {"allocator.freed.thread", "without a thread to look after idle memory"},
    {"allocator.freed.foreign", "of memory that is not the pool's"},
    {"allocator.trimmed", "that nobody wanted"},
    {"allocator.reclaimed", "when the driver had none left"},
    {"allocator.retried", "tried again"},
    {"allocator.reserved", "made in advance"},
    {"allocator.stream.reused", "from the heap"},
    {"allocator.stream.grown", "by the driver"},
    {"allocator.stream.moved", "with idle memory put together"},
    {"allocator.stream.behind", "behind a wait of their stream"},
    {"allocator.stream.waited", "behind a wait of the host"},
    {"allocator.stream.passed.capture", "during a stream capture"},
    {"allocator.stream.passed.pool", "from a pool of the program's own"},
    {"allocator.stream.passed.context", "in a context of the program's own"},
    {"allocator.stream.passed.memory", "with no memory left"},
    {"allocator.stream.freed", "in their stream's order"},
    {"allocator.stream.trimmed", "of the stream-ordered heap"},
};

constexpr size_t kReasonsShown = 5;
constexpr std::string_view kEngine = "transfer.";
constexpr std::string_view kSkipped = "transfer.skipped";
constexpr std::string_view kSkippedRest = "transfer.skipped.rest";
constexpr std::string_view kAhead = "transfer.ahead";

bool IsVerification(std::string_view name) {
  return name.starts_with("transfer.verified") || name == "transfer.unverified";
}

std::string InWords(std::string_view name) {
  if (const std::string_view phrase = DecisionPhrase(name); !phrase.empty()) return std::string(phrase);
  if (const size_t dot = name.find('.'); dot != std::string_view::npos) name.remove_prefix(dot + 1);
  std::string words(name);
  for (char& c : words) {
    if (c == '.' || c == '_') c = ' ';
  }
  return words;
}

// The decisions of one kind, the most frequent first, and their sum.
struct Kind {
  std::vector<DecisionCounts> taken;
  DecisionCounts sum;
};

void AddTo(Kind& kind, const DecisionCounts& decision) {
  kind.taken.push_back(decision);
  kind.sum.count += decision.count;
  kind.sum.bytes += decision.bytes;
  kind.sum.time_ns += decision.time_ns;
}

std::string Counted(uint64_t count, const char* one, const char* many) {
  return WithThousands(count) + " " + (count == 1 ? one : many);
}

// ": 12 during ..., 3 after ..., 4 for 2 other reasons"; without a number where there is one reason only.
std::string Reasons(Kind kind) {
  std::stable_sort(kind.taken.begin(), kind.taken.end(),
                   [](const DecisionCounts& a, const DecisionCounts& b) { return a.count > b.count; });
  const size_t shown = kind.taken.size() <= kReasonsShown + 1 ? kind.taken.size() : kReasonsShown;
  std::string text;
  uint64_t rest = kind.sum.count;
  for (size_t i = 0; i < shown; ++i) {
    const DecisionCounts& decision = kind.taken[i];
    text += text.empty() ? ": " : ", ";
    if (kind.taken.size() > 1) text += WithThousands(decision.count) + " ";
    text += InWords(decision.name);
    rest -= decision.count;
  }
  if (shown < kind.taken.size()) {
    text += ", " + WithThousands(rest) + " for " + std::to_string(kind.taken.size() - shown) + " other reasons";
  }
  return text;
}

void AppendWrapped(std::vector<std::string>& lines, std::string text, size_t columns) {
  while (text.size() > columns) {
    // Not at the two spaces in front.
    const size_t space = text.rfind(' ', columns);
    if (space == std::string::npos || space < 2) break;
    lines.push_back(text.substr(0, space));
    text = "  " + text.substr(space + 1);
  }
  lines.push_back(std::move(text));
}

}  // namespace

std::string_view DecisionPhrase(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kPhrases), std::end(kPhrases), [name](const Phrase& p) { return p.name == name; });
  return found == std::end(kPhrases) ? std::string_view() : found->text;
}

std::vector<std::string> TransferLines(const std::vector<DecisionCounts>& decisions, size_t columns) {
  Kind promoted;
  Kind aside;
  Kind fetched;
  Kind left;
  Kind skipped;
  Kind kept;
  Kind paid;
  Kind unmapped;
  Kind other;
  Kind verified;
  Kind gave_back;
  Kind unpinned;
  uint64_t after_waiting = 0;
  uint64_t ahead = 0;
  for (const DecisionCounts& decision : decisions) {
    const std::string_view name = decision.name;
    if (decision.count == 0 || !name.starts_with(kEngine)) continue;
    if (name == kSkippedRest) after_waiting = decision.count;
    if (name == kAhead) ahead = decision.count;
    if (name == kAhead) continue;
    AddTo(name.starts_with("transfer.promoted.")     ? promoted
          : name.starts_with("transfer.aside.")      ? aside
          : name == "transfer.fetched"               ? fetched
          : name.starts_with("transfer.left.")       ? left
          : name == kSkipped || name == kSkippedRest ? skipped
          : name.starts_with("transfer.kept.")       ? kept
          : name.starts_with("transfer.paid.")       ? paid
          : name.starts_with("transfer.unmapped.")   ? unmapped
          : IsVerification(name)                     ? verified
          : name == "transfer.gave_back"             ? gave_back
          : name == "transfer.unpinned"              ? unpinned
                                                     : other,
          decision);
  }

  std::vector<std::string> lines;
  const auto say = [&](const std::string& text) { AppendWrapped(lines, text, columns); };
  const auto size = [](const Kind& kind) { return kind.sum.bytes == 0 ? "" : ", " + HumanBytes(kind.sum.bytes); };
  if (promoted.sum.count != 0) {
    say("promoted " + Counted(promoted.sum.count, "copy", "copies") + size(promoted) + Reasons(promoted) +
        (ahead == 0 ? "" : "; " + WithThousands(ahead) + " of them " + InWords(kAhead)));
  }
  if (aside.sum.count != 0) {
    say("left alone " + Counted(aside.sum.count, "copy", "copies") + size(aside) + Reasons(aside));
  }
  if (fetched.sum.count != 0) {
    say("fetched " + Counted(fetched.sum.count, "copy", "copies") + " to the host" + size(fetched) + Reasons(fetched));
  }
  if (left.sum.count != 0) {
    say("left alone " + Counted(left.sum.count, "copy", "copies") + " to the host" + size(left) + Reasons(left));
  }
  if (skipped.sum.count != 0) {
    std::string text = "skipped " + WithThousands(skipped.sum.count) + " of " +
                       Counted(skipped.sum.count + kept.sum.count, "synchronise", "synchronises");
    if (after_waiting != 0) {
      text += ", " + WithThousands(after_waiting) + " of them " + InWords(kSkippedRest);
    }
    say(text);
  }
  if (kept.sum.count != 0) say("kept " + Counted(kept.sum.count, "synchronise", "synchronises") + Reasons(kept));
  if (paid.sum.count != 0) {
    say("waited " + Counted(paid.sum.count, "time", "times") + " for what was owed" +
        (paid.sum.time_ns == 0 ? "" : ", " + HumanTime(paid.sum.time_ns)) + Reasons(paid));
  }
  if (unmapped.sum.count != 0) {
    say("gave back " + Counted(unmapped.sum.count, "piece", "pieces") + " of shared memory" + size(unmapped) +
        (unmapped.sum.time_ns == 0 ? "" : ", " + HumanTime(unmapped.sum.time_ns)) + Reasons(unmapped));
  }
  if (verified.sum.count != 0) {
    say("checked " + Counted(verified.sum.count, "copy", "copies") + Reasons(verified));
  }
  if (gave_back.sum.count != 0) {
    say("the device was short of memory " + Counted(gave_back.sum.count, "time", "times") + Reasons(gave_back));
  }
  if (unpinned.sum.count != 0) {
    say("the program could pin no more memory " + Counted(unpinned.sum.count, "time", "times") + Reasons(unpinned));
  }
  if (other.sum.count != 0) say("also" + Reasons(other));
  return lines;
}

namespace {

// What a pool did with one sort of memory.
struct Pooled {
  Kind served;
  uint64_t behind = 0;  // of those served
  uint64_t moved = 0;   // likewise
  uint64_t grown = 0;   // served with new memory
  Kind left;
  Kind kept;
  Kind freed;
};

// `memory`: "" or "stream-ordered ".
template <typename Say>
void SayPooled(const Pooled& pooled, const std::string& memory, const Say& say) {
  const auto size = [](const Kind& kind) { return kind.sum.bytes == 0 ? "" : ", " + HumanBytes(kind.sum.bytes); };
  const auto counted = [&memory](uint64_t count, const std::string& what) {
    return WithThousands(count) + " " + memory + what + (count == 1 ? "" : "s");
  };
  const Kind& served = pooled.served;
  if (served.sum.count + pooled.grown != 0) {
    std::string text = "served " + WithThousands(served.sum.count) + " of " +
                       counted(served.sum.count + pooled.grown, "allocation") + " from the pool" + size(served);
    if (pooled.behind != 0) text += ", " + WithThousands(pooled.behind) + " of them behind a wait of the device";
    if (pooled.moved != 0) text += ", " + WithThousands(pooled.moved) + " of them from idle memory put together";
    say(text);
  }
  if (pooled.left.sum.count != 0) {
    say("left alone " + counted(pooled.left.sum.count, "allocation") + Reasons(pooled.left));
  }
  if (pooled.kept.sum.count + pooled.freed.sum.count != 0) {
    say("kept " + WithThousands(pooled.kept.sum.count) + " of " +
        Counted(pooled.kept.sum.count + pooled.freed.sum.count, ("freed " + memory + "block").c_str(),
                ("freed " + memory + "blocks").c_str()) +
        size(pooled.kept));
  }
  if (pooled.freed.sum.count != 0) {
    say("freed " + counted(pooled.freed.sum.count, "block") + " for real" + Reasons(pooled.freed));
  }
}

}  // namespace

std::vector<std::string> AllocatorLines(const std::vector<DecisionCounts>& decisions, size_t columns) {
  Pooled device;
  Pooled ordered;
  Kind given_back;
  Kind other;
  uint64_t retried = 0;
  DecisionCounts reserved;
  for (const DecisionCounts& decision : decisions) {
    std::string_view name = decision.name;
    if (decision.count == 0 || !name.starts_with("allocator.")) continue;
    name.remove_prefix(std::string_view("allocator.").size());
    Pooled& pooled = name.starts_with("stream.") ? ordered : device;
    if (&pooled != &device) name.remove_prefix(name.find('.') + 1);
    if (name == "reused.behind" || name == "behind") pooled.behind = decision.count;
    if (name == "moved") pooled.moved = decision.count;
    if (name == "grown") {
      pooled.grown = decision.count;
    } else if (name == "retried") {
      retried = decision.count;
    } else if (name == "reserved") {
      reserved = decision;
    } else {
      AddTo(name.starts_with("reused")                 ? pooled.served
            : name == "behind" || name == "waited"     ? pooled.served
            : name == "moved"                          ? pooled.served
            : name.starts_with("passed")               ? pooled.left
            : name == "parked" || name == "freed"      ? pooled.kept
            : name.starts_with("freed.")               ? pooled.freed
            : name == "trimmed" || name == "reclaimed" ? given_back
                                                       : other,
            decision);
    }
  }

  std::vector<std::string> lines;
  const auto say = [&](const std::string& text) { AppendWrapped(lines, text, columns); };
  if (reserved.count != 0) {
    say("took " + Counted(reserved.count, "block", "blocks") + ", " + HumanBytes(reserved.bytes) + ", in advance");
  }
  SayPooled(device, "", say);
  SayPooled(ordered, "stream-ordered ", say);
  if (given_back.sum.count != 0) {
    say("gave back " + Counted(given_back.sum.count, "block", "blocks") +
        (given_back.sum.bytes == 0 ? "" : ", " + HumanBytes(given_back.sum.bytes)) + Reasons(given_back) +
        (retried == 0 ? "" : "; tried " + Counted(retried, "allocation", "allocations") + " again"));
  }
  if (other.sum.count != 0) say("also" + Reasons(other));
  return lines;
}

}  // namespace slipstream::cli
