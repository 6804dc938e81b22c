// The process that ends a run whose root was killed, or left without exiting (S68).
#pragma once

#include <string>

namespace slipstream::cli {

// Starts it for this process, which is about to become the command. It is no child of the command's, has a session of
// its own, none of its descriptors and no working directory, blocks every signal, and sleeps until this process has
// ended. `directory_lock` is a descriptor that holds the lock of the run's directory; the watcher keeps it.
//
// Why there is none, for people; empty: it watches.
//
// Threading: from a process with one thread. Nothing of it is seen by the command: no SIGCHLD, no child to wait for, no
// use of resources by children.
std::string StartWatcher(const std::string& directory, int directory_lock);

// Whether the first process here collects those that others have left: it waits for SIGCHLD, by whatever means, or
// ignores it. True if that cannot be seen. A subreaper in between is not seen.
bool InitCollects();

// The arguments that main got. The watcher overwrites them, so that a search for the command's processes by their
// command lines does not find it.
void KnowArguments(int count, char** arguments);

}  // namespace slipstream::cli
