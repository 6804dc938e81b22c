// libcupti_count.so against a stand-in CUPTI: which module a call is charged to, the mark, and what is written.

#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

constexpr uint32_t kMalloc = CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020;
constexpr uint32_t kLaunch = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;

template <typename Function>
Function Find(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW);
  if (!handle) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function>(dlsym(handle, name));
}

class CuptiCount : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(testing::TempDir()) / ("cupti_count." + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    setenv("CUPTI_COUNT_DIRECTORY", directory_.c_str(), 1);
    setenv("CUPTI_COUNT_LIBCUPTI", FAKE_CUPTI, 1);
    ASSERT_EQ(1, Find<int (*)()>(CUPTI_COUNT, "InitializeInjection")());
    shared_ = Find<int (*)(uint32_t, const char*)>(FAKE_CUDART, "FakeRuntimeCall");
    fixed_ = Find<int (*)(uint32_t, const char*)>(FAKE_BLAS, "FakeRuntimeCall");
    ASSERT_TRUE(shared_ && fixed_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  json Written() {
    EXPECT_EQ(1, Find<int (*)()>(CUPTI_COUNT, "CuptiCountWrite")());
    std::ifstream file(directory_ / (std::to_string(getpid()) + ".json"));
    return json::parse(file);
  }
  static json ModuleOf(const json& written, const std::string& name) {
    for (const json& module : written["modules"]) {
      if (module["path"].get<std::string>().find(name) != std::string::npos) return module;
    }
    return json();
  }

  std::filesystem::path directory_;
  int (*shared_)(uint32_t, const char*) = nullptr;
  int (*fixed_)(uint32_t, const char*) = nullptr;
};

// One test: the library keeps its counts for the life of the process.
TEST_F(CuptiCount, ChargesEachCallToTheModuleThatHoldsTheRuntime) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(1, shared_(kMalloc, nullptr));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(1, fixed_(kLaunch, nullptr));
  EXPECT_EQ(1, shared_(kLaunch, nullptr));
  Find<void (*)()>(CUPTI_COUNT, "CuptiCountMark")();
  EXPECT_EQ(1, shared_(kMalloc, nullptr));
  // A name string in another module: the frames decide, and the contradiction shows.
  EXPECT_EQ(1, fixed_(kMalloc, "cudaMalloc"));
  EXPECT_EQ(1, shared_(5000, nullptr));

  const json written = Written();
  EXPECT_EQ("", written["error"]);
  EXPECT_EQ(getpid(), written["pid"]);
  const json shared = ModuleOf(written, "libcudart.so.13");
  const json fixed = ModuleOf(written, "libfakeblas.so");
  ASSERT_FALSE(shared.is_null());
  ASSERT_FALSE(fixed.is_null());
  EXPECT_EQ(true, shared["shared_runtime"]);
  EXPECT_EQ(false, fixed["shared_runtime"]);
  EXPECT_EQ((json{{"at_mark", 3}, {"at_exit", 4}}), shared["functions"]["cudaMalloc_v3020"]);
  EXPECT_EQ((json{{"at_mark", 1}, {"at_exit", 1}}), shared["functions"]["cudaLaunchKernel_v7000"]);
  EXPECT_EQ((json{{"at_mark", 5}, {"at_exit", 5}}), fixed["functions"]["cudaLaunchKernel_v7000"]);
  EXPECT_EQ((json{{"at_mark", 0}, {"at_exit", 1}}), fixed["functions"]["cudaMalloc_v3020"]);
  EXPECT_EQ(2U, written["modules"].size());
  EXPECT_EQ((json{{"cudaMalloc_v3020", 4}, {"cudaLaunchKernel_v7000", 1}}), shared["callers"]["main program"]);
  EXPECT_EQ(1U, shared["callers"].size());
  EXPECT_EQ(10, written["attribution"]["agree"]);
  EXPECT_EQ(1, written["attribution"]["disagree"]);
  EXPECT_EQ(0, written["attribution"]["neither"]);
  EXPECT_EQ(1, written["attribution"]["beyond_table"]);

  // A fork of the process writes nothing.
  const pid_t child = fork();
  if (child == 0) _exit(Find<int (*)()>(CUPTI_COUNT, "CuptiCountWrite")());
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, WEXITSTATUS(status));
}

}  // namespace
