// Threads that copy: every piece once, in its place, handed over in order, with however many of them.

#include "transfer/copy_workers.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace slipstream::transfer {
namespace {

constexpr size_t kPiece = 4096;

std::vector<char> Source(size_t bytes, uint32_t salt) {
  std::vector<char> source(bytes);
  for (size_t i = 0; i < bytes; ++i) source[i] = static_cast<char>((i * 2654435761U + salt) >> 13);
  return source;
}

// The workers are never destroyed, as in the engine: their threads are there to the end of the process.
CopyWorkers& Workers(int threads) {
  static auto* const all = new std::deque<std::pair<int, CopyWorkers>>();
  for (auto& [count, workers] : *all) {
    if (count == threads) return workers;
  }
  all->emplace_back(std::piecewise_construct, std::forward_as_tuple(threads), std::forward_as_tuple());
  all->back().second.Start(threads);
  return all->back().second;
}

// As the engine goes about it: a place is used again when its piece was handed over.
class Copy {
 public:
  Copy(size_t bytes, uint32_t ahead, uint32_t salt, size_t first_bytes = kPiece)
      : source_(Source(bytes, salt)),
        job_(PieceWork::kIn, salt % 2 == 0 ? Stores::kCached : Stores::kStreaming, source_.data(), bytes, kPiece, ahead,
             first_bytes),
        ahead_(ahead),
        places_(ahead * kPiece) {}

  void Run(CopyWorkers& workers) {
    workers.Run(
        job_, alone_,
        [this](uint32_t piece, bool) {
          EXPECT_LT(piece, handed_over_ + ahead_);  // the place of the one before it is free again
          return piece < give_ ? Place(piece) : nullptr;
        },
        [this](uint32_t first, uint32_t end) {
          EXPECT_EQ(first, handed_over_);
          EXPECT_LT(first, end);
          for (; first < end; ++first) {
            EXPECT_EQ(job_.PlaceOf(first), Place(first));
            arrived_.insert(arrived_.end(), Place(first), Place(first) + job_.BytesOf(first));
          }
          handed_over_ = end;
          return end < leave_;
        });
  }

  bool Whole() const { return arrived_ == source_; }
  bool BeginsRight() const { return std::equal(arrived_.begin(), arrived_.end(), source_.begin()); }
  uint32_t handed_over() const { return handed_over_; }
  const CopyJob& job() const { return job_; }
  // How many places there are, and behind how many pieces the caller has had enough.
  uint32_t give_ = UINT32_MAX;
  uint32_t leave_ = UINT32_MAX;
  bool alone_ = false;

 private:
  char* Place(uint32_t piece) { return places_.data() + piece * kPiece % places_.size(); }

  std::vector<char> source_;
  CopyJob job_;
  const uint32_t ahead_;
  std::vector<char> places_;
  std::vector<char> arrived_;
  uint32_t handed_over_ = 0;
};

class CopyWorkersTest : public ::testing::TestWithParam<int> {};

TEST_P(CopyWorkersTest, EveryPieceArrivesInOrder) {
  for (const size_t bytes : {size_t{1}, kPiece, kPiece + 1, 7 * kPiece, 1000 * kPiece + 17}) {
    for (const uint32_t ahead : {1U, 2U, 9U, CopyJob::kMostAhead}) {
      Copy copy(bytes, ahead, ahead);
      copy.Run(Workers(GetParam()));
      EXPECT_TRUE(copy.Whole()) << bytes << " bytes, " << ahead << " ahead";
      EXPECT_EQ(copy.handed_over(), copy.job().pieces());
    }
  }
}

TEST_P(CopyWorkersTest, TheFirstPieceMayBeShorter) {
  for (const size_t first : {size_t{1}, size_t{17}, kPiece - 1, kPiece}) {
    for (const size_t bytes : {size_t{1}, first, first + 1, first + kPiece, first + kPiece + 1, 40 * kPiece}) {
      Copy copy(bytes, 4, 5, first);
      EXPECT_EQ(copy.job().BytesOf(0), std::min(first, bytes));
      if (bytes > first) {
        EXPECT_EQ(copy.job().OffsetOf(1), first);
      }
      copy.Run(Workers(GetParam()));
      EXPECT_TRUE(copy.Whole()) << bytes << " bytes, " << first << " in the first piece";
      EXPECT_EQ(copy.handed_over(), copy.job().pieces());
    }
  }
}

TEST_P(CopyWorkersTest, WithoutWorkersTheCallerDoesItAll) {
  Copy copy(100 * kPiece, 8, 6);
  copy.alone_ = true;
  copy.Run(Workers(GetParam()));
  EXPECT_TRUE(copy.Whole());
}

TEST_P(CopyWorkersTest, EndsWhereThereIsNoPlace) {
  for (const uint32_t places : {0U, 1U, 5U, 99U}) {
    Copy copy(100 * kPiece, 8, places);
    copy.give_ = places;
    copy.Run(Workers(GetParam()));
    EXPECT_EQ(copy.handed_over(), places);
    EXPECT_TRUE(copy.BeginsRight());
  }
}

TEST_P(CopyWorkersTest, EndsWhereTheCallerHasHadEnough) {
  Copy copy(100 * kPiece, 8, 3);
  copy.leave_ = 20;
  copy.Run(Workers(GetParam()));
  EXPECT_GE(copy.handed_over(), 20U);
  EXPECT_TRUE(copy.BeginsRight());
}

TEST_P(CopyWorkersTest, NobodyTouchesAJobWhoseCallerThrew) {
  CopyWorkers& workers = Workers(GetParam());
  for (int round = 0; round < 50; ++round) {
    auto source = std::make_unique<std::vector<char>>(Source(64 * kPiece, 1));
    auto places = std::make_unique<std::vector<char>>(64 * kPiece);
    auto job =
        std::make_unique<CopyJob>(PieceWork::kIn, Stores::kStreaming, source->data(), source->size(), kPiece, 16);
    const auto place = [&](uint32_t piece, bool) {
      if (piece == 20) throw std::runtime_error("no more");
      return places->data() + piece * kPiece;
    };
    EXPECT_THROW(workers.Run(*job, false, place, [](uint32_t, uint32_t) { return true; }), std::runtime_error);
    job.reset();  // a sanitizer sees who comes late
    places.reset();
    source.reset();
  }
}

TEST_P(CopyWorkersTest, SeveralCallersAtOnce) {
  CopyWorkers& workers = Workers(GetParam());
  std::vector<std::thread> callers;
  for (uint32_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&workers, caller] {
      for (uint32_t round = 0; round < 30; ++round) {
        Copy copy((round * 7 % 40 + 1) * kPiece + caller, 1 + round % 12, caller * 100 + round);
        copy.Run(workers);
        EXPECT_TRUE(copy.Whole()) << "caller " << caller << ", round " << round;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_P(CopyWorkersTest, MoreCallersThanJobsThatWorkersHelpWith) {
  CopyWorkers& workers = Workers(GetParam());
  std::vector<std::thread> callers;
  for (uint32_t caller = 0; caller < 2 * CopyWorkers::kMostJobs; ++caller) {
    callers.emplace_back([&workers, caller] {
      for (uint32_t round = 0; round < 5; ++round) {
        Copy copy(60 * kPiece + caller, 8, caller + round);
        copy.Run(workers);
        EXPECT_TRUE(copy.Whole()) << "caller " << caller << ", round " << round;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Seconds of all threads of the process together.
double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST_P(CopyWorkersTest, WhoFindsNothingToDoSleeps) {
  CopyWorkers& workers = Workers(GetParam());
  std::vector<char> source = Source(20 * kPiece, 4);
  std::vector<char> places(source.size());
  CopyJob job(PieceWork::kIn, Stores::kCached, source.data(), source.size(), kPiece, 4);
  double spent = 0;
  const auto place = [&](uint32_t piece, bool) {
    if (piece == 10) {
      // A caller that is long in finding the next place.
      const double before = ProcessorSeconds();
      const timespec long_time = {.tv_sec = 0, .tv_nsec = 200'000'000};
      nanosleep(&long_time, nullptr);
      spent = ProcessorSeconds() - before;
    }
    return places.data() + piece * kPiece;
  };
  workers.Run(job, false, place, [](uint32_t, uint32_t) { return true; });
  EXPECT_EQ(source, places);
  EXPECT_LT(spent, 0.1);  // one that does not sleep would take 0.2
}

INSTANTIATE_TEST_SUITE_P(Threads, CopyWorkersTest, ::testing::Values(0, 1, 3, 8));

}  // namespace
}  // namespace slipstream::transfer
