// Which folders called torch are PyTorch's.

#include "tracer/python/pytorch_folder.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/tracer/pytorch_tree.h"
#include "tests/tracer/spool_testing.h"

namespace slipstream::tracer {
namespace {

class PyTorchFolderTest : public SpoolTest {
 protected:
  std::string FolderOf(const std::string& file) const { return std::string(PyTorchFolderOf(file)); }
};

TEST_F(PyTorchFolderTest, ItIsKnownByItsFiles) {
  const std::string torch = directory_ + "/src/torch/";
  MakePyTorchTree(torch);
  for (const char* const file : {"_tensor.py", "nn/modules/linear.py", "utils/torch/nobody.py"}) {
    EXPECT_EQ(FolderOf(torch + file), torch) << file;
  }
  for (const char* const file :
       {"/src/torch", "/src/torchgen/gen.py", "/src/test/test_torch.py", "/src/functorch/x.py"}) {
    EXPECT_EQ(FolderOf(directory_ + file), "") << file;
  }
}

TEST_F(PyTorchFolderTest, AFolderOfThatNameAloneIsTheProgramsOwn) {
  const std::string own = directory_ + "/torch/";
  std::filesystem::create_directories(own + "nn/modules");
  EXPECT_EQ(FolderOf(own + "train.py"), "");
  EXPECT_EQ(FolderOf(own + "nn/modules/module.py"), "");
  // And PyTorch may lie in it.
  MakePyTorchTree(own + "torch");
  EXPECT_EQ(FolderOf(own + "torch/nn/x.py"), own + "torch/");
  EXPECT_EQ(FolderOf(own + "train.py"), "");
}

TEST_F(PyTorchFolderTest, EachOfItsFilesCounts) {
  const std::string torch = directory_ + "/torch/";
  for (const char* const file : {"_tensor.py", "nn/modules/module.py", "autograd/function.py"}) {
    MakePyTorchTree(torch);
    EXPECT_EQ(FolderOf(torch + "x.py"), torch);
    std::filesystem::remove(torch + file);
    EXPECT_EQ(FolderOf(torch + "x.py"), "") << file;
  }
}

TEST_F(PyTorchFolderTest, WhatIsNoAbsolutePathIsInNone) {
  MakePyTorchTree(directory_ + "/torch");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  EXPECT_EQ(FolderOf("./torch/x.py"), "");
  EXPECT_EQ(FolderOf("torch/x.py"), "");
  EXPECT_EQ(FolderOf(""), "");
  std::filesystem::current_path(before);
}

TEST_F(PyTorchFolderTest, ErrnoStaysAndNoPathIsTooLong) {
  errno = ERANGE;
  EXPECT_EQ(FolderOf(directory_ + "/torch/x.py"), "");
  EXPECT_EQ(errno, ERANGE);
  std::string longest = directory_;
  while (longest.size() < 8192) longest += "/torch";
  EXPECT_EQ(FolderOf(longest + "/x.py"), "");
}

}  // namespace
}  // namespace slipstream::tracer
