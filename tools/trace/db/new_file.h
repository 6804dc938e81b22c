// A file that gets its name when it is whole. Until then it is beside its place under another name, and is removed
// unless it is published.
//
// Threading: one thread.
// Hazard: SIGKILL leaves it behind, as PLACE.new-XXXXXX; RemoveAbandoned is for that.
// Errors: an errno, 0 for none.
#pragma once

#include <string>

namespace slipstream::trace_db {

// "." where the path has none.
std::string FolderOf(const std::string& place);

class NewFile {
 public:
  explicit NewFile(std::string place) : place_(std::move(place)) {}
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // An empty file, 0600, in the same directory.
  int Create();
  const std::string& path() const { return path_; }
  // Why it cannot get longer, found out by trying; 0: it can. What is in it is of no use any more.
  int TryToLengthen();
  // Puts what is in it onto the disk and gives it its name: over what is there if `replace`, else EEXIST. What goes
  // away with its process need not be `durable`: then nobody waits for the disk.
  int Publish(bool replace, bool durable = true);

  // Removes what processes of this user that were killed left beside `place`: what nobody has written to for an hour.
  // No lock is asked for, which many a cluster's file system does not have. A process that was stopped for longer finds
  // its file gone, and Publish says so.
  static void RemoveAbandoned(const std::string& place);

 private:
  const std::string place_;
  std::string path_;  // empty: there is none (any more)
};

}  // namespace slipstream::trace_db
