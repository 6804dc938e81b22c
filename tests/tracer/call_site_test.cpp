// Which frame of a stack a call is put down to.

#include "tracer/python/call_site.h"

#include <gtest/gtest.h>

#include <vector>

namespace slipstream::tracer {
namespace {

TEST(CallSiteTest, PyTorchAndTheStandardLibraryArePassedOver) {
  for (const char* file : {
           "/usr/local/lib/python3.11/site-packages/torch/nn/modules/module.py",
           "/opt/venv/lib64/python3.9/site-packages/torch/_tensor.py",
           "/usr/lib/python3/dist-packages/torch/cuda/__init__.py",
           "/usr/lib/python3.12/threading.py",
           "/opt/env/lib/python3.13/concurrent/futures/thread.py",
           "/opt/env/lib/python3.13t/runpy.py",
           "<frozen runpy>",
           "<frozen importlib._bootstrap>",
           "<eval_with_key>.27",
           "/tmp/torchinductor_somebody/x7/cx7abc.py",
       }) {
    EXPECT_TRUE(IsLibraryFile(file)) << file;
  }
}

TEST(CallSiteTest, TheProgramAndOtherPackagesAreNot) {
  for (const char* file : {
           "train.py",
           "",
           "<string>",
           "<stdin>",
           "<ipython-input-3-abc>",
           "/data/torch/train.py",
           "/usr/local/lib/python3.11/site-packages/transformers/trainer.py",
           "/usr/local/lib/python3.11/site-packages/torchvision/io.py",
           "/usr/local/lib/python3.11/dist-packages/lightning/loops.py",
           "/projects/python3.11/train.py",     // no lib
           "/projects/lib/python3.x/train.py",  // no version
           "/projects/lib/python3.11",          // a file of that name
           "/projects/lib/python3.11b/train.py",
       }) {
    EXPECT_FALSE(IsLibraryFile(file)) << file;
  }
}

TEST(CallSiteTest, AFolderThatIsKnownToBePyTorchsIsPassedOver) {
  const std::string_view pytorch = "/data/me/pytorch/torch/";
  EXPECT_TRUE(IsLibraryFile("/data/me/pytorch/torch/nn/modules/module.py", pytorch));
  EXPECT_FALSE(IsLibraryFile("/data/me/pytorch/torch/nn/modules/module.py"));
  for (const char* file : {"/data/me/pytorch/torchgen/gen.py", "/data/me/pytorch/test/test_torch.py",
                           "/data/me/torch/train.py", "/x/data/me/pytorch/torch/x.py"}) {
    EXPECT_FALSE(IsLibraryFile(file, pytorch)) << file;
  }
  EXPECT_TRUE(IsBackwardCall("/data/me/pytorch/torch/autograd/graph.py", "_engine_run_backward", pytorch));
  EXPECT_FALSE(IsBackwardCall("/data/me/pytorch/torch/autograd/graph.py", "_engine_run_backward"));
}

TEST(CallSiteTest, PyTorchsOwnWayIntoItsEngineIsKnown) {
  const std::string torch = "/venv/lib/python3.12/site-packages/torch";
  EXPECT_TRUE(IsBackwardCall(torch + "/autograd/__init__.py", "backward"));
  EXPECT_TRUE(IsBackwardCall(torch + "/autograd/__init__.py", "grad"));
  EXPECT_TRUE(IsBackwardCall(torch + "/autograd/graph.py", "_engine_run_backward"));
  EXPECT_FALSE(IsBackwardCall(torch + "/autograd/__init__.py", "_make_grads"));
  EXPECT_FALSE(IsBackwardCall(torch + "/autograd/graph.py", "saved_tensors_hooks.__init__"));
  EXPECT_FALSE(IsBackwardCall(torch + "/autograd/function.py", "Function.apply"));  // forward
  EXPECT_FALSE(IsBackwardCall(torch + "/autograd/function.py", "backward"));
  EXPECT_FALSE(IsBackwardCall("/data/me/torch/autograd/__init__.py", "backward"));  // the program's own
}

TEST(CallSiteTest, TheInnermostFrameOfTheProgramIsTheSite) {
  const std::vector<std::string_view> files = {
      "/usr/lib/python3/dist-packages/torch/_tensor.py",
      "/usr/lib/python3.11/contextlib.py",
      "model.py",
      "/usr/lib/python3/dist-packages/torch/nn/modules/module.py",
      "train.py",
  };
  EXPECT_EQ(ChooseSite(files), 2U);
  EXPECT_EQ(ChooseSite(std::span(files).first(2)), std::nullopt);
  EXPECT_EQ(ChooseSite({}), std::nullopt);
}

TEST(CallSiteTest, ASiteIsWrittenAsToolsWriteIt) {
  EXPECT_EQ(ToString({.file = "model.py", .function = "Net.forward", .line = 12}), "model.py:12 (Net.forward)");
}

}  // namespace
}  // namespace slipstream::tracer
