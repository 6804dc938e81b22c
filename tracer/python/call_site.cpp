#include "tracer/python/call_site.h"

#include <cctype>

namespace slipstream::tracer {
namespace {

// Of "/usr/lib/python3.11/threading.py" what is behind "python3.11/"; none for another file. The folder in front of it
// is called lib, or lib64.
std::optional<std::string_view> BehindPythonFolder(std::string_view file) {
  for (size_t at = 0; (at = file.find("/python3.", at)) != std::string_view::npos; ++at) {
    const std::string_view before = file.substr(0, at);
    size_t end = at + std::string_view("/python3.").size();
    const size_t digits = end;
    while (end < file.size() && std::isdigit(static_cast<unsigned char>(file[end])) != 0) ++end;
    if (end < file.size() && file[end] == 't') ++end;  // a free-threaded build's folder
    if (end == digits || end >= file.size() || file[end] != '/') continue;
    if (!before.ends_with("/lib") && !before.ends_with("/lib64")) continue;
    return file.substr(end + 1);
  }
  return std::nullopt;
}

bool IsIn(std::string_view file, std::string_view folder) { return file.find(folder) != std::string_view::npos; }

}  // namespace

bool IsLibraryFile(std::string_view file, std::string_view pytorch) {
  if (!pytorch.empty() && file.starts_with(pytorch)) return true;
  if (file.starts_with("<frozen ") || file.starts_with("<eval_with_key>")) return true;
  if (IsIn(file, "/site-packages/torch/") || IsIn(file, "/dist-packages/torch/") || IsIn(file, "/torchinductor_")) {
    return true;
  }
  const std::optional<std::string_view> inside = BehindPythonFolder(file);
  return inside.has_value() && !inside->starts_with("site-packages/") && !inside->starts_with("dist-packages/");
}

// The engine is entered from graph.py, in older PyTorch from the two functions of the package itself, which are
// around it to this day. function.py is the forward pass of the program's own functions.
bool IsBackwardCall(std::string_view file, std::string_view function, std::string_view pytorch) {
  if (!IsLibraryFile(file, pytorch)) return false;
  if (file.ends_with("/torch/autograd/__init__.py")) return function == "backward" || function == "grad";
  return file.ends_with("/torch/autograd/graph.py") && function == "_engine_run_backward";
}

std::optional<size_t> ChooseSite(std::span<const std::string_view> files) {
  for (size_t i = 0; i < files.size(); ++i) {
    if (!IsLibraryFile(files[i])) return i;
  }
  return std::nullopt;
}

std::string ToString(const CallSite& site) {
  std::string text(site.file);
  text += ':';
  text += std::to_string(site.line);
  text += " (";
  text += site.function;
  text += ')';
  return text;
}

}  // namespace slipstream::tracer
