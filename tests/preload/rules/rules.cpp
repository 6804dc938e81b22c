#include "tests/preload/rules/rules.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <semaphore>
#include <thread>

#include "tracer/counters/counter_reader.h"

namespace rules {
namespace {

constexpr char kStartedWith[] = "RULES_STARTED_WITH";  // ":NAME:NAME:"

std::map<std::string, uint64_t> Decisions() {
  const char* const directory = std::getenv("SLIPSTREAM_RUN_DIRECTORY");
  std::map<std::string, uint64_t> decisions;
  if (!Engine() || directory == nullptr) {
    return decisions;
  }
  std::vector<std::string> problems;
  for (const auto& process : slipstream::tracer::ReadRunDirectory(directory, &problems)) {
    if (process.pid != getpid()) {
      continue;
    }
    for (const auto& decision : process.decisions) {
      decisions[decision.name] = decision.count;
    }
  }
  return decisions;
}

}  // namespace

bool Engine() {
  static const bool there = std::getenv("RULES_ENGINE") != nullptr;
  return there;
}

const char* StartedWith(const char* name) {
  const char* const names = std::getenv(kStartedWith);
  const bool is_there = names != nullptr && std::strstr(names, (":" + std::string(name) + ":").c_str()) != nullptr;
  return is_there ? std::getenv(name) : nullptr;
}

void StartWith(const char* name, const char* value) {
  if (StartedWith(name) != nullptr) return;
  const char* const names = std::getenv(kStartedWith);
  setenv(name, value, 1);
  setenv(kStartedWith, ((names != nullptr ? names : ":") + std::string(name) + ":").c_str(), 1);
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  std::fflush(nullptr);
  execl("/proc/self/exe", "/proc/self/exe", filter.c_str(), "--gtest_brief=1", static_cast<char*>(nullptr));
  std::perror("/proc/self/exe");
  std::_Exit(1);
}

Tally::Tally(std::string engine) : prefix_(std::move(engine) + "."), before_(Decisions()) {}

uint64_t Tally::Of(const std::string& name) const {
  const auto now = Decisions();
  const auto found = now.find(prefix_ + name);
  if (found == now.end()) {
    ADD_FAILURE() << "the library counts no decision named " << name;
    return 0;
  }
  const auto before = before_.find(found->first);
  return found->second - (before != before_.end() ? before->second : 0);
}

uint64_t Tally::OfAll(const std::string& prefix) const {
  uint64_t sum = 0;
  for (const auto& [name, count] : Decisions()) {
    if (name.rfind(prefix_ + prefix, 0) == 0) {
      const auto before = before_.find(name);
      sum += count - (before != before_.end() ? before->second : 0);
    }
  }
  return sum;
}

std::string Tally::Text() const {
  std::string text = "; decided:";
  for (const auto& [name, count] : Decisions()) {
    const auto before = before_.find(name);
    if (const uint64_t since = count - (before != before_.end() ? before->second : 0); since != 0) {
      text += " " + name + "=" + std::to_string(since);
    }
  }
  return text;
}

::testing::AssertionResult Holds(const void* device, const std::vector<uint8_t>& bytes, size_t count) {
  count = std::min(count, bytes.size());
  const auto* now = static_cast<const uint8_t*>(simDevicePointer(device, count));
  if (now == nullptr) {
    return ::testing::AssertionFailure() << "no device memory";
  }
  if (std::memcmp(now, bytes.data(), count) == 0) return ::testing::AssertionSuccess();
  size_t i = 0;
  while (now[i] == bytes[i] && i + 1 < count) ++i;
  return ::testing::AssertionFailure() << "byte " << i << " of " << count << " is " << int{now[i]} << " and not "
                                       << int{bytes[i]};
}

::testing::AssertionResult HoldsOnly(const void* device, uint8_t value, size_t count) {
  return Holds(device, std::vector<uint8_t>(count, value));
}

void OnAnotherThread(const std::function<void()>& work, int device) {
  std::thread thread([&work, device] {
    EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
    work();
  });
  thread.join();
}

std::chrono::seconds Patience() { return std::chrono::seconds(std::getenv("RULES_BROKEN") != nullptr ? 3 : 20); }

void LimitTime() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  int seconds = 300;  // the slowest takes 40 s of a processor, which it may have to share
#else
  int seconds = 60;
#endif
  // Where a hang is what is looked for (run_rules), it need not be waited for as long.
  if (const char* const given = std::getenv("RULES_SECONDS"); given != nullptr) seconds = std::atoi(given);
  // A sanitizer allocates while the thread begins: a test that forked meanwhile would have its lock in the child.
  std::binary_semaphore begun{0};
  std::thread([seconds, &begun] {
    begun.release();
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    std::fprintf(stderr, "stuck for %d s\n", seconds);
    _exit(1);
  }).detach();
  begun.acquire();
}

}  // namespace rules
