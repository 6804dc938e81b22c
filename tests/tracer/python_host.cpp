// A program that has no Python until it loads one, and keeps its names to itself: python_host LIBPYTHON.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tracer/python/code_sites.h"
#include "tracer/python/python_stack.h"

namespace slipstream::tracer {
namespace {

// PyMethodDef (methodobject.h), the same in every Python 3.
struct MethodDefinition {
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* documentation;
};
constexpr int kNoArguments = 4;  // METH_NOARGS

void* g_python = nullptr;
PythonStack* g_stack = nullptr;

template <typename Function>
Function Find(const char* name) {
  auto* const function = reinterpret_cast<Function>(dlsym(g_python, name));
  if (function == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  return function;
}

// Called by the Python program.
void* Look(void*, void*) {
  std::vector<PythonFrame> frames(8);
  const auto walked = g_stack->Walk(frames);
  CodeSites* const sites = CodeSites::Create(g_stack->layout(), {});
  std::string text = walked.status == PythonStatus::kOk ? "" : NameOf(walked.status);
  for (size_t i = 0; i < walked.frames; ++i) {
    CallSite site;
    if (!sites->Describe(sites->Intern(frames[i]), &site)) text += "unknown";
    text += (text.empty() ? "" : " ") + ToString(site);
  }
  std::printf("%s\n", text.c_str());
  delete sites;
  return Find<void* (*)(const char*)>("PyUnicode_FromString")("");
}

const char* StatusNow() {
  PythonFrame frames[1];
  return NameOf(g_stack->Walk(frames).status);
}

int Main(const char* library) {
  PythonStatus status = PythonStatus::kOk;
  if (PythonStack::Find(&status) != nullptr) return 2;
  std::printf("before: %s\n", NameOf(status));

  g_python = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (g_python == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  g_stack = PythonStack::Find(&status);
  std::printf("loaded: %s\n", g_stack != nullptr ? StatusNow() : NameOf(status));
  if (g_stack == nullptr) return 2;

  Find<void (*)(int)>("Py_InitializeEx")(0);
  static MethodDefinition look = {"look", Look, kNoArguments, nullptr};
  void* const function = Find<void* (*)(MethodDefinition*, void*, void*)>("PyCFunction_NewEx")(&look, nullptr, nullptr);
  void* const module = Find<void* (*)(const char*)>("PyImport_AddModule")("__main__");
  Find<int (*)(void*, const char*, void*)>("PyObject_SetAttrString")(module, "look", function);
  const auto run = Find<int (*)(const char*)>("PyRun_SimpleString");
  // The names without what encloses them, which only 3.11 and later know.
  if (run("def inner():\n  '''Line 3 calls.'''\n  look()\ndef outer():\n  inner()\nouter()\n") != 0) return 2;
  Find<int (*)()>("Py_FinalizeEx")();
  std::printf("ended: %s\n", StatusNow());
  delete g_stack;
  return 0;
}

}  // namespace
}  // namespace slipstream::tracer

int main(int argc, char** argv) { return argc == 2 ? slipstream::tracer::Main(argv[1]) : 2; }
