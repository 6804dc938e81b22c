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

// What was measured elsewhere says nothing about this machine.
TEST(JournalTest, NotFromAnotherMachine) {
  const Place here = {.host = "node1", .devices = "2 x NVIDIA H200", .driver = "580.95", .slipstream = "1.0"};
  Subject subject = TheSubject();
  subject.place = here;
  const std::string text = SubjectLine(subject);
  const auto error_of = [&](const Place& place) {
    Subject other = TheSubject();
    other.place = place;
    Search search(other.knobs, {});
    return Replay(text, other, &search).error;
  };
  EXPECT_EQ(error_of(here), "");
  Place place = here;
  place.host = "node2";
  EXPECT_EQ(error_of(place), "line 1: measured on the machine node1, and this is node2");
  place = here;
  place.devices = "NVIDIA H200";
  EXPECT_EQ(error_of(place), "line 1: measured with the GPU 2 x NVIDIA H200, and here it is NVIDIA H200");
  place = here;
  place.driver = "";
  EXPECT_EQ(error_of(place), "line 1: measured with the driver 580.95, and here it is an unknown one");
  place = here;
  place.slipstream = "1.1";
  EXPECT_EQ(error_of(place), "line 1: measured by slipstream 1.0, and this is 1.1");
  Search search(kKnobs, {});
  EXPECT_EQ(Replay("{\"schema\":\"slipstream-tune-journal-1\"}\n", subject, &search).error,
            "line 1: not of this version of slipstream");
}

// The time was over: what had been confirmed then is forgotten, and the rest is tried.
TEST(JournalTest, GoesOnTryingBehindTheEndOfItsTime) {
  const auto event = [](const Contest& contest) {
    return EventLine(&contest, {.figures = {compare::Figure{10, 0}, compare::Figure{9, 0}}});
  };
  Search search({{"a", {"1"}}, {"b", {"1"}}}, {});
  std::string text = SubjectLine(TheSubject());
  while (search.next()->key == "a") {
    text += event(*search.next());
    search.Add({compare::Figure{10, 0}, compare::Figure{9, 0}});
  }
  const size_t tried = text.size();
  text += EventLine(&*search.next(), {.kind = Event::Kind::kStopped});
  search.StopTrying();
  while (search.next()) {
    text += event(*search.next());
    search.Add({compare::Figure{10, 0}, compare::Figure{9, 0}});
  }
  EXPECT_TRUE(search.stopped_early());
  ASSERT_EQ(search.best(), (Settings{{"a", "1"}}));

  Search again({{"a", {"1"}}, {"b", {"1"}}}, {});
  const Replayed replayed = Replay(text, TheSubject(), &again);
  EXPECT_EQ(replayed.error, "");
  EXPECT_TRUE(replayed.stopped);
  EXPECT_EQ(replayed.bytes, tried);
  EXPECT_FALSE(again.stopped_early());
  ASSERT_TRUE(again.next());
  EXPECT_EQ(again.next()->stage, Stage::kTrying);
  EXPECT_EQ(again.next()->key, "b");
  EXPECT_EQ(again.next()->incumbent, (Settings{{"a", "1"}}));
}

TEST(JournalTest, SaysWhatWasTried) {
  const auto knobs = KnobsOf(SubjectLine(TheSubject()) + "more");
  ASSERT_TRUE(knobs);
  ASSERT_EQ(knobs->size(), kKnobs.size());
  for (size_t i = 0; i < knobs->size(); ++i) {
    EXPECT_EQ((*knobs)[i].key, kKnobs[i].key);
    EXPECT_EQ((*knobs)[i].values, kKnobs[i].values);
  }
  for (const char* const text : {"", "{}", "[]\n", "{}\n", "{\"knobs\":1}\n", "{\"knobs\":[{}]}\n",
                                 "{\"knobs\":[{\"key\":\"a\",\"values\":[1]}]}\n"}) {
    EXPECT_FALSE(KnobsOf(text)) << text;
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
