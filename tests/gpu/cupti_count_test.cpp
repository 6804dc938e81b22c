// libcupti_count.so against a stand-in CUPTI: which module a call is charged to, the mark, and what is written.

#include <cupti.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

constexpr uint32_t kMalloc = CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020;
constexpr uint32_t kDriverMalloc = CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2;
constexpr uint32_t kLaunch = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000;

template <typename Function>
Function Find(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_NOW);
  if (!handle) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function>(dlsym(handle, name));
}

// Of fake_runtime.cpp.
using DriverCall = int (*)(uint32_t);
using RuntimeWork = int (*)(uint32_t, DriverCall, uint32_t);
using Hook = int (*)(RuntimeWork, uint32_t, DriverCall, uint32_t);

class CuptiCount : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(testing::TempDir()) / ("cupti_count." + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    setenv("CUPTI_COUNT_DIRECTORY", directory_.c_str(), 1);
    setenv("CUPTI_COUNT_LIBCUPTI", FAKE_CUPTI, 1);
    setenv("CUPTI_COUNT_DRIVER", "1", 1);
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

  // Rows of the driver's calls without their counts, and the calls at the exit.
  static std::map<std::string, int> DriverRows(const json& written) {
    std::map<std::string, int> rows;
    for (json row : written["driver"]) {
      const int calls = row["at_exit"];
      row.erase("at_mark");
      row.erase("at_exit");
      rows[row.dump()] += calls;
    }
    return rows;
  }
  static std::string Row(const json& inside, const json& runtime, const json& first, const json& caller, bool behind) {
    return json{{"function", "cuMemAlloc_v2"},
                {"inside", inside},
                {"runtime", runtime},
                {"shared_runtime", runtime == "libcudart.so.13"},
                {"first", first},
                {"caller", caller},
                {"behind_hook", behind}}
        .dump();
  }
  void CountsTheDriver();

  std::filesystem::path directory_;
  int (*shared_)(uint32_t, const char*) = nullptr;
  int (*fixed_)(uint32_t, const char*) = nullptr;
};

void CuptiCount::CountsTheDriver() {
  const auto shared_driver = Find<DriverCall>(FAKE_CUDART, "FakeDriverCall");
  const auto fixed_driver = Find<DriverCall>(FAKE_BLAS, "FakeDriverCall");
  const auto hook_driver = Find<DriverCall>(FAKE_HOOK, "FakeDriverCall");
  const auto shared_work = Find<RuntimeWork>(FAKE_CUDART, "FakeRuntimeWork");
  const auto fixed_work = Find<RuntimeWork>(FAKE_BLAS, "FakeRuntimeWork");
  const auto hook = Find<Hook>(FAKE_HOOK, "FakeHook");
  ASSERT_TRUE(shared_driver && fixed_driver && hook_driver && shared_work && fixed_work && hook);
  // cudaMalloc through the hook, the driver hooked too and not; and past the hook.
  EXPECT_EQ(2, hook(shared_work, kMalloc, shared_driver, kDriverMalloc));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(2, hook(shared_work, kMalloc, hook_driver, kDriverMalloc));
  EXPECT_EQ(2, shared_work(kMalloc, shared_driver, kDriverMalloc));
  // A static runtime, the driver hooked and not.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(2, fixed_work(kMalloc, fixed_driver, kDriverMalloc));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(2, fixed_work(kMalloc, hook_driver, kDriverMalloc));
  Find<void (*)()>(CUPTI_COUNT, "CuptiCountMark")();
  // No runtime at all.
  EXPECT_EQ(1, hook_driver(kDriverMalloc));
  EXPECT_EQ(1, fixed_driver(kDriverMalloc));

  const json written = Written();
  const json none = nullptr;
  const json malloc = "cudaMalloc_v3020";
  const json shared_so = "libcudart.so.13";
  const json fixed_so = "libfakeblas.so";
  const json hook_so = "libslipstream_fake.so";
  const std::map<std::string, int> expected = {
      {Row(malloc, shared_so, shared_so, shared_so, true), 1},  {Row(malloc, shared_so, hook_so, shared_so, true), 3},
      {Row(malloc, shared_so, shared_so, shared_so, false), 1}, {Row(malloc, fixed_so, fixed_so, fixed_so, false), 2},
      {Row(malloc, fixed_so, hook_so, fixed_so, false), 4},     {Row(none, none, hook_so, "main program", false), 1},
      {Row(none, none, fixed_so, fixed_so, false), 1},
  };
  EXPECT_EQ(expected, DriverRows(written));
  for (const json& row : written["driver"]) {
    EXPECT_EQ(row["inside"].is_null() ? 0 : row["at_exit"].get<int>(), row["at_mark"]) << row;
  }
}

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

  CountsTheDriver();

  // A fork of the process writes nothing.
  const pid_t child = fork();
  if (child == 0) _exit(Find<int (*)()>(CUPTI_COUNT, "CuptiCountWrite")());
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, WEXITSTATUS(status));
}

}  // namespace
