#include "tracer/python/python_process.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

#include "tracer/base/python_lines.h"
#include "tracer/python/raw_memory.h"

namespace slipstream::tracer {
namespace {

constexpr const char* kThisThread = "PyGILState_GetThisThreadState";

// The loaded object that has the interpreter: what Find looks in. A process may hold more than one (a program with
// Python in it that loads an extension linked to libpython); all is then taken from the first, in the loader's order.
class Interpreter {
 public:
  Interpreter() = default;
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter() {
    if (opened_ != nullptr) dlclose(opened_);
  }

  // False: there is none.
  bool Open() {
    // The program itself, or a libpython that it or a preloaded library is linked to.
    handle_ = RTLD_DEFAULT;
    if (LookUp(kThisThread) == nullptr && !OpenLocal()) return false;
    Dl_info info;
    if (dladdr(LookUp(kThisThread), &info) == 0) return false;
    base_ = info.dli_fbase;
    return true;
  }

  // Its addresses are kept: so is it.
  void Keep() { opened_ = nullptr; }

  // Null for what this interpreter does not have, even if another one in the process does.
  void* Find(const char* name) const {
    void* const symbol = LookUp(name);
    Dl_info info;
    if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fbase != base_) return nullptr;
    return symbol;
  }

  template <typename Function>
  bool Find(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(Find(name));
    return *function != nullptr;
  }

  bool Find(const char* name, uintptr_t* address) const {
    *address = reinterpret_cast<uintptr_t>(Find(name));
    return *address != 0;
  }

 private:
  void* LookUp(const char* name) const {
    void* const symbol = dlsym(handle_, name);
    if (symbol == nullptr) dlerror();  // it is no error of the program's, on whose thread this may be
    return symbol;
  }

  // A libpython that came in with RTLD_LOCAL, as that of a plug-in does.
  bool OpenLocal() {
    char path[kMaxPath] = "";
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* found) {
          const char* const slash = std::strrchr(object->dlpi_name, '/');
          const char* const name = slash != nullptr ? slash + 1 : object->dlpi_name;
          // libpython3.so only leads to libpython3.11.so.
          if (std::strncmp(name, "libpython3.", 11) != 0 || std::strcmp(name, "libpython3.so") == 0) return 0;
          if (std::strlen(object->dlpi_name) >= kMaxPath) return 0;
          std::strcpy(static_cast<char*>(found), object->dlpi_name);
          return 1;
        },
        path);
    if (path[0] == '\0') return false;
    opened_ = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    handle_ = opened_;
    return handle_ != nullptr && LookUp(kThisThread) != nullptr;
  }

  static constexpr size_t kMaxPath = 4096;
  void* handle_ = nullptr;
  void* base_ = nullptr;
  void* opened_ = nullptr;  // to be closed again
};

// 0: it does not say.
uint32_t VersionOf(const Interpreter& python) {
  uintptr_t version = 0;
  if (python.Find("Py_Version", &version)) return static_cast<uint32_t>(Load<unsigned long>(version));
  const char* (*get_version)() = nullptr;
  return python.Find("Py_GetVersion", &get_version) ? ParsePythonVersion(get_version()) : 0;
}

// "CPython 3.14.2", "CPython 3.15.0b1".
std::string NameOfVersion(uint32_t version) {
  if (version == 0) return "CPython of an unknown version";
  std::string text = "CPython";
  char separator = ' ';
  for (int shift = 24; shift >= 8; shift -= 8, separator = '.') {
    text += separator + std::to_string((version >> shift) & 0xff);
  }
  switch ((version >> 4) & 0xf) {
    case 0xa:
      return text + "a" + std::to_string(version & 0xf);
    case 0xb:
      return text + "b" + std::to_string(version & 0xf);
    case 0xc:
      return text + "rc" + std::to_string(version & 0xf);
    case 0xf:
      return text;
    default:  // as ParsePythonVersion leaves it
      return text + ", an alpha or beta";
  }
}

PythonStatus FindIn(Interpreter& python, PythonProcess* process) {
  process->version = VersionOf(python);
  const PythonLayout* const layout = FindPythonLayout(process->version);
  if (layout == nullptr) return PythonStatus::kUnknownVersion;
  process->layout = *layout;
  // Only in builds that count all references, as Py_DEBUG ones do (cpython/object.h, Py_REF_DEBUG).
  if (python.Find("_Py_NegativeRefcount") != nullptr) return PythonStatus::kDebugBuild;

  const bool complete =
      python.Find("Py_IsInitialized", &process->is_initialized) &&
      (python.Find("Py_IsFinalizing", &process->is_finalizing) ||  // 3.13
       python.Find("_Py_IsFinalizing", &process->is_finalizing)) &&
      python.Find(kThisThread, &process->this_thread) &&
      python.Find("PyThreadState_GetInterpreter", &process->interpreter_of) &&
      python.Find("PyCode_Addr2Line", &process->line_of) && python.Find("PyCode_Type", &process->code_type) &&
      python.Find("PyFrame_Type", &process->frame_type) && python.Find("PyBytes_Type", &process->bytes_type);
  if (!complete) return PythonStatus::kIncomplete;

  if (layout->version >= 0x030d) {
    uintptr_t runtime = 0;
    if (!python.Find("_PyRuntime", &runtime)) return PythonStatus::kIncomplete;
    const std::span offsets(reinterpret_cast<const uint64_t*>(runtime), kDebugOffsetsWords);
    switch (TakeDebugOffsets(offsets, process->version, &process->layout)) {
      case DebugOffsetsVerdict::kTaken:
        break;
      case DebugOffsetsVerdict::kNotThem:
        return PythonStatus::kBadLayout;
      case DebugOffsetsVerdict::kFreeThreaded:
        return PythonStatus::kFreeThreaded;
    }
  }
  return PythonStatus::kOk;
}

}  // namespace

const char* NameOf(PythonStatus status) {
  switch (status) {
    case PythonStatus::kOk:
      return "ok";
    case PythonStatus::kNotInitialized:
      return "not_initialized";
    case PythonStatus::kFinalizing:
      return "finalizing";
    case PythonStatus::kNoThread:
      return "no_thread";
    case PythonStatus::kNoPython:
      return "no_python";
    case PythonStatus::kIncomplete:
      return "incomplete";
    case PythonStatus::kUnknownVersion:
      return "unknown_version";
    case PythonStatus::kFreeThreaded:
      return "free_threaded";
    case PythonStatus::kDebugBuild:
      return "debug_build";
    case PythonStatus::kBadLayout:
      return "bad_layout";
  }
  return "unknown";
}

bool IsFinal(PythonStatus status) { return status >= PythonStatus::kNoPython; }

uint32_t ParsePythonVersion(const char* text) {
  constexpr uint32_t kRelease = 0xf0;
  uint32_t version = kRelease;
  for (int shift = 24; shift >= 8; shift -= 8) {
    char* end = nullptr;
    if (*text < '0' || *text > '9') return 0;
    const unsigned long number = std::strtoul(text, &end, 10);
    if (number > 0xff) return 0;
    version |= static_cast<uint32_t>(number) << shift;
    // "3.9.0rc1" has another layout than a release only as an alpha or beta.
    if (shift == 8) return *end == 'a' || *end == 'b' ? version & ~uint32_t{0xff} : version;
    if (*end != '.') return 0;
    text = end + 1;
  }
  return version;
}

PythonStatus FindPython(PythonProcess* process) {
  Interpreter python;
  if (!python.Open()) return PythonStatus::kNoPython;
  const PythonStatus status = FindIn(python, process);
  if (status == PythonStatus::kOk) python.Keep();
  return status;
}

std::string LinesFact(PythonStatus status, uint32_t version) {
  const std::string name = NameOfVersion(version);
  const std::string unsupported(kLinesUnsupported);
  switch (status) {
    case PythonStatus::kOk:
      return std::string(kLinesRead) + name;
    case PythonStatus::kIncomplete:
      return unsupported + "this " + name + " lacks functions that they are read with";
    case PythonStatus::kUnknownVersion:
      return unsupported + "this is " + name + ", not a release of 3.9 to 3.15";
    case PythonStatus::kFreeThreaded:
      return unsupported + "this is a free-threaded " + name;
    case PythonStatus::kDebugBuild:
      return unsupported + "this is a debug build of " + name;
    case PythonStatus::kBadLayout:
      return unsupported + "this " + name + " has its memory laid out in another way than its version";
    default:
      return std::string(kLinesNone) + "there is no CPython in this process";
  }
}

std::string LinesFactOfThisProcess() {
  Interpreter python;
  if (!python.Open()) return "";
  PythonProcess process;
  const PythonStatus status = FindIn(python, &process);
  return LinesFact(status, process.version);
}

}  // namespace slipstream::tracer
