// Places in code as numbers: the same place has one number, addresses that are used again do not lie, and what does not
// fit is said to be unknown.

#include "tracer/python/code_sites.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/tracer/fake_python.h"
#include "tests/tracer/pytorch_tree.h"

namespace slipstream::tracer {
namespace {

std::unique_ptr<CodeSites> NewSites(const FakePython& python, const CodeSites::Limits& limits = {}) {
  return std::unique_ptr<CodeSites>(CodeSites::Create(python.layout(), limits));
}

std::string Described(const CodeSites& sites, uint32_t site) {
  CallSite description;
  return sites.Describe(site, &description) ? ToString(description) : "unknown";
}

// The lines from the first one on, one an instruction of two bytes.
std::string Table(const FakePython& python, int instructions, int step = 1) {
  std::string table;
  for (int i = 0; i < instructions; ++i) {
    const char delta = static_cast<char>(i == 0 ? 0 : step);
    switch (python.layout().line_table) {
      case LineTableFormat::kPairs:
        table += i == 0 ? '\0' : '\2';
        table += delta;
        break;
      case LineTableFormat::kRanges:
        table += '\2';
        table += delta;
        break;
      case LineTableFormat::kLocations:
        table += static_cast<char>(0x80 | 13 << 3);
        table += static_cast<char>(delta << 1);
        break;
    }
  }
  return table;
}

class CodeSitesTest : public testing::TestWithParam<uint32_t> {
 protected:
  FakePython python_{GetParam()};
};

TEST_P(CodeSitesTest, APlaceHasOneNumberAndItsLine) {
  const auto sites = NewSites(python_);
  const std::string table = Table(python_, 10);
  const uintptr_t step =
      python_.NewCode({.file = "train.py", .name = "step", .first_line = 7, .table = table, .version = 1});
  const uintptr_t loss =
      python_.NewCode({.file = "loss.py", .name = "loss", .first_line = 7, .table = table, .version = 2});
  const uint32_t first = sites->Intern({step, 0});
  const uint32_t second = sites->Intern({step, 6});
  const uint32_t third = sites->Intern({loss, 6});
  EXPECT_EQ((std::set<uint32_t>{CodeSites::kUnknown, first, second, third}).size(), 4U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sites->Intern({step, 0}), first);
    EXPECT_EQ(sites->Intern({step, 6}), second);
    EXPECT_EQ(sites->Intern({loss, 6}), third);
  }
  EXPECT_EQ(Described(*sites, first), "train.py:7 (step)");
  EXPECT_EQ(Described(*sites, second), "train.py:10 (step)");
  EXPECT_EQ(Described(*sites, third), "loss.py:10 (loss)");
  EXPECT_EQ(sites->size(), 4U);
  EXPECT_EQ(sites->unknown(), 0U);
}

// What exec does in a loop.
TEST_P(CodeSitesTest, TheSameTextCompiledAgainIsTheSamePlace) {
  const auto sites = NewSites(python_);
  const std::string table = Table(python_, 4);
  std::set<uint32_t> found;
  for (uint32_t i = 1; i <= 100; ++i) {
    found.insert(sites->Intern({python_.NewCode({.table = table, .version = i}), 2}));
  }
  EXPECT_EQ(found.size(), 1U);
  EXPECT_EQ(sites->size(), 2U);
}

// Everything that can differ does so alone, at the same address and the same instruction; and before each change the
// place is in the cache.
TEST_P(CodeSitesTest, AnAddressThatIsUsedAgainGivesTheNewPlace) {
  const auto sites = NewSites(python_);
  const std::string near = Table(python_, 10);
  const std::string far = Table(python_, 10, 2);
  const uintptr_t address = python_.New(FakePython::kCodeBytes);
  const struct {
    FakePython::Code code;
    const char* expected;
  } kSteps[] = {
      {{.file = "a.py", .name = "f", .first_line = 1, .table = near}, "a.py:5 (f)"},
      {{.file = "b.py", .name = "f", .first_line = 1, .table = near}, "b.py:5 (f)"},
      {{.file = "b.py", .name = "g", .first_line = 1, .table = near}, "b.py:5 (g)"},
      {{.file = "b.py", .name = "g", .first_line = 3, .table = near}, "b.py:7 (g)"},
      {{.file = "b.py", .name = "g", .first_line = 3, .table = far}, "b.py:11 (g)"},
      {{.file = "a.py", .name = "f", .first_line = 1, .table = near}, "a.py:5 (f)"},
  };
  std::vector<uint32_t> found;
  uint32_t version = 0;
  for (auto [code, expected] : kSteps) {
    code.version = ++version;
    python_.PutCode(address, code);
    found.push_back(sites->Intern({address, 8}));
    EXPECT_EQ(Described(*sites, found.back()), expected);
    EXPECT_EQ(sites->Intern({address, 8}), found.back());
  }
  EXPECT_EQ(found.front(), found.back());
  EXPECT_EQ(std::set<uint32_t>(found.begin(), found.end()).size(), 5U);
}

// The worst case: the code object and all that it points to are where the old ones were, and one thing differs.
TEST_P(CodeSitesTest, TheSameAddressesAllOverWithOtherTextsDoNotLie) {
  const PythonLayout& layout = python_.layout();
  const std::string far = Table(python_, 10, 2);
  const struct {
    uint32_t field;
    uint32_t data;
    std::string text;
    const char* expected;
  } kChanges[] = {
      {layout.code_file, layout.ascii_text, "z", "z.py:5 (f)"},
      {layout.code_qualified_name != kAbsent ? layout.code_qualified_name : layout.code_name, layout.ascii_text, "g",
       "a.py:5 (g)"},
      {layout.code_line_table, kBytesData, far, "a.py:9 (f)"},
  };
  uint32_t version = 0;
  for (const auto& [field, data, text, expected] : kChanges) {
    const auto sites = NewSites(python_);
    const uintptr_t address = python_.NewCode(
        {.file = "a.py", .name = "f", .first_line = 1, .table = Table(python_, 10), .version = ++version});
    EXPECT_EQ(Described(*sites, sites->Intern({address, 8})), "a.py:5 (f)");
    uintptr_t object = 0;
    std::memcpy(&object, reinterpret_cast<const void*>(address + field), sizeof(object));
    std::memcpy(reinterpret_cast<void*>(object + data), text.data(), text.size());
    if (layout.code_version != kAbsent) FakePython::Put(address + layout.code_version, ++version);
    EXPECT_EQ(Described(*sites, sites->Intern({address, 8})), expected);
  }
}

TEST_P(CodeSitesTest, ACodeObjectWithoutAVersionIsComparedByItsText) {
  const auto sites = NewSites(python_);
  const uintptr_t address = python_.New(FakePython::kCodeBytes);
  python_.PutCode(address, {.file = "a.py", .table = Table(python_, 10), .version = 0});
  const uint32_t first = sites->Intern({address, 8});
  EXPECT_EQ(sites->Intern({address, 8}), first);
  python_.PutCode(address, {.file = "b.py", .table = Table(python_, 10), .version = 0});
  EXPECT_EQ(Described(*sites, sites->Intern({address, 8})), "b.py:5 (step)");
}

// What is remembered of a place is believed only where nothing else can be at its address.
TEST_P(CodeSitesTest, ARememberedPlaceDoesNotLie) {
  const auto sites = NewSites(python_);
  const std::string table = Table(python_, 10);
  const uintptr_t address = python_.New(FakePython::kCodeBytes);
  CodeSites::Sight sight = {};
  python_.PutCode(address, {.file = "a.py", .table = table, .version = 1});
  const uint32_t first = sites->Intern({address, 8}, &sight);
  EXPECT_EQ(first, sites->Intern({address, 8}));
  EXPECT_EQ(sites->Intern({address, 8}, &sight), first);
  EXPECT_EQ(Described(*sites, sites->Intern({address, 4}, &sight)), "a.py:3 (step)");
  python_.PutCode(address, {.file = "b.py", .table = table, .version = 2});
  EXPECT_EQ(Described(*sites, sites->Intern({address, 4}, &sight)), "b.py:3 (step)");
  // The same name at the same address. Without a version, which 3.12 and later give while there are any left, the text
  // decides.
  const PythonLayout& layout = python_.layout();
  const uint32_t name_at = layout.code_qualified_name != kAbsent ? layout.code_qualified_name : layout.code_name;
  const uintptr_t name = python_.Text("step");
  for (const auto& [file, version] : {std::pair{"c.py", 3U}, {"d.py", 4U}, {"e.py", 0U}, {"f.py", 0U}, {"g.py", 5U}}) {
    python_.PutCode(address, {.file = file, .table = table, .version = version});
    FakePython::Put(address + name_at, name);
    EXPECT_EQ(Described(*sites, sites->Intern({address, 4}, &sight)), std::string(file) + ":3 (step)");
    EXPECT_EQ(Described(*sites, sites->Intern({address, 4}, &sight)), std::string(file) + ":3 (step)");
  }
}

TEST_P(CodeSitesTest, APlaceThatHadNoSiteIsAskedForAgain) {
  const auto sites = NewSites(python_);
  const uintptr_t address = python_.New(FakePython::kCodeBytes);
  python_.PutCode(address, {.file = "a.py", .table = Table(python_, 10), .version = 1});
  FakePython::Put(address + python_.layout().code_file, python_.Bytes("a.py"));  // no text
  CodeSites::Sight sight = {};
  EXPECT_EQ(sites->Intern({address, 4}, &sight), CodeSites::kUnknown);
  FakePython::Put(address + python_.layout().code_file, python_.Text("a.py"));
  EXPECT_EQ(Described(*sites, sites->Intern({address, 4}, &sight)), "a.py:3 (step)");
}

// More places than the cache has room for: it forgets, the numbers stay.
TEST_P(CodeSitesTest, WhatTheCacheForgetsIsFoundAgain) {
  const auto sites = NewSites(python_, {.cache_rows = 2});
  const std::string table = Table(python_, 100);
  const uintptr_t code = python_.NewCode({.first_line = 1, .table = table, .version = 1});
  std::vector<uint32_t> found;
  for (int i = 0; i < 100; ++i) found.push_back(sites->Intern({code, i * 2}));
  EXPECT_EQ(std::set<uint32_t>(found.begin(), found.end()).size(), 100U);
  for (int i = 99; i >= 0; --i) {
    EXPECT_EQ(sites->Intern({code, i * 2}), found[i]);
    EXPECT_EQ(Described(*sites, found[i]), "train.py:" + std::to_string(i + 1) + " (step)");
  }
}

TEST_P(CodeSitesTest, WhatHasNoRoomIsUnknownAndTheRestStays) {
  const std::string table = Table(python_, 10);
  const auto names = [](int i) { return "file" + std::to_string(i) + ".py"; };
  const struct {
    CodeSites::Limits limits;
    size_t fit;
  } kCases[] = {{{.sites = 4}, 3}, {{.codes = 3}, 3}, {{.bytes = 3 * (8 + 4 + table.size())}, 3}};
  for (const auto& [limits, fit] : kCases) {
    const auto sites = NewSites(python_, limits);
    std::vector<uintptr_t> codes;
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < 6; ++i) {
      codes.push_back(python_.NewCode({.file = names(static_cast<int>(i)), .table = table, .version = i + 1}));
      found.push_back(sites->Intern({codes[i], 0}));
      EXPECT_EQ(found[i] != CodeSites::kUnknown, i < fit) << i;
    }
    EXPECT_EQ(sites->unknown(), 6 - fit);
    for (size_t i = 0; i < fit; ++i) {
      EXPECT_EQ(sites->Intern({codes[i], 0}), found[i]);
      EXPECT_EQ(Described(*sites, found[i]), names(static_cast<int>(i)) + ":1 (step)");
    }
  }
}

TEST_P(CodeSitesTest, ATooLongLineTableHasNoSiteAndTooLongNamesAreCut) {
  const auto sites = NewSites(python_);
  const std::string table(CodeSites::kMaxTableBytes + 1, '\0');
  EXPECT_EQ(sites->Intern({python_.NewCode({.table = table, .version = 1}), 0}), CodeSites::kUnknown);
  EXPECT_EQ(sites->unknown(), 1U);
  const std::string file(CodeSites::kMaxTextBytes + 10, 'x');
  const uintptr_t code = python_.NewCode({.file = file, .table = Table(python_, 1), .version = 2});
  const uint32_t site = sites->Intern({code, 0});
  CallSite description;
  ASSERT_TRUE(sites->Describe(site, &description));
  EXPECT_EQ(description.file, std::string_view(file).substr(10));
  EXPECT_EQ(sites->Intern({code, 0}), site);
}

TEST_P(CodeSitesTest, NumbersThatWereNeverGivenHaveNoDescription) {
  const auto sites = NewSites(python_);
  CallSite description;
  for (const uint32_t site : {CodeSites::kUnknown, 1U, 65535U, 65536U, UINT32_MAX}) {
    EXPECT_FALSE(sites->Describe(site, &description));
    EXPECT_FALSE(sites->IsLibrary(site));
  }
}

TEST_P(CodeSitesTest, WhatIsNoStringHasNoSite) {
  const auto sites = NewSites(python_);
  const uintptr_t code = python_.NewCode({.table = Table(python_, 1), .version = 1});
  FakePython::Put(code + python_.layout().code_file, python_.Bytes("train.py"));
  EXPECT_EQ(sites->Intern({code, 0}), CodeSites::kUnknown);
}

TEST_P(CodeSitesTest, TheSiteOfACallIsTheInnermostOfTheProgram) {
  const auto sites = NewSites(python_);
  const std::string table = Table(python_, 1);
  uint32_t version = 0;
  std::vector<PythonFrame> frames;
  std::vector<uint32_t> found;
  for (const char* file : {"/usr/lib/python3/dist-packages/torch/_tensor.py", "/usr/lib/python3.11/contextlib.py",
                           "model.py", "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", "train.py"}) {
    frames.push_back({python_.NewCode({.file = file, .table = table, .version = ++version}), 0});
  }
  const uint32_t model = sites->InternChosen(frames).site;
  EXPECT_EQ(Described(*sites, model), "model.py:1 (step)");
  EXPECT_EQ(sites->size(), 4U);  // the two outer ones were not looked at
  for (const PythonFrame& frame : frames) found.push_back(sites->Intern(frame));
  EXPECT_EQ(sites->Choose(found), model);
  EXPECT_TRUE(sites->IsLibrary(found[0]));
  EXPECT_FALSE(sites->IsLibrary(model));
  EXPECT_EQ(sites->Choose(std::span(found).first(2)), CodeSites::kUnknown);
  EXPECT_FALSE(sites->ChooseWithin(std::span(found).first(2)).lost);
  // A frame without a number may be the program's: the line of whoever called it is not the call's.
  found.insert(found.begin(), CodeSites::kUnknown);
  EXPECT_EQ(sites->Choose(found), CodeSites::kUnknown);
  EXPECT_TRUE(sites->ChooseWithin(found).lost);
  EXPECT_EQ(sites->InternChosen(std::span(frames).first(2)).site, CodeSites::kUnknown);
  EXPECT_EQ(sites->Choose({}), CodeSites::kUnknown);
}

TEST_P(CodeSitesTest, AnEditablePyTorchIsPassedOver) {
  std::string directory = (std::filesystem::temp_directory_path() / "slipstream-torch-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  MakePyTorchTree(directory + "/src/torch");
  const auto sites = NewSites(python_);
  const std::string table = Table(python_, 1);
  uint32_t version = 0;
  const auto frame = [&](const std::string& file, const char* name) {
    return PythonFrame{python_.NewCode({.file = directory + file, .name = name, .table = table, .version = ++version}),
                       0};
  };
  // The program's own folder is called torch too, and is seen first.
  const PythonFrame own = frame("/torch/train.py", "step");
  EXPECT_EQ(Described(*sites, sites->InternChosen(std::vector{own}).site), directory + "/torch/train.py:1 (step)");
  EXPECT_EQ(sites->pytorch_folder(), "");
  const PythonFrame module = frame("/src/torch/nn/modules/module.py", "Module._call_impl");
  EXPECT_EQ(Described(*sites, sites->InternChosen(std::vector{module, own}).site),
            directory + "/torch/train.py:1 (step)");
  EXPECT_EQ(sites->pytorch_folder(), directory + "/src/torch/");
  EXPECT_TRUE(sites->IsLibrary(sites->Intern(module)));
  EXPECT_FALSE(sites->IsLibrary(sites->Intern(own)));
  EXPECT_FALSE(sites->IsLibrary(sites->Intern(frame("/src/test/test_torch.py", "test"))));
  // Known for good, and for what is seen later.
  std::filesystem::remove_all(directory);
  const PythonFrame engine = frame("/src/torch/autograd/graph.py", "_engine_run_backward");
  const CodeSites::Chosen chosen = sites->InternChosen(std::vector{module, engine, own});
  EXPECT_TRUE(chosen.in_backward);
  EXPECT_EQ(Described(*sites, chosen.site), directory + "/torch/train.py:1 (step)");
}

TEST_P(CodeSitesTest, WithoutRoomForItsLineACallHasNoneAndNotItsCallers) {
  const auto sites = NewSites(python_, {.codes = 1});
  const std::string table = Table(python_, 1);
  const PythonFrame outer = {python_.NewCode({.file = "train.py", .table = table, .version = 1}), 0};
  ASSERT_NE(sites->Intern(outer), CodeSites::kUnknown);
  const PythonFrame inner = {python_.NewCode({.file = "model.py", .table = table, .version = 2}), 0};
  const CodeSites::Chosen chosen = sites->InternChosen(std::vector<PythonFrame>{inner, outer});
  EXPECT_EQ(chosen.site, CodeSites::kUnknown);
  EXPECT_TRUE(chosen.lost);
  EXPECT_EQ(sites->unknown(), 1U);
}

TEST_P(CodeSitesTest, AThreadIsInsideBackwardWhereThatFrameStandsBeforeTheProgramsLine) {
  const auto sites = NewSites(python_);
  const std::string table = Table(python_, 1);
  uint32_t version = 0;
  const auto frame = [&](const char* file, const char* name) {
    return PythonFrame{python_.NewCode({.file = file, .name = name, .table = table, .version = ++version}), 0};
  };
  const PythonFrame ones = frame("/usr/lib/python3/dist-packages/torch/autograd/__init__.py", "_make_grads");
  const PythonFrame backward = frame("/usr/lib/python3/dist-packages/torch/autograd/__init__.py", "backward");
  const PythonFrame tensor = frame("/usr/lib/python3/dist-packages/torch/_tensor.py", "Tensor.backward");
  const PythonFrame train = frame("train.py", "step");
  const PythonFrame hook = frame("hook.py", "hook");

  const std::vector<PythonFrame> in = {ones, backward, tensor, train};
  const CodeSites::Chosen chosen = sites->InternChosen(in);
  EXPECT_EQ(Described(*sites, chosen.site), "train.py:1 (step)");
  EXPECT_TRUE(chosen.in_backward);
  EXPECT_TRUE(sites->InternChosen(std::span(in).first(2)).in_backward);
  EXPECT_EQ(sites->InternChosen(std::span(in).first(2)).site, CodeSites::kUnknown);

  const std::vector<PythonFrame> forward = {tensor, train};
  EXPECT_FALSE(sites->InternChosen(forward).in_backward);
  const std::vector<PythonFrame> from_hook = {hook, backward, tensor, train};
  EXPECT_EQ(Described(*sites, sites->InternChosen(from_hook).site), "hook.py:1 (hook)");
  EXPECT_FALSE(sites->InternChosen(from_hook).in_backward);
}

// Many threads see the same places first, in rows that they fight for, and places that go from address to address.
// Every answer is right, and each place has one number.
TEST_P(CodeSitesTest, ThreadsAgree) {
  constexpr size_t kThreads = 4;
  constexpr size_t kCodes = 40;
  constexpr int kRounds = 200;
  const auto sites = NewSites(python_, {.sites = 4096, .cache_rows = 4});
  const std::string table = Table(python_, 8);
  // Two objects of each text.
  std::vector<uintptr_t> codes;
  for (uint32_t i = 0; i < 2 * kCodes; ++i) {
    const std::string file = "f" + std::to_string(i % kCodes) + ".py";
    codes.push_back(python_.NewCode({.file = file, .table = table, .version = i + 1}));
  }
  std::vector<std::vector<uint32_t>> found(kThreads, std::vector<uint32_t>(codes.size()));
  std::vector<int> changed(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        for (size_t i = 0; i < codes.size(); ++i) {
          const uint32_t site = sites->Intern({codes[(i + t * 7) % codes.size()], 6});
          uint32_t& before = found[t][(i + t * 7) % codes.size()];
          if (round != 0 && before != site) ++changed[t];
          before = site;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(changed[t], 0);
    for (size_t i = 0; i < codes.size(); ++i) {
      EXPECT_EQ(found[t][i], found[0][i % kCodes]);
      EXPECT_EQ(Described(*sites, found[t][i]), "f" + std::to_string(i % kCodes) + ".py:4 (step)");
    }
  }
  EXPECT_EQ(sites->unknown(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Versions, CodeSitesTest, testing::ValuesIn(kPythonVersions),
                         [](const auto& one) { return PythonVersionName(one.param); });

TEST(CodeSitesLimitsTest, LimitsThatMakeNoSenseAreRefused) {
  const PythonLayout& layout = *FindPythonLayout(kPythonVersions[0]);
  EXPECT_EQ(CodeSites::Create(layout, {.cache_rows = 3}), nullptr);
  EXPECT_EQ(CodeSites::Create(layout, {.sites = 0}), nullptr);
  EXPECT_EQ(CodeSites::Create(layout, {.bytes = size_t{1} << 62}), nullptr);
}

}  // namespace
}  // namespace slipstream::tracer
