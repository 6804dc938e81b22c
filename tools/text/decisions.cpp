#include "tools/text/decisions.h"

#include <algorithm>
#include <span>

#include "allocator/decision.h"
#include "tools/text/text.h"
#include "transfer/decision.h"

namespace slipstream::text {
namespace {

using tracer::DecisionCounts;

// Of either engine; null: this build knows no such decision.
const policy::DecisionText* FindDecision(std::string_view name) {
  using Texts = std::span<const policy::DecisionText>;
  for (const Texts texts : {Texts(transfer::kDecisionTexts), Texts(allocator::kDecisionTexts)}) {
    for (const policy::DecisionText& text : texts) {
      if (name == text.name) return &text;
    }
  }
  return nullptr;
}

constexpr size_t kReasonsShown = 5;
constexpr std::string_view kEngine = "transfer.";
constexpr std::string_view kSkipped = "transfer.sync.skipped";
constexpr std::string_view kSkippedRest = "transfer.sync.skipped.rest";
constexpr std::string_view kAhead = "transfer.h2d.ahead";
constexpr std::string_view kMirrored = "transfer.h2d.mirrored";
constexpr std::string_view kRanOn = "transfer.sync.ran_on";

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

// "; 3 of them ...", of what is a part of a sum that was said.
std::string OfThem(uint64_t count, std::string_view name) {
  return count == 0 ? "" : "; " + WithThousands(count) + " of them " + InWords(name);
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

bool IsSumOfTimes(std::string_view name) {
  return name == kRanOn || name == "allocator.driver.allocated" || name.starts_with("allocator.spared.");
}

std::string_view DecisionPhrase(std::string_view name) {
  const policy::DecisionText* const text = FindDecision(name);
  return text != nullptr ? text->phrase : "";
}

std::string_view DecisionMeaning(std::string_view name) {
  const policy::DecisionText* const text = FindDecision(name);
  return text != nullptr ? text->meaning : "";
}

std::vector<std::string> TransferLines(const std::vector<DecisionCounts>& decisions, size_t columns) {
  Kind promoted_h2d;
  Kind declined_h2d;
  Kind promoted_d2h;
  Kind declined_d2h;
  Kind skipped;
  Kind kept;
  Kind settled;
  Kind unmapped;
  Kind reused;
  Kind other;
  Kind verified;
  Kind gave_back;
  Kind unpinned;
  Kind ran_on;
  uint64_t after_waiting = 0;
  uint64_t ahead = 0;
  uint64_t mirrored = 0;
  for (const DecisionCounts& decision : decisions) {
    const std::string_view name = decision.name;
    if (decision.count == 0 || !name.starts_with(kEngine)) continue;
    if (name == kSkippedRest) after_waiting = decision.count;
    if (name == kAhead) ahead = decision.count;
    if (name == kMirrored) mirrored = decision.count;
    if (name == kAhead || name == kMirrored) continue;
    AddTo(name.starts_with("transfer.h2d.promoted.")   ? promoted_h2d
          : name.starts_with("transfer.h2d.declined.") ? declined_h2d
          : name == "transfer.d2h.promoted"            ? promoted_d2h
          : name.starts_with("transfer.d2h.declined.") ? declined_d2h
          : name == kSkipped || name == kSkippedRest   ? skipped
          : name.starts_with("transfer.sync.kept.")    ? kept
          : name.starts_with("transfer.sync.settled.") ? settled
          : name == kRanOn                             ? ran_on
          : name.starts_with("transfer.unmapped.")     ? unmapped
          : name == "transfer.host.reused"             ? reused
          : IsVerification(name)                       ? verified
          : name == "transfer.gave_back"               ? gave_back
          : name == "transfer.unpinned"                ? unpinned
                                                       : other,
          decision);
  }

  std::vector<std::string> lines;
  const auto say = [&](const std::string& text) { AppendWrapped(lines, text, columns); };
  const auto size = [](const Kind& kind) { return kind.sum.bytes == 0 ? "" : ", " + HumanBytes(kind.sum.bytes); };
  if (promoted_h2d.sum.count != 0) {
    say("promoted " + Counted(promoted_h2d.sum.count, "copy", "copies") + " to the device" + size(promoted_h2d) +
        Reasons(promoted_h2d) + OfThem(ahead, kAhead) + OfThem(mirrored, kMirrored));
  }
  if (declined_h2d.sum.count != 0) {
    say("declined " + Counted(declined_h2d.sum.count, "copy", "copies") + " to the device" + size(declined_h2d) +
        Reasons(declined_h2d));
  }
  if (promoted_d2h.sum.count != 0) {
    say("promoted " + Counted(promoted_d2h.sum.count, "copy", "copies") + " to the host" + size(promoted_d2h) +
        Reasons(promoted_d2h));
  }
  if (declined_d2h.sum.count != 0) {
    say("declined " + Counted(declined_d2h.sum.count, "copy", "copies") + " to the host" + size(declined_d2h) +
        Reasons(declined_d2h));
  }
  if (skipped.sum.count != 0) {
    std::string text = "skipped " + WithThousands(skipped.sum.count) + " of " +
                       Counted(skipped.sum.count + kept.sum.count, "synchronization", "synchronizations");
    if (after_waiting != 0) {
      text += ", " + WithThousands(after_waiting) + " of them " + InWords(kSkippedRest);
    }
    say(text);
  }
  if (ran_on.sum.count != 0) {
    say(WithThousands(ran_on.sum.count) + " skipped " + (ran_on.sum.count == 1 ? "wait was" : "waits were") + " " +
        InWords(kRanOn) + ": threads ran on for at least " + HumanTime(ran_on.sum.time_ns) + " meanwhile");
  }
  if (kept.sum.count != 0)
    say("kept " + Counted(kept.sum.count, "synchronization", "synchronizations") + Reasons(kept));
  if (settled.sum.count != 0) {
    say("waited " + Counted(settled.sum.count, "time", "times") + " for skipped synchronizations" +
        (settled.sum.time_ns == 0 ? "" : ", " + HumanTime(settled.sum.time_ns)) + Reasons(settled));
  }
  if (unmapped.sum.count != 0) {
    say("gave back " + Counted(unmapped.sum.count, "piece", "pieces") + " of shared memory" + size(unmapped) +
        (unmapped.sum.time_ns == 0 ? "" : ", " + HumanTime(unmapped.sum.time_ns)) + Reasons(unmapped));
  }
  if (reused.sum.count != 0) {
    say("reused " + Counted(reused.sum.count, "block", "blocks") + " of host memory" + size(reused) + Reasons(reused));
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

// What the pool did.
struct Pooled {
  Kind served;
  uint64_t behind = 0;  // of those served
  uint64_t grown = 0;   // served with new memory
  Kind left;
  Kind kept;
  Kind freed;
};

template <typename Say>
void SayPooled(const Pooled& pooled, const Say& say) {
  const auto size = [](const Kind& kind) { return kind.sum.bytes == 0 ? "" : ", " + HumanBytes(kind.sum.bytes); };
  const Kind& served = pooled.served;
  if (served.sum.count + pooled.grown != 0) {
    std::string text = "served " + WithThousands(served.sum.count) + " of " +
                       Counted(served.sum.count + pooled.grown, "allocation", "allocations") + " from the pool" +
                       size(served);
    if (pooled.behind != 0) text += ", " + WithThousands(pooled.behind) + " of them behind a wait of the device";
    say(text);
  }
  if (pooled.left.sum.count != 0) {
    say("left alone " + Counted(pooled.left.sum.count, "allocation", "allocations") + Reasons(pooled.left));
  }
  if (pooled.kept.sum.count + pooled.freed.sum.count != 0) {
    say("kept " + WithThousands(pooled.kept.sum.count) + " of " +
        Counted(pooled.kept.sum.count + pooled.freed.sum.count, "freed block", "freed blocks") + size(pooled.kept));
  }
  if (pooled.freed.sum.count != 0) {
    say("freed " + Counted(pooled.freed.sum.count, "block", "blocks") + " for real" + Reasons(pooled.freed));
  }
}

}  // namespace

std::vector<std::string> AllocatorLines(const std::vector<DecisionCounts>& decisions, size_t columns) {
  Pooled pooled;
  Kind given_back;
  Kind other;
  uint64_t retried = 0;
  DecisionCounts reserved;
  for (const DecisionCounts& decision : decisions) {
    std::string_view name = decision.name;
    if (decision.count == 0 || !name.starts_with("allocator.")) continue;
    if (IsSumOfTimes(name)) continue;  // of which the summary makes what the pool gained (summary_gains.h)
    name.remove_prefix(std::string_view("allocator.").size());
    if (name == "reused.behind") pooled.behind = decision.count;
    if (name == "grown") {
      pooled.grown = decision.count;
    } else if (name == "retried") {
      retried = decision.count;
    } else if (name == "reserved") {
      reserved = decision;
    } else {
      AddTo(name.starts_with("reused")                 ? pooled.served
            : name.starts_with("passed")               ? pooled.left
            : name == "parked"                         ? pooled.kept
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
  SayPooled(pooled, say);
  if (given_back.sum.count != 0) {
    say("gave back " + Counted(given_back.sum.count, "block", "blocks") +
        (given_back.sum.bytes == 0 ? "" : ", " + HumanBytes(given_back.sum.bytes)) + Reasons(given_back) +
        (retried == 0 ? "" : "; tried " + Counted(retried, "allocation", "allocations") + " again"));
  }
  if (other.sum.count != 0) say("also" + Reasons(other));
  return lines;
}

}  // namespace slipstream::text
