// What is said of a file without reading it must be what its records say.

#include "tracer/spool/spool_outcome.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/tracer/spool_testing.h"

namespace slipstream::tracer {
namespace {

class SpoolOutcomeTest : public SpoolTest {
 protected:
  std::string Make(uint64_t calls, uint32_t ring = 1U << 16) const {
    RecorderOptions options = {.directory = directory_};
    options.ring_records = ring;
    const std::unique_ptr<Recorder> recorder = StartRecorder(options);
    for (uint64_t i = 0; i < calls; ++i) recorder->Record(NumberedCall(i));
    EXPECT_TRUE(recorder->Finish(kForeverNs));
    return OnlySpool();
  }
  static void ExpectAsRead(const SpoolOutcome& outcome, const std::string& path) {
    const Spool spool = ReadSpool(path);
    EXPECT_EQ(outcome.problem, "");
    EXPECT_EQ(outcome.records, spool.records.size());
    EXPECT_EQ(outcome.dropped, spool.end().dropped);
    EXPECT_EQ(outcome.complete, spool.end().complete);
    EXPECT_EQ(outcome.reason, spool.end().reason);
    EXPECT_EQ(outcome.left_why, spool.end().left_why);
    EXPECT_EQ(outcome.later_calls_known, spool.end().later_calls_known);
    EXPECT_EQ(outcome.bytes, std::filesystem::file_size(path));
    EXPECT_EQ(outcome.has_calls, !spool.Of(RecordKind::kCall).empty());
  }
};

TEST_F(SpoolOutcomeTest, OfAFinishedFileLargeOrSmall) {
  const std::string small = Make(10);
  ExpectAsRead(OutcomeOf(small), small);
  std::filesystem::remove(small);
  const std::string large = Make(20'000);
  ExpectAsRead(OutcomeOf(large), large);
  std::filesystem::remove(large);
  const std::string dropping = Make(200'000, 8);
  ExpectAsRead(OutcomeOf(dropping), dropping);
  EXPECT_GT(OutcomeOf(dropping).dropped, 0U);
}

TEST_F(SpoolOutcomeTest, OfAFileWithoutACall) {
  const std::string path = Make(0);
  ExpectAsRead(OutcomeOf(path), path);
  EXPECT_FALSE(OutcomeOf(path).has_calls);
  EXPECT_TRUE(OutcomeOf(path).complete);
}

TEST_F(SpoolOutcomeTest, OfAFileThatIsCutAnywhereNearItsEnd) {
  const std::string path = Make(20'000);
  const std::string whole = Slurp(path);
  for (const size_t less :
       {size_t{1}, size_t{8}, size_t{24}, kEndBytes - 1, kEndBytes, kEndBytes + 1, size_t{100}, size_t{70'000}}) {
    Spit(path, whole.substr(0, whole.size() - less));
    EXPECT_FALSE(OutcomeOf(path).complete) << less;
    ExpectAsRead(OutcomeOf(path), path);
  }
  // An end that is damaged, and one that says more than there is behind it.
  std::string damaged = whole;
  damaged[damaged.size() - 20] ^= 1;
  Spit(path, damaged);
  EXPECT_FALSE(OutcomeOf(path).complete);
  EXPECT_NE(OutcomeOf(path).left_why, "");
}

TEST_F(SpoolOutcomeTest, OfAFileThatIsDamagedInItsMidst) {
  const std::string path = Make(10);
  EXPECT_FALSE(OutcomeOf(path).damaged);
  DamageChunk(path, 0);
  ExpectAsRead(OutcomeOf(path), path);
  EXPECT_TRUE(OutcomeOf(path).damaged);
  EXPECT_TRUE(OutcomeOf(path).complete);
}

TEST_F(SpoolOutcomeTest, OfWhatIsNoSpool) {
  EXPECT_NE(OutcomeOf(directory_ + "/none").problem, "");
  Spit(directory_ + "/text.spool", std::string(1000, 'x'));
  EXPECT_NE(OutcomeOf(directory_ + "/text.spool").problem, "");
}

}  // namespace
}  // namespace slipstream::tracer
