#include "tools/cli/trace_input.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/private_umask.h"
#include "tools/cli/trace_build.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using trace_db::BuildProblem;

// What every SQLite 3 database begins with ("The Database Header", sqlite.org).
constexpr std::string_view kHeader{"SQLite format 3\0", 16};

bool IsDatabase(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  std::array<char, kHeader.size()> bytes{};
  FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  const size_t read = std::fread(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  return std::string_view(bytes.data(), read) == kHeader;
}

// A directory that goes away with what is in it.
class Scratch {
 public:
  Scratch() {
    const PrivateUmask only_ours;
    const char* const place = policy::EnvironmentValue("TMPDIR");
    path_ = std::string(place == nullptr || *place == '\0' ? "/tmp" : place) + "/slipstream-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) error_ = errno;
  }
  ~Scratch() {
    if (error_ != 0) return;
    unlink(database().c_str());
    rmdir(path_.c_str());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int error() const { return error_; }
  const std::string& path() const { return path_; }
  std::string database() const { return path_ + "/trace.sqlite"; }

 private:
  std::string path_;
  int error_ = 0;
};

bool OpenDatabase(const std::string& command, const std::string& named, const std::string& path, TraceInput* input) {
  input->database = std::make_unique<trace_db::DatabaseReader>(path);
  if (!input->database->ok()) {
    Complain(command, Escape(named) + ": cannot be read: " + Escape(input->database->error().text));
    return false;
  }
  input->database->StopWhen(EndingSignals::stop());
  input->status = kSuccess;
  return true;
}

}  // namespace

TraceInput OpenTrace(const std::string& command, const std::string& run, const std::string& version,
                     const std::vector<std::string>& more) {
  TraceInput input;
  for (const std::string& part : more) {
    if (!IsDatabase(run) && !IsDatabase(part)) continue;
    Complain(command, Escape(IsDatabase(run) ? run : part) +
                          ": a database, which cannot be put together with other parts\n  Name the directories that it "
                          "was made of.");
    return input;
  }
  if (IsDatabase(run)) {
    input.was_database = true;
    OpenDatabase(command, run, run, &input);
    return input;
  }
  const Scratch scratch;
  if (scratch.error() != 0) {
    Complain(command,
             Escape(scratch.path()) + ": cannot be made: " + std::strerror(scratch.error()) +
                 "\n  A database of the run is made there first. Set TMPDIR to a directory that can be written.");
    return input;
  }
  trace_db::BuildOptions build = {.run = run,
                                  .more = more,
                                  .database = scratch.database(),
                                  .product_version = version,
                                  .stop = EndingSignals::stop()};
  {
    ProgressLine line(command);
    build.progress = [&](const trace_db::BuildProgress& progress) { line.Show(progress); };
    input.built = trace_db::BuildTraceDatabase(build);
  }
  if (input.built.problem != BuildProblem::kNone) {
    ComplainAbout(command, build, input.built);
    return input;
  }
  // The open file stays when its name goes.
  OpenDatabase(command, run, scratch.database(), &input);
  return input;
}

}  // namespace slipstream::cli
