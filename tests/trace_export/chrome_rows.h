// A Chrome trace read back by another parser, as the lines of expected_rows.h.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>

#include "tests/trace_export/expected_rows.h"

namespace slipstream::trace_export {

class ChromeRows {
 public:
  explicit ChromeRows(const std::string& text) : json_(nlohmann::json::parse(text)) {
    // Times are decimals, which a parser makes binary; what stands there is what counts.
    for (const auto& event : json_["traceEvents"]) {
      if (event["ph"] == "s" || event["ph"] == "f") flows_.insert(Flow(event));
      if (event["ph"] == "M") Describe(event);
    }
    for (const auto& event : json_["traceEvents"]) Read(event);
    EXPECT_EQ(flows_used_, flows_.size());
  }

  Lines All() const { return Sorted(lines_); }
  const nlohmann::json& json() const { return json_; }
  // "what pid tid value".
  const std::set<std::string>& descriptions() const { return descriptions_; }

 private:
  using Event = nlohmann::json;

  // The number of ns: exact below 2^53 ns, far beyond what is drawn.
  static int64_t Ns(const Event& us) { return std::llround(us.get<double>() * 1000); }
  static std::string Number(const Event& event) { return std::to_string(event.get<int64_t>()); }
  static std::string NumberOf(const Event& args, const char* key, const char* without) {
    return args.contains(key) ? Number(args[key]) : without;
  }
  static std::string TextOf(const Event& args, const char* key) {
    return args.contains(key) ? args[key].get<std::string>() : "";
  }
  static std::string RealOf(const Event& args, const char* key) {
    return args.contains(key) ? RealText(args[key].get<double>()) : "";
  }
  static std::string Flow(const Event& event) {
    EXPECT_EQ(event["cat"], "ac2g");
    EXPECT_EQ(event["name"], "ac2g");
    EXPECT_EQ(event.value("bp", ""), event["ph"] == "f" ? "e" : "");
    return event["ph"].get<std::string>() + Number(event["id"]) + " " + Where(event);
  }
  static std::string Where(const Event& event) {
    return Number(event["pid"]) + " " + Number(event["tid"]) + " " + std::to_string(Ns(event["ts"]));
  }
  bool HasFlow(const char* phase, const Event& event, const Event& args) {
    const size_t found = flows_.count(phase + NumberOf(args, "correlation", "0") + " " + Where(event));
    if (found == 0) return false;
    if (seen_.insert(phase + NumberOf(args, "correlation", "0") + " " + Where(event)).second) flows_used_ += found;
    return true;
  }

  void Describe(const Event& event) {
    const auto& value = *event["args"].begin();
    descriptions_.insert(event["name"].get<std::string>() + " " + Number(event["pid"]) + " " + Number(event["tid"]) +
                         " " + (value.is_string() ? value.get<std::string>() : value.dump()));
  }

  void Read(const Event& event) {
    const std::string phase = event["ph"];
    const std::string category = event.value("cat", "");
    const std::string name = event["name"];
    const Event args = event.value("args", Event::object());
    const std::string pid = "pid=" + Number(event["pid"]);
    const std::string tid = " tid=" + Number(event["tid"]);
    const std::string at = " ts=" + std::to_string(Ns(event["ts"]));
    const std::string time = at + " dur=" + (event.contains("dur") ? std::to_string(Ns(event["dur"])) : "");
    const std::string site = TextOf(args, "call site");
    if (phase == "M" || phase == "s" || phase == "f") return;
    if (phase == "C") {
      const auto end = name.find(" pool");
      ASSERT_TRUE(name.starts_with("device ") && end != std::string::npos) << name;
      for (const auto& [key, value] : args.items()) {
        lines_.push_back("counter " + pid + " device=" + name.substr(7, end - 7) + " " + key.substr(0, key.find(' ')) +
                         at + " value=" + Number(value));
      }
    } else if (category == "cuda_runtime" || category == "cuda_driver") {
      EXPECT_EQ(phase, "X");
      const std::string stack = args.contains("Call stack") ? TextOf(args, "Call stack") : site;
      lines_.push_back("call " + pid + tid + time + " " + category + " " + name +
                       " corr=" + NumberOf(args, "correlation", "0") + " bytes=" + NumberOf(args, "bytes", "0") +
                       " stream=" + NumberOf(args, "stream handle", "0") + " device=" + NumberOf(args, "device", "") +
                       " returned=" + NumberOf(args, "returned", "0") + " decision=" + TextOf(args, "decision") +
                       " saved=" + NumberOf(args, "saved ns", "") + " site=" + site + " stack=" + stack +
                       " flow=" + (HasFlow("s", event, args) ? "1" : "0"));
    } else if (category == "user_annotation" && name.starts_with("ProfilerStep#")) {
      lines_.push_back("step " + pid + tid + time + " " + name.substr(13) + " site=" + site);
    } else if (category == "user_annotation") {
      EXPECT_EQ(phase, event.contains("dur") ? "X" : name == "a mark" ? "i" : "B");
      lines_.push_back("range " + pid + tid + time + (phase == "i" ? " mark " : " ") + name);
    } else if (category == "slipstream" && name == "mark") {
      lines_.push_back("mark " + pid + tid + at + " value=" + Number(args["value"]) + " site=" + site);
    } else if (category == "slipstream") {
      EXPECT_EQ(name, "records missing");
      lines_.push_back("drop " + pid + tid + at + " dur=" + Number(args["for ns"]) + " count=" + Number(args["count"]));
    } else {
      Work(event, category, name, args, time);
    }
  }

  void Work(const Event& event, const std::string& category, const std::string& name, const Event& args,
            const std::string& time) {
    EXPECT_EQ(event["ph"], "X");
    const bool is_wait = category == "cuda_sync";
    EXPECT_EQ(args.contains("stream"), !is_wait) << "what has one is work";
    const std::string stream = NumberOf(args, is_wait ? "waited stream" : "stream", "-1");
    EXPECT_EQ(Number(event["tid"]), stream);
    // Devices of one process have their own numbers, of several those that are theirs alone.
    const int64_t pid = event["pid"].get<int64_t>();
    std::string process = "only";
    if (pid >= 100'000'000) {
      EXPECT_EQ(pid % 1000, args["device"].get<int64_t>());
      process = "of " + std::to_string((pid - 100'000'000) / 1000);
    } else {
      EXPECT_EQ(event["pid"], args["device"]);
    }
    std::string line = category + " pid=" + process + " device=" + Number(args["device"]) + " stream=" + stream + time +
                       " " + name + " corr=" + NumberOf(args, "correlation", "0") +
                       " context=" + Number(args["context"]) + " flow=" + (HasFlow("f", event, args) ? "1" : "0") +
                       " by=" + args.value("asked for by", "");
    if (category == "kernel") {
      const auto three = [&](const char* key) {
        return Number(args[key][0]) + "," + Number(args[key][1]) + "," + Number(args[key][2]);
      };
      line += " grid=" + three("grid") + " block=" + three("block") +
              " registers=" + Number(args["registers per thread"]) + " shared=" + Number(args["shared memory"]) +
              " node=" + NumberOf(args, "graph node id", "");
      if (args.contains("blocks per SM")) {
        line += " blocks=" + RealOf(args, "blocks per SM") + " warps=" + RealOf(args, "warps per SM");
      }
    } else if (!is_wait) {
      line += " bytes=" + Number(args["bytes"]) + " bandwidth=" + RealOf(args, "memory bandwidth (GB/s)");
    } else {
      EXPECT_EQ(args["cuda_sync_kind"], name);
    }
    lines_.push_back(line);
  }

  const nlohmann::json json_;
  std::multiset<std::string> flows_;
  std::set<std::string> seen_;
  size_t flows_used_ = 0;
  std::set<std::string> descriptions_;
  Lines lines_;
};

}  // namespace slipstream::trace_export
