// Reads the tables of [[transfer.rule]] in a document into the rules of a policy, and lists their mistakes.
//
// Threading: one thread; an object is for one document.
// Ownership: refers to what the constructor is given, which outlives it.
// Errors: everything that is wrong goes into `problems`, and the policy must not be used then. Out of memory throws.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policy/document.h"
#include "policy/load.h"
#include "policy/problem.h"

namespace slipstream::policy {

class RuleReader {
 public:
  // `file`: its name, for messages.
  RuleReader(const std::string& file, Loaded& loaded, std::vector<Problem>& problems)
      : file_(file), loaded_(loaded), problems_(problems) {}
  RuleReader(const RuleReader&) = delete;
  RuleReader& operator=(const RuleReader&) = delete;

  // Whether the entry is transfer.rule or lies in it; then it has been read.
  bool Read(const Entry& entry);

  // After all entries: checks keys and rules against each other. A rule that is already damaged is not checked, and
  // none is if `whole` is false (statements are missing from the document).
  void Finish(bool whole);

 private:
  struct Place {
    int line = 1;
    int column = 1;
  };
  // What was read of one rule, beside its values.
  struct Seen {
    Place rule;
    Entry max_size;
    Entry promote;
    Entry skip_synchronize;
    bool action = false;
  };

  void ReadKey(const Entry& entry);
  void CheckKeys(const TransferRule& rule, const Seen& seen);
  void CheckReachable();
  bool Reachable(std::size_t index) const;
  Problem MakeProblem(const Place& place, std::string key) const;
  void Refuse(const Entry& entry, std::string what, std::string expected);

  const std::string& file_;
  Loaded& loaded_;
  std::vector<Problem>& problems_;
  std::vector<Seen> seen_;  // as long as the rules
  bool damaged_ = false;
  bool too_many_ = false;
};

}  // namespace slipstream::policy
