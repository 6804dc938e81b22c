#include "policy/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Variables;

// Puts a list of its own into `environ` while it lives.
class Environ {
 public:
  explicit Environ(char** entries) : before_(environ) { environ = entries; }
  ~Environ() { environ = before_; }
  Environ(const Environ&) = delete;
  Environ& operator=(const Environ&) = delete;

 private:
  char** before_;
};

TEST(Environment, AnswersFromTheMapItWasGiven) {
  const Environment env(Variables{{"A", "1"}, {"B", ""}});
  EXPECT_EQ(env.Get("A"), "1");
  EXPECT_EQ(env.Get("B"), "");
  EXPECT_EQ(env.Get("C"), std::nullopt);
  EXPECT_EQ(env.Get(""), std::nullopt);
  EXPECT_TRUE(env.complete());
}

TEST(Environment, SnapshotsTheProcess) {
  char b[] = "B=2=3";
  char a[] = "A=1";
  char again[] = "A=other";
  char nameless[] = "=x";
  char broken[] = "BROKEN";
  char* entries[] = {b, a, again, nameless, broken, nullptr};
  const Environ guard(entries);
  const Environment env = Environment::FromProcess();
  ASSERT_EQ(env.variables().size(), 2U);
  EXPECT_EQ(env.Get("A"), "1");  // As getenv: the first.
  EXPECT_EQ(env.Get("B"), "2=3");
  EXPECT_EQ(env.Get("BROKEN"), std::nullopt);
  b[2] = '9';
  EXPECT_EQ(env.Get("B"), "2=3");
}

TEST(Environment, AClearedOneIsEmpty) {
  const Environ guard(nullptr);
  EXPECT_TRUE(Environment::FromProcess().variables().empty());
  EXPECT_EQ(EnvironmentValue("PATH"), nullptr);
  EXPECT_FALSE(DisabledByEnvironment());
}

TEST(Environment, ValueIsThatOfTheWholeName) {
  char longer[] = "ABC=1";
  char exact[] = "AB=2";
  char* entries[] = {longer, exact, nullptr};
  const Environ guard(entries);
  EXPECT_STREQ(EnvironmentValue("AB"), "2");
  EXPECT_STREQ(EnvironmentValue("ABC"), "1");
  EXPECT_EQ(EnvironmentValue("A"), nullptr);
}

TEST(Environment, DisabledByAnythingButEmptyAndZero) {
  const auto disabled = [](const char* text) {
    std::string entry = text;
    char* entries[] = {entry.data(), nullptr};
    const Environ guard(entries);
    return DisabledByEnvironment();
  };
  EXPECT_TRUE(disabled("SLIPSTREAM_DISABLE=1"));
  EXPECT_TRUE(disabled("SLIPSTREAM_DISABLE=true"));
  EXPECT_TRUE(disabled("SLIPSTREAM_DISABLE=00"));
  EXPECT_FALSE(disabled("SLIPSTREAM_DISABLE=0"));
  EXPECT_FALSE(disabled("SLIPSTREAM_DISABLE="));
  EXPECT_FALSE(disabled("SLIPSTREAM_DISABLED=1"));
}

}  // namespace
}  // namespace slipstream::policy
