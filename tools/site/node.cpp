#include "tools/site/node.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "tools/site/open_file.h"
#include "tools/text/user_name.h"
#include "tracer/counters/counter_layout.h"

namespace slipstream::site {
namespace {

constexpr size_t kMostState = size_t{1} << 20;

// One directory of a run, and what in it is the owner's or root's.
class RunFolder {
 public:
  RunFolder(const std::string& path, uid_t owner)
      : owner_(owner), folder_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    struct stat facts {};
    ok_ = folder_.number() >= 0 && fstat(folder_.number(), &facts) == 0 && IsTheirs(facts);
  }

  bool ok() const { return ok_; }

  // False: a file is there and cannot be read. One that is gone is none.
  bool ReadState(const char* name, std::string* text) const {
    const OpenFile file(Open(name));
    if (file.number() < 0) return errno == ENOENT;
    char part[4096];
    ssize_t got = 0;
    while (text->size() < kMostState && (got = read(file.number(), part, sizeof(part))) > 0) {
      text->append(part, static_cast<size_t>(got));
    }
    return got >= 0;
  }

  bool ReadCounters(const std::string& name, tracer::ProcessCounts* counts) const {
    const OpenFile file(Open(name.c_str()));
    std::string error;
    return file.number() >= 0 && tracer::ReadCounterFile(file.number(), name, counts, &error);
  }

  // Of files that counters are in.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const int again = openat(folder_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(again < 0 ? nullptr : fdopendir(again), closedir);
    if (dir == nullptr) return names;
    while (const dirent* const entry = readdir(dir.get())) {
      if (std::string_view(entry->d_name).ends_with(tracer::kCounterSuffix)) names.emplace_back(entry->d_name);
    }
    return names;
  }

  bool IsGone(const std::string& name) const {
    return faccessat(folder_.number(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
  }

 private:
  bool IsTheirs(const struct stat& facts) const { return facts.st_uid == owner_ || facts.st_uid == 0; }

  int Open(const char* name) const {
    const int file = openat(folder_.number(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat facts {};
    if (file < 0 || (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && IsTheirs(facts))) return file;
    close(file);
    errno = EACCES;
    return -1;
  }

  const uid_t owner_;
  const OpenFile folder_;
  bool ok_ = false;
};

// A process that executed another program has gone on as another one of the same number: the newest lives.
void FindLiving(const top::ProcFiles& processes, std::vector<NodeProcess>* all) {
  std::map<int32_t, NodeProcess*> newest;
  for (NodeProcess& process : *all) {
    NodeProcess*& known = newest[process.counts.pid];
    if (known == nullptr || process.counts.start_unix_ns > known->counts.start_unix_ns) known = &process;
  }
  for (const auto& [pid, process] : newest) process->alive = processes.IsAlive(pid);
}

}  // namespace

NodeLeft ReadNode(const top::ProcFiles& processes, bool for_everybody, const char* state_name,
                  const std::function<void(const NodeRun& run)>& take) {
  const top::RunsHere here = top::FindAll(processes);
  NodeLeft left;
  left.uncounted = here.uncounted.size();
  for (const top::RunHere& facts : here.runs) {
    const uid_t owner = for_everybody ? facts.owner.value_or(geteuid()) : geteuid();
    const RunFolder folder(facts.directory, owner);
    if (!folder.ok()) {
      ++left.unreadable_runs;
      continue;
    }
    NodeRun run = {.facts = facts, .user = text::UserName(owner), .program = processes.NameOf(facts.first)};
    if (!folder.ReadState(state_name, &run.state)) run.state.clear();
    for (const std::string& name : folder.Names()) {
      NodeProcess process;
      if (folder.ReadCounters(name, &process.counts)) {
        run.processes.push_back(std::move(process));
      } else if (!folder.IsGone(name)) {
        ++left.unreadable_files;
      }
    }
    FindLiving(processes, &run.processes);
    take(run);
  }
  return left;
}

}  // namespace slipstream::site
