// Names of native code: of the file that was mapped, by its symbols or its debug file's, or none at all.

#include "tools/trace/db/native_places.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/hex_text.h"
#include "tools/trace/db/module_symbols.h"
#include "tracer/python/native_stack.h"

namespace slipstream::trace_db {
namespace {

using tracer::NameTable;
using tracer::NativeFrames;
using tracer::TraceRecord;

// What a walk out of the library says: where it returns to in Hidden and in SymbolsCall.
struct Library {
  std::string build_id;
  uint64_t hidden = 0;
  uint64_t exported = 0;
};
NativeFrames* g_frames = nullptr;
Library* g_library = nullptr;

void Walk() {
  std::array<uint32_t, tracer::kDeepestNative> addresses;
  const tracer::NativeWalk walked = WalkNativeStack(g_frames, addresses);
  for (size_t i = 0; i < walked.frames; ++i) {
    NativeFrames::Address address;
    NativeFrames::Module module;
    if (!g_frames->Describe(addresses[i], &address) || !g_frames->DescribeModule(address.module, &module)) continue;
    if (module.path != SYMBOLS_LIBRARY) continue;
    (g_library->hidden == 0 ? g_library->hidden : g_library->exported) = address.offset;
    g_library->build_id = module.build_id;
  }
}

Library LoadLibrary() {
  Library library;
  const std::unique_ptr<NativeFrames> frames(NativeFrames::Create({}, NativeFrames::Own::kKeep));
  void* const loaded = dlopen(SYMBOLS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(loaded, nullptr);
  if (loaded == nullptr) return library;
  g_frames = frames.get();
  g_library = &library;
  EXPECT_GE(reinterpret_cast<int (*)(void (*)())>(dlsym(loaded, "SymbolsCall"))(Walk), 7);
  g_library = nullptr;
  g_frames = nullptr;
  EXPECT_NE(library.hidden, 0U);
  EXPECT_NE(library.exported, 0U);
  EXPECT_EQ(library.build_id.size(), 20U);
  return library;
}

class NativePlacesTest : public TraceDbTest {
 protected:
  std::string NameAt(const ModuleSymbols& symbols, uint64_t return_address) {
    const auto function = symbols.At(return_address - 1);
    return function ? function->name : "";
  }
  void Do(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

  const Library library_ = LoadLibrary();
};

TEST_F(NativePlacesTest, OfAnyFunctionInTheFile) {
  const auto symbols = ModuleSymbols::Read(SYMBOLS_LIBRARY, library_.build_id, "");
  ASSERT_NE(symbols, nullptr);
  EXPECT_EQ(NameAt(*symbols, library_.hidden), "long symbols::Hidden<long>(void (*)(), long)");
  EXPECT_EQ(NameAt(*symbols, library_.exported), "SymbolsCall");
  EXPECT_TRUE(symbols->Has("SymbolsCall"));
  EXPECT_FALSE(symbols->Has("_PyEval_EvalFrameDefault"));
  EXPECT_EQ(NameAt(*symbols, 1), "");
  EXPECT_EQ(NameAt(*symbols, ~uint64_t{0}), "");
}

TEST_F(NativePlacesTest, OfAFileWithoutSymbolsByItsDebugFile) {
  if (std::system("command -v strip objcopy >/dev/null") != 0) GTEST_SKIP() << "strip and objcopy are not here";
  const std::string stripped = directory_ + "/library.so";
  const std::string id = HexText(library_.build_id);
  const std::string debug = directory_ + "/debug/.build-id/" + id.substr(0, 2);
  std::filesystem::create_directories(debug);
  Do(std::string("strip -s -o ") + stripped + " " + SYMBOLS_LIBRARY);
  Do(std::string("objcopy --only-keep-debug ") + SYMBOLS_LIBRARY + " " + debug + "/" + id.substr(2) + ".debug");
  const auto alone = ModuleSymbols::Read(stripped, library_.build_id, directory_ + "/nothing");
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(NameAt(*alone, library_.hidden), "") << "not that of the function before it";
  EXPECT_EQ(NameAt(*alone, library_.exported), "SymbolsCall");
  const auto with_debug = ModuleSymbols::Read(stripped, library_.build_id, directory_ + "/debug");
  ASSERT_NE(with_debug, nullptr);
  EXPECT_EQ(NameAt(*with_debug, library_.hidden), "long symbols::Hidden<long>(void (*)(), long)");
  // A debug file of something else stays out.
  Do("cp " + std::string(SYMBOLS_OTHER) + " " + debug + "/" + id.substr(2) + ".debug");
  const auto with_other = ModuleSymbols::Read(stripped, library_.build_id, directory_ + "/debug");
  ASSERT_NE(with_other, nullptr);
  EXPECT_EQ(NameAt(*with_other, library_.hidden), "");
}

TEST_F(NativePlacesTest, OfAnotherFileNone) {
  EXPECT_EQ(ModuleSymbols::Read(SYMBOLS_OTHER, library_.build_id, ""), nullptr);
  EXPECT_EQ(ModuleSymbols::Read(directory_ + "/gone.so", library_.build_id, ""), nullptr);
  EXPECT_EQ(ModuleSymbols::Read(directory_, library_.build_id, ""), nullptr);
  EXPECT_EQ(ModuleSymbols::Read("/dev/zero", library_.build_id, ""), nullptr);
  EXPECT_EQ(ModuleSymbols::Read(SYMBOLS_LIBRARY, "", ""), nullptr) << "nobody knows which file it was";
  // Cut anywhere it is one that cannot be read, or has fewer names.
  const std::string whole = tracer::Slurp(SYMBOLS_LIBRARY);
  for (size_t size = 0; size < whole.size(); size += whole.size() / 64) {
    tracer::Spit(directory_ + "/cut.so", whole.substr(0, size));
    const auto symbols = ModuleSymbols::Read(directory_ + "/cut.so", library_.build_id, "");
    if (symbols == nullptr) continue;
    const std::string name = NameAt(*symbols, library_.exported);
    EXPECT_TRUE(name.empty() || name == "SymbolsCall") << name;
  }
}

TraceRecord CallIn(uint64_t at, uint32_t stack) {
  TraceRecord record = CallAt(at, at + 1);
  record.stack = stack;
  return record;
}
constexpr uint32_t Native(uint32_t address) { return tracer::kNativeSpoolSite | address; }
constexpr uint32_t Both(uint32_t python) { return tracer::kBothSpoolStacks | python; }

TEST_F(NativePlacesTest, StacksOfBothKindsInTheDatabase) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Site(1, "train.py", 5, "step");
    spool.Module(1, SYMBOLS_LIBRARY, library_.build_id);
    spool.Module(2, "/data/libcublas.so.13", "\x01\xff");
    spool.Module(3, "/data/libother.so", "");
    spool.Address(1, 1, library_.hidden);
    spool.Address(2, 2, 0x1234);
    spool.Address(3, 3, 0x55);
    spool.Address(4, 0, 0x7f0000001000);
    spool.Stack(2, 0, 1);          // Python's
    spool.Stack(3, 1, Native(1));  // native, and cut
    spool.Stack(4, 3, Native(2));
    spool.Stack(5, 4, Both(2));  // both
    spool.Stack(6, 0, Native(3));
    spool.Stack(7, 6, Native(4));
    spool.Stack(8, 7, Native(99));  // damage
    spool.Thread(1, 100, "python");
    spool.Records(1, {CallIn(10, 2), CallIn(20, 4), CallIn(30, 5), CallIn(40, 7), CallIn(50, 8), CallIn(60, 0)});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("WITH RECURSIVE frames(call, level, id) AS (SELECT correlationId, 0, nativeStackId FROM "
                  "SLIPSTREAM_CALLS UNION ALL SELECT call, level + 1, parentId FROM frames JOIN SLIPSTREAM_STACKS ON "
                  "stackId = id) SELECT call, name, isFunction, isCut, siteId FROM frames JOIN SLIPSTREAM_STACKS ON "
                  "stackId = id JOIN SLIPSTREAM_ADDRESSES USING (addressId) ORDER BY call, level"),
            (Rows{{"2", "libcublas.so.13+0x1234", "0", "0", "NULL"},
                  {"2", "long symbols::Hidden<long>(void (*)(), long)", "1", "1", "NULL"},
                  {"3", "libcublas.so.13+0x1234", "0", "0", "NULL"},
                  {"3", "long symbols::Hidden<long>(void (*)(), long)", "1", "1", "NULL"},
                  {"4", "0x7f0000001000", "0", "0", "NULL"},
                  {"4", "libother.so+0x55", "0", "0", "NULL"},
                  {"5", "0x0", "0", "0", "NULL"},
                  {"5", "0x7f0000001000", "0", "0", "NULL"},
                  {"5", "libother.so+0x55", "0", "0", "NULL"}}));
  EXPECT_EQ(
      Query("SELECT correlationId, line, addressId FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_STACKS s USING (stackId) "
            "JOIN SLIPSTREAM_SITES ON SLIPSTREAM_SITES.siteId = s.siteId"),
      (Rows{{"1", "5", "NULL"}, {"3", "5", "NULL"}}));
  // Without Python the call is the innermost function's that is not CUDA's, or at no known place.
  EXPECT_EQ(Query("SELECT correlationId, file, line, function FROM SLIPSTREAM_CALLS JOIN SLIPSTREAM_SITES USING "
                  "(siteId) ORDER BY correlationId"),
            (Rows{{"2", SYMBOLS_LIBRARY, "NULL", "long symbols::Hidden<long>(void (*)(), long)"},
                  {"4", "/data/libother.so", "NULL", "libother.so+0x55"}}))
      << "the fifth's innermost function is not known, and may be the one";
  EXPECT_EQ(Query("SELECT path, buildId, isRead, isInterpreter FROM SLIPSTREAM_MODULES ORDER BY isRead, path"),
            (Rows{{"/data/libcublas.so.13", "01ff", "0", "0"},
                  {"/data/libother.so", "NULL", "0", "0"},
                  {SYMBOLS_LIBRARY, HexText(library_.build_id), "1", "0"}}));
}

// A stack that stands for two is of two that are there, one of each kind.
TEST_F(NativePlacesTest, OfWhatIsNoStackNothingIsBelieved) {
  for (const auto& [parent, site] : std::vector<std::pair<uint32_t, uint32_t>>{
           {4, Both(9)}, {0, Both(2)}, {2, Both(2)}, {3, Both(3)}, {4, Both(4)}, {9, Native(1)}}) {
    {
      HandSpool spool(run_, "a.spool");
      spool.Site(1, "train.py", 5, "step");
      spool.Stack(2, 0, 1);
      spool.Stack(3, 0, Native(1));
      spool.Stack(4, 3, Native(1));
      spool.Stack(5, parent, site);
      spool.Thread(1, 100, "python");
      spool.Records(1, {CallIn(10, 5)});
      spool.End();
    }
    const BuildResult result = Build();
    ASSERT_EQ(result.problem, BuildProblem::kNone) << result.what;
    EXPECT_EQ(result.processes[0].end.malformed_chunks, 1U) << parent << " " << site;
    EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS WHERE stackId IS NOT NULL OR nativeStackId IS NOT NULL"), "0");
    std::filesystem::remove(database_);
    std::filesystem::remove(run_ + "/a.spool");
  }
}

TEST(IsCudaLibraryTest, ByTheNameOfTheFile) {
  for (const char* path :
       {"/usr/lib/libcuda.so.1", "libcudart.so.13", "/a/libcudart-0123.so.12", "/x/libcublasLt.so.13",
        "/x/libcudnn_ops.so.9", "/x/libnccl.so.2", "/x/libcupti.so.13", "/x/libnvidia-ml.so.1"}) {
    EXPECT_TRUE(IsCudaLibrary(path)) << path;
  }
  for (const char* path :
       {"", "/opt/cuda/program", "/x/libtorch_cuda.so", "/libcuda.so.1/libwork.so", "/x/libc10_cuda.so"}) {
    EXPECT_FALSE(IsCudaLibrary(path)) << path;
  }
}

}  // namespace
}  // namespace slipstream::trace_db
