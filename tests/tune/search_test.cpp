// The search, over programs whose speed under every policy is known, and which are measured with noise.

#include "tools/tune/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace slipstream::tune {
namespace {

// Seconds of a run under a policy.
using Program = std::function<double(const Settings& settings)>;

struct Lab {
  Program program;
  double noise = 0.002;  // standard deviation, as a share
  unsigned seed = 1;
  std::mt19937_64 random{seed};
  size_t pairs = 0;

  compare::FigurePair Run(const Contest& contest) {
    ++pairs;
    std::normal_distribution<double> disturbed(0, noise);
    const auto figure = [&](const Settings& settings) {
      return compare::Figure{program(settings) * std::exp(disturbed(random)), 0};
    };
    return {figure(contest.incumbent), figure(contest.challenger)};
  }
  void RunAll(Search* search) {
    while (search->next()) search->Add(Run(*search->next()));
  }
};

bool Has(const Settings& settings, const std::string& key, const std::string& value) {
  const auto at = settings.find(key);
  return at != settings.end() && at->second == value;
}

const Tried* Find(const Search& search, const std::string& key, const std::string& value) {
  for (const Tried& tried : search.tried()) {
    if (tried.key == key && tried.value == value) return &tried;
  }
  return nullptr;
}

std::vector<Knob> Switches(size_t count) {
  std::vector<Knob> knobs;
  for (size_t i = 0; i < count; ++i) knobs.push_back({"k" + std::to_string(i), {"on"}});
  return knobs;
}

TEST(SearchTest, FindsWhatIsFasterAndNothingElse) {
  const std::vector<Knob> knobs = {
      {"slow", {"on"}}, {"idle", {"1", "2"}}, {"fast", {"on"}}, {"staged", {"1", "2", "3"}}};
  Lab lab{[](const Settings& settings) {
    double seconds = 10;
    if (Has(settings, "slow", "on")) seconds *= 1.10;
    if (Has(settings, "fast", "on")) seconds /= 1.20;
    if (Has(settings, "staged", "1")) seconds /= 1.03;
    if (Has(settings, "staged", "2")) seconds /= 1.08;
    if (Has(settings, "staged", "3")) seconds /= 1.05;
    return seconds;
  }};
  Search search(knobs, {});
  lab.RunAll(&search);
  EXPECT_EQ(search.best(), (Settings{{"fast", "on"}, {"staged", "2"}}));
  ASSERT_TRUE(search.in_all());
  EXPECT_NEAR(search.in_all()->ratio, 1.20 * 1.08, 0.01);
  EXPECT_EQ(Find(search, "slow", "on")->fate, Fate::kSlower);
  EXPECT_EQ(Find(search, "slow", "on")->estimate.pairs, 2U) << "two pairs are enough to see that";
  EXPECT_EQ(Find(search, "idle", "1")->fate, Fate::kNoDifference);
  EXPECT_EQ(Find(search, "staged", "1")->fate, Fate::kSlower) << "than the value that was kept then";
  EXPECT_EQ(Find(search, "staged", "3")->fate, Fate::kSlower);
  const Tried* const staged = Find(search, "staged", "2");
  EXPECT_EQ(staged->fate, Fate::kKept);
  ASSERT_TRUE(staged->confirmed);
  EXPECT_NEAR(staged->confirmed->ratio, 1.08, 0.01);
}

TEST(SearchTest, WhereHigherIsBetter) {
  Lab lab{[](const Settings& settings) { return Has(settings, "k0", "on") ? 130.0 : 100.0; }};
  Search search(Switches(1), {.higher_is_better = true});
  lab.RunAll(&search);
  EXPECT_EQ(search.best(), (Settings{{"k0", "on"}}));
  EXPECT_NEAR(search.in_all()->ratio, 1.3, 0.01);
}

// What one change wins another one may have won already.
TEST(SearchTest, AChangeThatAddsNothingIsNotKept) {
  Lab lab{[](const Settings& settings) { return settings.empty() ? 11.0 : 10.0; }};
  Search search(Switches(3), {});
  lab.RunAll(&search);
  EXPECT_EQ(search.best(), (Settings{{"k0", "on"}}));
}

// A later change may make an earlier one worthless.
TEST(SearchTest, AChangeThatIsNotConfirmedIsTakenOut) {
  Lab lab{[](const Settings& settings) {
    if (Has(settings, "k1", "on")) return 8.0;
    return Has(settings, "k0", "on") ? 9.0 : 10.0;
  }};
  Search search(Switches(2), {});
  lab.RunAll(&search);
  EXPECT_EQ(search.best(), (Settings{{"k1", "on"}}));
  EXPECT_EQ(Find(search, "k0", "on")->fate, Fate::kNotConfirmed);
  EXPECT_NEAR(search.in_all()->ratio, 1.25, 0.01);
}

// Of many changes that do nothing, on a machine with 2 % of noise, some win once.
TEST(SearchTest, PromisesNothingWhereThereIsNothing) {
  constexpr unsigned kSearches = 300;
  unsigned won_once = 0;
  unsigned promised = 0;
  for (unsigned seed = 0; seed < kSearches; ++seed) {
    Lab lab{[](const Settings&) { return 10.0; }, 0.02, seed};
    Search search(Switches(20), {});
    lab.RunAll(&search);
    won_once += std::any_of(search.tried().begin(), search.tried().end(), [](const Tried& tried) {
      return tried.fate == Fate::kNotConfirmed || tried.fate == Fate::kKept;
    });
    promised += search.best().empty() ? 0 : 1;
  }
  EXPECT_GT(won_once, kSearches / 4) << "or this shows nothing";
  EXPECT_LT(promised, kSearches / 20);
}

TEST(SearchTest, ARefusedChangeIsNeverKept) {
  Lab lab{[](const Settings& settings) { return Has(settings, "k0", "on") ? 1.0 : 10.0; }};
  Search search(Switches(2), {});
  search.Add(lab.Run(*search.next()));
  search.Refuse("it printed another loss");
  lab.RunAll(&search);
  EXPECT_TRUE(search.best().empty());
  EXPECT_FALSE(search.in_all());
  EXPECT_EQ(Find(search, "k0", "on")->fate, Fate::kRefused);
  EXPECT_EQ(Find(search, "k0", "on")->why, "it printed another loss");
}

TEST(SearchTest, ARefusalWhileConfirmingTakesItOut) {
  Lab lab{[](const Settings& settings) {
    return 10.0 * (Has(settings, "k0", "on") ? 0.9 : 1) * (Has(settings, "k1", "on") ? 0.9 : 1);
  }};
  Search search(Switches(2), {});
  while (search.next()->stage == Stage::kTrying) search.Add(lab.Run(*search.next()));
  ASSERT_EQ(search.next()->stage, Stage::kConfirming);
  const std::string refused = search.next()->key;
  search.Refuse("killed");
  lab.RunAll(&search);
  EXPECT_EQ(search.best().size(), 1U);
  EXPECT_FALSE(search.best().contains(refused));
}

// The time is over: what there is so far is still confirmed.
TEST(SearchTest, StopsTrying) {
  Lab lab{[](const Settings& settings) { return Has(settings, "k0", "on") ? 8.0 : 10.0; }};
  Search search(Switches(10), {});
  EXPECT_EQ(search.PairsToConfirm(), 0U);
  EXPECT_EQ(search.PairsToConfirmIfKept(), 6U) << "of one change alone only that of all";
  while (search.best().empty()) search.Add(lab.Run(*search.next()));
  EXPECT_EQ(search.PairsToConfirm(), 6U);
  EXPECT_EQ(search.PairsToConfirmIfKept(), 18U) << "each of two, and both";
  search.StopTrying();
  EXPECT_EQ(search.PairsToConfirmIfKept(), 6U) << "nothing more is tried";
  EXPECT_TRUE(search.stopped_early());
  EXPECT_EQ(search.MostPairsToTry(), 0U);
  ASSERT_TRUE(search.next());
  EXPECT_EQ(search.next()->stage, Stage::kInAll);
  const size_t before = lab.pairs;
  lab.RunAll(&search);
  EXPECT_EQ(lab.pairs - before, 6U);
  EXPECT_EQ(search.best(), (Settings{{"k0", "on"}}));
}

TEST(SearchTest, NoMorePairsThanItSays) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Lab lab{[](const Settings& settings) { return 10.0 - 0.2 * static_cast<double>(settings.size()); }, 0.01, seed};
    Search search({{"a", {"1", "2", "3"}}, {"b", {"1"}}, {"c", {"1", "2"}}}, {});
    const size_t most = search.MostPairsToTry();
    EXPECT_EQ(most, 36U);
    while (search.next() && search.next()->stage == Stage::kTrying) {
      const size_t left = search.MostPairsToTry();
      search.Add(lab.Run(*search.next()));
      EXPECT_LT(search.MostPairsToTry(), left);
    }
    EXPECT_LE(lab.pairs, most);
    const size_t to_confirm = search.PairsToConfirm();
    const size_t before = lab.pairs;
    lab.RunAll(&search);
    EXPECT_LE(lab.pairs - before, to_confirm);
    EXPECT_EQ(search.PairsToConfirm(), 0U);
  }
}

// Another value takes the place of the one that was kept.
TEST(SearchTest, AnotherValueOfAKeptKeyIsNoChangeMore) {
  Lab lab{[](const Settings& settings) { return Has(settings, "a", "1") ? 8.0 : 10.0; }};
  Search search({{"a", {"1", "2"}}, {"b", {"1"}}}, {});
  while (search.best().empty()) search.Add(lab.Run(*search.next()));
  ASSERT_EQ(search.next()->value, "2");
  EXPECT_EQ(search.PairsToConfirmIfKept(), 6U);
  while (search.next()->key == "a") search.Add(lab.Run(*search.next()));
  EXPECT_EQ(search.PairsToConfirmIfKept(), 18U);
}

// What an interrupted search was told, told again.
TEST(SearchTest, TheSameMeasurementsLeadToTheSameState) {
  Lab lab{[](const Settings& settings) { return 10.0 - 0.5 * static_cast<double>(settings.size()); }, 0.01};
  Search search(Switches(4), {});
  std::vector<compare::FigurePair> told;
  while (search.next()) {
    Search again(Switches(4), {});
    for (const compare::FigurePair& pair : told) again.Add(pair);
    ASSERT_TRUE(again.next());
    EXPECT_EQ(again.next()->challenger, search.next()->challenger);
    EXPECT_EQ(again.next()->pair, search.next()->pair);
    told.push_back(lab.Run(*search.next()));
    search.Add(told.back());
  }
  EXPECT_EQ(search.best().size(), 4U);
}

TEST(SearchTest, NothingToTry) {
  const Search search({}, {});
  EXPECT_FALSE(search.next());
  EXPECT_TRUE(search.best().empty());
}

}  // namespace
}  // namespace slipstream::tune
