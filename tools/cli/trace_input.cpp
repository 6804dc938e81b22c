#include "tools/cli/trace_input.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "policy/environment.h"
#include "policy/text.h"
#include "tools/cli/private_umask.h"
#include "tools/cli/run_state.h"
#include "tools/cli/trace_build.h"
#include "tools/text/text.h"
#include "tools/trace/db/build_place.h"
#include "tools/trace/db/database.h"
#include "tools/trace/db/kept_database.h"
#include "tools/trace/db/new_file.h"

namespace slipstream::cli {
namespace {

using policy::Escape;
using text::HumanBytes;
using trace_db::BuildProblem;
using trace_db::Fit;
using trace_db::Place;

// What every SQLite 3 database begins with ("The Database Header", sqlite.org).
constexpr std::string_view kHeader{"SQLite format 3\0", 16};

// A directory that goes away with what is in it.
class Scratch {
 public:
  explicit Scratch(const std::string& place) : path_(place + "/slipstream-XXXXXX") {
    const PrivateUmask only_ours;
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

std::string TemporaryFolder() {
  const char* const place = policy::EnvironmentValue("TMPDIR");
  return place == nullptr || *place == '\0' ? "/tmp" : place;
}

uint64_t BytesOf(const std::vector<std::string>& files) {
  uint64_t bytes = 0;
  for (const std::string& file : files) bytes += trace_db::BytesToRead(file);
  return bytes;
}

// Makes the database of a run's spool files, or finds it.
class TraceOpener {
 public:
  explicit TraceOpener(const TraceRequest& request)
      : command_(request.command),
        run_(request.run),
        version_(request.version),
        more_(request.more),
        options_(request.options) {}

  TraceInput Open() {
    if (!Find()) return std::move(input_);
    if (options_.keep) LookForKept();
    FindPlaces();
    if (input_.database == nullptr) Make();
    if (input_.status == kSuccess && !places_.empty() && policy::EnvironmentValue("SQLITE_TMPDIR") == nullptr) {
      trace_db::SortIn(places_[ChoosePlace(places_, {.sorting = needed_.sorting}).place].folder);
    }
    return std::move(input_);
  }

 private:
  void Say(const std::string& text) const {
    if (options_.verbose) Complain(command_, text);
  }
  void Take(std::unique_ptr<trace_db::DatabaseReader> database) {
    input_.database = std::move(database);
    input_.database->StopWhen(EndingSignals::stop());
    input_.status = kSuccess;
  }
  trace_db::BuildOptions Options(const std::string& database) const {
    return {
        .run = run_, .more = more_, .database = database, .product_version = version_, .stop = EndingSignals::stop()};
  }
  std::string Elsewhere() const { return "`TMPDIR=/big slipstream " + command_ + " " + Escape(run_) + "`"; }

  bool Find();
  void LookForKept();
  void FindPlaces();
  void Make();
  bool MakeKept();
  void MakeTemporary(const Place& place, Fit fit);
  void Build(trace_db::BuildOptions build);

  const std::string command_;
  const std::string run_;
  const std::string version_;
  const std::vector<std::string> more_;
  const TraceInputOptions options_;
  TraceInput input_;
  std::vector<std::string> spools_;
  trace_db::RoomNeeded needed_;
  std::string kept_;  // where it may stay; empty: nowhere
  std::string made_from_;
  std::vector<Place> places_;  // with `kept_` the first is that
};

bool TraceOpener::Find() {
  trace_db::FoundSpools found = trace_db::FindSpools(run_, more_);
  input_.built.problem = found.problem;
  input_.built.what = found.what;
  if (found.problem != BuildProblem::kNone) {
    ComplainAbout(command_, Options(""), input_.built);
    return false;
  }
  spools_ = std::move(found.paths);
  needed_ = trace_db::RoomNeededFor(BytesOf(spools_));
  return true;
}

// What a run's end removes (run_directory.h) is not left in its directory while it goes on; and it would be old at
// once.
void TraceOpener::LookForKept() {
  std::string why;
  kept_ = trace_db::KeptPlace(run_, &why);
  if (!kept_.empty() && access((run_ + "/" + kRunStateName).c_str(), F_OK) == 0) {
    why = "the run has not ended";
    kept_.clear();
  }
  const std::optional<std::string> made_from = trace_db::MadeFrom(spools_, version_);
  if (!kept_.empty() && !made_from) {
    why = "a spool file cannot be read";
    kept_.clear();
  }
  if (!kept_.empty()) {
    made_from_ = *made_from;
    trace_db::KeptDatabase kept = trace_db::OpenKept(kept_, made_from_);
    why = kept.why;
    if (kept.reader != nullptr && !options_.rebuild) {
      Say("the database is used again: " + Escape(kept_));
      Take(std::move(kept.reader));
      input_.built = std::move(kept.built);
      input_.reused = true;
      return;
    }
    if (kept.reader == nullptr && !kept.replaceable) kept_.clear();
  }
  if (kept_.empty()) Say("no database is kept with the run: " + Escape(why));
}

// The directory of the run first, where the database may stay; then those that are for what goes away.
void TraceOpener::FindPlaces() {
  const auto look = [&](const std::string& folder) {
    std::optional<Place> place = trace_db::LookAtPlace(folder);
    if (place) places_.push_back(std::move(*place));
    return place.has_value();
  };
  if (!kept_.empty() && !look(run_)) {
    if (!input_.reused) Say("no database is kept with the run: its directory cannot be written");
    kept_.clear();
  }
  const std::string temporary = TemporaryFolder();
  if (!look(temporary)) Say(Escape(temporary) + ": cannot be written");
  look("/var/tmp");
}

void TraceOpener::Make() {
  if (!kept_.empty()) {
    const trace_db::Choice choice = ChoosePlace(places_, needed_);
    if (choice.place == 0 && choice.fit == Fit::kWell) {
      if (MakeKept()) return;
      places_.erase(places_.begin());
    } else {
      Say("no database is kept with the run: " + Escape(run_) +
          (places_[0].in_memory ? " is in memory" : " has no room for it"));
    }
  }
  if (places_.empty()) {
    Complain(command_, Escape(TemporaryFolder()) +
                           ": cannot be written\n  A database of the run is made there first. Set TMPDIR to a "
                           "directory that can be written.");
    return;
  }
  const trace_db::Choice choice = ChoosePlace(places_, needed_);
  MakeTemporary(places_[choice.place], choice.fit);
}

void TraceOpener::Build(trace_db::BuildOptions build) {
  ProgressLine line(command_);
  build.progress = [&](const trace_db::BuildProgress& progress) { line.Show(progress); };
  input_.built = trace_db::BuildTraceDatabase(build);
}

// False: it must be made elsewhere.
bool TraceOpener::MakeKept() {
  trace_db::NewFile::RemoveAbandoned(kept_);
  trace_db::BuildOptions build = Options(kept_);
  build.replace = true;
  build.made_from = made_from_;
  Build(build);
  switch (input_.built.problem) {
    case BuildProblem::kNone:
      break;
    case BuildProblem::kPlace:
    case BuildProblem::kNoRoom:
    case BuildProblem::kWriting:
      Say("no database is kept with the run: " + Escape(kept_) + ": " + Escape(input_.built.what));
      return false;
    default:
      ComplainAbout(command_, build, input_.built);
      return true;
  }
  trace_db::KeptDatabase kept = trace_db::OpenKept(kept_, made_from_);
  if (kept.reader == nullptr) {
    // Somebody asked something else of the same run, and his was made later; or the file system gives files another
    // owner.
    Say("no database is kept with the run: " + Escape(kept.why));
    return false;
  }
  Take(std::move(kept.reader));
  // It is good for this once. The open file stays when its name goes.
  if (trace_db::MadeFrom(spools_, version_) != made_from_) {
    unlink(kept_.c_str());
    Say("no database is kept with the run: its spool files have changed meanwhile");
  } else {
    Say("the database stays in " + Escape(kept_));
  }
  return true;
}

void TraceOpener::MakeTemporary(const Place& place, Fit fit) {
  const std::string folder = Escape(place.folder);
  const std::string takes = "the database of this run takes up to " + HumanBytes(needed_.all());
  if (fit == Fit::kTight) {
    Complain(command_, folder + ": " + HumanBytes(place.free_bytes) + " are free there, and " + takes + "\n  " +
                           Elsewhere() + " makes it in a place with room.");
  } else if (fit == Fit::kInMemory) {
    Complain(command_, folder + ": is in memory, and " + takes + "\n  " + Elsewhere() + " makes it on a disk.");
  }
  const Scratch scratch(place.folder);
  if (scratch.error() != 0) {
    Complain(command_,
             Escape(scratch.path()) + ": cannot be made: " + std::strerror(scratch.error()) +
                 "\n  A database of the run is made there first. Set TMPDIR to a directory that can be written.");
    return;
  }
  Say("the database is made in " + folder + ", and not kept");
  trace_db::BuildOptions build = Options(scratch.database());
  build.temporary = true;
  Build(build);
  if (input_.built.problem == BuildProblem::kNoRoom) {
    Complain(command_, folder + ": no room: " + Escape(input_.built.what) + Escape(RoomFor(build.database)) +
                           "\n  Nothing is left of it. " + Elsewhere() + " makes it elsewhere: it takes up to " +
                           HumanBytes(needed_.all()) + ".");
    return;
  }
  if (input_.built.problem != BuildProblem::kNone) {
    ComplainAbout(command_, build, input_.built);
    return;
  }
  // The open file stays when its name goes.
  auto database = std::make_unique<trace_db::DatabaseReader>(scratch.database());
  if (!database->ok()) {
    Complain(command_, Escape(run_) + ": cannot be read: " + Escape(database->error().text));
    return;
  }
  Take(std::move(database));
}

}  // namespace

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

bool TraceInput::IsToBeRebuilt() const {
  return reused && !database->ok() && !database->stopped() && !EndingSignals::stop()->load();
}

TraceInput OpenTrace(const TraceRequest& request) {
  const std::string& run = request.run;
  TraceInput input;
  for (const std::string& part : request.more) {
    if (!IsDatabase(run) && !IsDatabase(part)) continue;
    Complain(request.command,
             Escape(IsDatabase(run) ? run : part) +
                 ": a database, which cannot be put together with other parts\n  Name the directories that it "
                 "was made of.");
    return input;
  }
  if (!IsDatabase(run)) return TraceOpener(request).Open();
  input.was_database = true;
  input.database = std::make_unique<trace_db::DatabaseReader>(run);
  if (!input.database->ok()) {
    Complain(request.command, Escape(run) + ": cannot be read: " + Escape(input.database->error().text));
    return input;
  }
  input.database->StopWhen(EndingSignals::stop());
  input.status = kSuccess;
  return input;
}

TraceInput AskTrace(TraceRequest request, const std::function<void(const TraceInput&)>& ask) {
  TraceInput input = OpenTrace(request);
  if (input.status == kSuccess) ask(input);
  if (!input.IsToBeRebuilt()) return input;
  request.options.rebuild = true;
  input = OpenTrace(request);
  if (input.status == kSuccess) ask(input);
  return input;
}

int AnswerFromTrace(const TraceRequest& request, const std::function<void(const TraceInput&)>& ask,
                    const std::function<int(const TraceInput&)>& answer) {
  int status = kFailed;
  bool stopped = false;
  {
    const EndingSignals signals;
    const TraceInput input = AskTrace(request, ask);
    if (input.status != kSuccess) {
      status = input.status;
      stopped = input.built.problem == BuildProblem::kStopped;
    } else if (input.database->stopped() || EndingSignals::stop()->load()) {
      stopped = true;
    } else if (!input.database->ok()) {
      Complain(request.command,
               Escape(request.run) + ": cannot be read to its end: " + Escape(input.database->error().text));
    } else {
      status = answer(input);
    }
  }
  return stopped ? EndingSignals::EndStopped(request.command) : status;
}

}  // namespace slipstream::cli
