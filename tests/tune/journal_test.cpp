// A search that goes on where another one was interrupted, at every line and within lines.

#include "tools/tune/journal.h"

#include <gtest/gtest.h>

#include <random>

namespace slipstream::tune {
namespace {

const std::vector<Knob> kKnobs = {{"a", {"1", "2"}}, {"b", {"\"x\""}}, {"c", {"1"}}};

Subject TheSubject() { return {{"python", "train \"1\".py"}, "threads = 1", "wall", kKnobs}; }

// What a search writes, and where it ends.
struct Written {
  std::string text;
  Settings best;
};

Written Search1(const std::string& begun) {
  Search search(kKnobs, {});
  const Replayed replayed = Replay(begun, TheSubject(), &search);
  EXPECT_EQ(replayed.error, "");
  Written written;
  written.text = replayed.bytes == 0 ? SubjectLine(TheSubject()) : begun.substr(0, replayed.bytes);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> noise(0.999, 1.001);
  // The noise of a pair is that pair's, whoever runs it.
  for (size_t i = 0; i < 2 * replayed.events; ++i) (void)noise(random);
  while (search.next()) {
    const Contest contest = *search.next();
    Event event;
    const auto seconds = [&](const Settings& settings) {
      return compare::Figure{(10.0 - static_cast<double>(settings.size())) * noise(random), 0.001};
    };
    event.figures = {seconds(contest.incumbent), seconds(contest.challenger)};
    if (contest.key == "b" && contest.pair == 1 && contest.stage == Stage::kTrying) {
      event.kind = Event::Kind::kRefused;
      event.why = "exit status 3\nsaid \"no\"";
    }
    if (contest.key == "c" && contest.pair == 0 && contest.stage == Stage::kTrying) event.kind = Event::Kind::kStopped;
    written.text += EventLine(&contest, event);
    if (event.kind == Event::Kind::kPair) search.Add(event.figures);
    if (event.kind == Event::Kind::kRefused) search.Refuse(event.why);
    if (event.kind == Event::Kind::kStopped) search.StopTrying();
  }
  written.best = search.best();
  return written;
}

TEST(JournalTest, GoesOnFromEveryByte) {
  const Written whole = Search1("");
  EXPECT_EQ(whole.best.size(), 1U);
  ASSERT_GT(whole.text.size(), 500U);
  for (size_t bytes = 0; bytes <= whole.text.size(); ++bytes) {
    const Written again = Search1(whole.text.substr(0, bytes));
    ASSERT_EQ(again.text, whole.text) << bytes;
    ASSERT_EQ(again.best, whole.best) << bytes;
  }
}

TEST(JournalTest, NotFromAnotherSearch) {
  const std::string text = Search1("").text;
  for (int i = 0; i < 4; ++i) {
    Subject other = TheSubject();
    if (i == 0) other.command.emplace_back("--epochs");
    if (i == 1) other.policy = "threads = 2";
    if (i == 2) other.ruler = "steps";
    if (i == 3) other.knobs.pop_back();
    Search search(other.knobs, {});
    const Replayed replayed = Replay(text, other, &search);
    EXPECT_NE(replayed.error, "") << i;
    EXPECT_EQ(replayed.events, 0U);
  }
}

TEST(JournalTest, WhatIsNoJournalIsRefused) {
  const std::string first = SubjectLine(TheSubject());
  const std::string good = R"({"contest":{"stage":"trying","key":"a","value":"1","pair":0},)";
  for (const std::string& line :
       {std::string("\n"), std::string("{}\n"), std::string("[1]\n"), std::string("nothing\n"),
        good + R"("incumbent":[1,0],"challenger":[0,0]})" + "\n",
        good + R"("incumbent":[1,0],"challenger":["1",0]})" + "\n", good + R"("incumbent":[1,0]})" + "\n",
        std::string(
            R"({"contest":{"stage":"in_all","key":"","value":"","pair":0},"incumbent":[1,0],"challenger":[1,0]})") +
            "\n"}) {
    Search search(kKnobs, {});
    const Replayed replayed = Replay(first + line, TheSubject(), &search);
    EXPECT_NE(replayed.error.find("line 2: "), std::string::npos) << line;
    EXPECT_EQ(replayed.bytes, first.size());
  }
}

}  // namespace
}  // namespace slipstream::tune
