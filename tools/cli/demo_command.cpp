#include "tools/cli/demo_command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <regex>
#include <string_view>
#include <system_error>
#include <vector>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/install.h"
#include "tools/cli/measured_run.h"
#include "tools/text/columns.h"
#include "tools/text/shell.h"

namespace slipstream::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kLabel[] = "[simulated] ";
constexpr size_t kLabelColumns = sizeof kLabel - 1;
constexpr size_t kDemoColumns = text::kLeastColumns;

// Status 3: it has said why there is none. Any other: there is no PyTorch.
constexpr char kTorchProbe[] =
    "import sys, torch, torchvision\n"
    "if not torch.cuda.is_available():\n"
    "    print('PyTorch sees no GPU')\n"
    "    sys.exit(3)\n"
    "print(f'PyTorch {torch.__version__} on {torch.cuda.get_device_name()}')\n";

// The program of the demo.
struct DemoProgram {
  std::vector<std::string> command;      // empty: there is none
  std::vector<std::string> environment;  // NAME=value
  std::string about;                     // the GPU; or why it is simulated
  std::string before = {};               // a variable that the command needs when it is typed, and a space
  bool simulated = false;
};

std::vector<std::string> DemoVariables() {
  const policy::Environment environment = policy::Environment::FromProcess();
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.variables()) variables.push_back(name + "=" + value);
  return variables;
}

// PyTorch's program in *program, or why it cannot be used in its `about`. False: it cannot.
bool FindTorch(DemoProgram* program) {
  const std::string folder = FindShared("demo");
  const MeasuredRun probe = Measure({"python3", "-c", kTorchProbe}, program->environment, {});
  const std::string said = probe.output.substr(0, probe.output.find('\n'));
  const bool runs = probe.started && WIFEXITED(probe.wait_status);
  if (!probe.started) {
    program->about = "no python3";
  } else if (runs && WEXITSTATUS(probe.wait_status) == 3) {
    program->about = policy::Escape(said);
  } else if (!runs || WEXITSTATUS(probe.wait_status) != 0) {
    program->about = "python3 has no PyTorch with torchvision";
  } else if (folder.empty()) {
    program->about = "train_resnet_demo.py is not there";
  } else {
    program->about = policy::Escape(said);
    program->command = {"python3", folder + "/train_resnet_demo.py"};
    return true;
  }
  return false;
}

// The training loop beside a simulated device: in libexec, as the package slipstream-demo has it, or in a build folder.
std::string FindTrainLoop() {
  const fs::path bin = fs::path(OwnExecutable()).parent_path();
  for (const fs::path& place : {bin.parent_path() / "libexec" / "slipstream-demo", bin / "examples"}) {
    const fs::path program = place / "train_loop";
    if (access(program.c_str(), X_OK) == 0) return program.string();
  }
  return "";
}

// How this command is to be called: by its name, where the PATH has it.
std::string NameToType() {
  const std::string own = OwnExecutable();
  const char* const path = policy::EnvironmentValue("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string folder(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    std::error_code error;
    const fs::path found = fs::canonical(folder + "/slipstream", error);
    if (!folder.empty() && !error) return found == own ? "slipstream" : text::InShell(own);
  }
  return text::InShell(own);
}

// The line that brings the simulated device to where this command is.
std::string BringingLine() {
  const fs::path bin = fs::path(OwnExecutable()).parent_path();
  const std::string python = (bin / "python3").string();
  if (bin != "/usr/bin" && access(python.c_str(), X_OK) == 0)
    return text::InShell(python) + " -m pip install 'slipstream[demo]'";
  return "python3 -m venv demo && demo/bin/pip install 'slipstream[demo]' && demo/bin/slipstream demo";
}

DemoProgram FindProgram(const DemoOptions& options) {
  DemoProgram program;
  program.environment = DemoVariables();
  program.about = "--simulated was given";
  if (!options.simulated && FindTorch(&program)) return program;
  program.simulated = true;
  const std::string loop = FindTrainLoop();
  if (loop.empty()) return program;
  program.command = {loop, "--timed"};
  // It finds its device by its run path, but another libcudart that is named there comes first.
  const char* const libraries = policy::EnvironmentValue("LD_LIBRARY_PATH");
  if (libraries == nullptr || libraries[0] == '\0') return program;
  const fs::path folder = fs::path(loop).parent_path();
  const std::string device = (folder.filename() == "examples" ? folder.parent_path() / "sim" : folder).string();
  program.before = "LD_LIBRARY_PATH=" + text::InShell(device) + " ";
  std::erase_if(program.environment, [](const std::string& entry) { return entry.starts_with("LD_LIBRARY_PATH="); });
  program.environment.push_back("LD_LIBRARY_PATH=" + device);
  return program;
}

// Runs it and prints what it printed; what it wrote to standard error comes last. False: it failed, and that was said.
bool ShowRun(const std::string& title, const std::vector<std::string>& command, const DemoProgram& program,
             MeasuredRun* run) {
  std::printf("\n== %s\n$ %s\n", title.c_str(), text::InShell(command).c_str());
  std::fflush(stdout);
  *run = Measure(command, program.environment, {});
  for (const std::string& part : {Shortened(run->output), run->errors})
    std::fputs((program.simulated ? Labeled(part) : part).c_str(), stdout);
  std::fflush(stdout);
  const std::string trouble = TroubleOf(*run, {});
  if (!trouble.empty()) std::fprintf(stderr, "slipstream demo: that command failed: %s\n", trouble.c_str());
  return trouble.empty();
}

// False: they differ, or there are none.
bool SayLosses(const MeasuredRun& bare, const MeasuredRun& under) {
  const std::string losses = Losses(bare.output);
  if (losses.empty() || losses != Losses(under.output)) {
    std::fprintf(stderr, losses.empty()
                             ? "slipstream demo: the program printed no loss\n"
                             : "slipstream demo: the losses differ under slipstream: that must not happen\n");
    return false;
  }
  const std::regex loss("(^|\n)loss");
  const auto count = std::distance(std::sregex_iterator(losses.begin(), losses.end(), loss), {});
  std::printf("\nAll %td simulated losses are identical, digit by digit.\n", count);
  return true;
}

void SayNext(const std::string& own, const DemoProgram& program) {
  std::printf(
      "\nNext: record it, and read where its time goes\n"
      "  %s%s run --record -- %s\n"
      "  %s report\n"
      "  %s advise\n"
      "Then your own program\n"
      "  %s run -- python train.py\n"
      "  %s help tutorial\n",
      program.before.c_str(), own.c_str(), text::InShell(program.command).c_str(), own.c_str(), own.c_str(),
      own.c_str(), own.c_str());
}

// A row of a table that the label makes too long: its first gap gets narrower, the same for all rows of a width.
std::string Narrowed(std::string row, size_t columns) {
  if (row.size() <= columns) return row;
  const size_t over = row.size() - columns;
  const size_t word = std::min(row.find_first_not_of(' '), row.size());
  const size_t gap = row.find(std::string(over + 2, ' '), word);
  return gap == std::string::npos ? row : row.erase(gap, over);
}

}  // namespace

std::string Labeled(const std::string& text) {
  std::string labeled;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(' ') == std::string::npos || line.find("imulated") != std::string::npos) {
      labeled += line + "\n";
      continue;
    }
    const size_t hanging = std::min<size_t>(line.find_first_not_of(' ') + 2, kDemoColumns / 2);
    std::string lines =
        text::WrappedAtSpaces(Narrowed(line, kDemoColumns - kLabelColumns), kDemoColumns - kLabelColumns, hanging);
    for (size_t begin = 0; begin < lines.size(); begin = lines.find('\n', begin) + 1) lines.insert(begin, kLabel);
    labeled += lines;
  }
  return labeled;
}

std::string Shortened(const std::string& text) {
  constexpr size_t kWhole = 14;
  constexpr size_t kEnds = 5;
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  std::string shortened;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines.size() <= kWhole || i < kEnds || i + kEnds >= lines.size()) {
      shortened += std::string(lines[i]) + "\n";
    } else if (i == kEnds) {
      shortened += "...\n";
    }
  }
  return shortened;
}

std::string Losses(const std::string& text) {
  static const std::regex kResult("loss[ =:]+[-+0-9.eEinfa]+|weights [0-9a-f]+");
  std::string losses;
  for (auto found = std::sregex_iterator(text.begin(), text.end(), kResult); found != std::sregex_iterator(); ++found)
    losses += found->str() + "\n";
  return losses;
}

int Demo(const DemoOptions& options) {
  const std::string own = NameToType();
  const DemoProgram program = FindProgram(options);
  if (program.command.empty()) {
    std::fprintf(stderr,
                 "slipstream demo: no GPU here (%s), and no simulated device. This line brings one:\n  %s\n"
                 "  Without a package index, name the file slipstream_demo-*.whl instead.\n",
                 program.about.c_str(), BringingLine().c_str());
    return kFailed;
  }
  if (program.simulated) {
    std::printf(
        "slipstream demo on a simulated device (%s).\n"
        "It shows that slipstream does its work; its figures measure no GPU.\n",
        program.about.c_str());
  } else {
    std::printf("slipstream demo: %s\n", program.about.c_str());
  }
  MeasuredRun bare;
  MeasuredRun under;
  std::vector<std::string> command = {OwnExecutable(), "run", "--"};
  command.insert(command.end(), program.command.begin(), program.command.end());
  if (!ShowRun("1. The program by itself", program.command, program, &bare)) return kFailed;
  if (!ShowRun("2. The same program, unchanged, under slipstream", command, program, &under)) return kFailed;
  if (program.simulated && !SayLosses(bare, under)) return kFailed;
  if (!program.simulated) std::printf("\nFigures of one run each: `%s compare` alternates runs.\n", own.c_str());
  SayNext(own, program);
  return std::fflush(stdout) == 0 ? kSuccess : kFailed;
}

}  // namespace slipstream::cli
