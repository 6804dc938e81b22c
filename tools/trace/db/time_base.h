// One time for all processes of a trace: nanoseconds since its earliest record.
//
// Records are stamped with CLOCK_MONOTONIC, which all processes of a host share and which begins anew at every boot. So
// the times of one host are exact among each other. Hosts are put beside each other by wall time: each by the shortest
// of the readings of both clocks that its processes took. SLIPSTREAM_HOSTS says how exact that is; how far the hosts'
// own wall clocks were apart is not known.
//
// A host is what a kernel ran since it was booted, whatever its containers are called: by its boot_id. Files of an
// older slipstream do not have one. Their hosts have names, and two machines may have one name (containers, images):
// readings that are seconds apart are two machines then, because CLOCK_MONOTONIC began at different moments.
//
// Threading: plain data and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/db/survey.h"

namespace slipstream::trace_db {

struct Host {
  std::string name;      // several, where containers have their own
  ClockReadings clocks;  // of all its processes; with none, `difference` is what the beginning of a recording says
};

class TimeBase {
 public:
  // Of one name, without a boot_id, and further apart than this: not one machine. A wall clock that is set moves by
  // less, or the times of processes before and after it are aligned by the wall time that they had.
  static constexpr uint64_t kOneMachineNs = 2'000'000'000;

  explicit TimeBase(const std::vector<SpoolSurvey>& spools);

  const std::vector<Host>& hosts() const { return hosts_; }
  size_t HostOf(size_t spool) const { return host_of_[spool]; }
  // Wall time at 0, ns since 1970.
  uint64_t zero_unix_ns() const { return zero_unix_ns_; }
  // Of CLOCK_MONOTONIC on a host.
  int64_t At(size_t host, uint64_t monotonic_ns) const {
    // Absurd numbers wrap around, because signed overflow would be undefined.
    return static_cast<int64_t>(monotonic_ns + static_cast<uint64_t>(hosts_[host].clocks.difference) - zero_unix_ns_);
  }

 private:
  void FindHosts(const std::vector<SpoolSurvey>& spools);
  void AddHosts(const std::vector<SpoolSurvey>& spools, std::vector<size_t> members, const std::string& name,
                bool one_machine);

  std::vector<Host> hosts_;
  std::vector<size_t> host_of_;  // by spool
  uint64_t zero_unix_ns_ = 0;
};

}  // namespace slipstream::trace_db
