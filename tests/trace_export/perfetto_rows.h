// A Perfetto trace read back, as the lines of expected_rows.h: packets by number as Perfetto's .proto files have them,
// interned data put together, and slices made of what begins and ends on a track, in the order of time, as Perfetto's
// trace processor makes them.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/trace_export/expected_rows.h"

namespace slipstream::trace_export {

class PerfettoRows {
 public:
  struct Track {
    uint64_t parent = 0;
    std::string name;
    std::optional<int64_t> pid;  // a process's or a thread's
    std::optional<int64_t> tid;
    std::string command;
    std::vector<std::string> labels;
    std::optional<int32_t> unit;
  };

  // `start_unix_ns`: wall time of the trace's 0.
  PerfettoRows(const std::string& bytes, int64_t start_unix_ns) : start_unix_ns_(start_unix_ns) {
    protozero::pbf_reader trace(bytes);
    while (trace.next()) {
      EXPECT_EQ(trace.tag(), 1U);
      Packet(trace.get_message());
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.timestamp < b.timestamp; });
    std::map<uint64_t, std::vector<size_t>> open;
    std::vector<std::optional<int64_t>> ends(events_.size());
    for (size_t i = 0; i < events_.size(); ++i) {
      std::vector<size_t>& stack = open[events_[i].track];
      if (events_[i].type == 1) stack.push_back(i);
      if (events_[i].type != 2) continue;
      if (stack.empty()) {
        ADD_FAILURE() << "a slice ends that did not begin";
        continue;
      }
      ends[stack.back()] = events_[i].timestamp;
      stack.pop_back();
    }
    for (size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].type != 2) Read(events_[i], ends[i]);
    }
  }

  Lines All() const { return Sorted(lines_); }
  const std::map<uint64_t, Track>& tracks() const { return tracks_; }

 private:
  using Reader = protozero::pbf_reader;
  using Texts = std::map<uint64_t, std::string>;

  struct Frame {
    uint64_t function = 0;
    uint64_t path = 0;
    std::optional<uint32_t> line;
  };
  struct Event {
    int64_t timestamp = 0;
    int32_t type = 0;
    uint64_t track = 0;
    std::string category;
    std::string name;
    std::string site;
    std::string stack;
    std::map<std::string, std::string> notes;
    std::vector<uint64_t> flows;
    int64_t value = 0;
  };

  static std::string LineText(const std::string& file, const std::optional<uint32_t>& line,
                              const std::string& function) {
    return file + "(" + (line ? std::to_string(*line) : "?") + "): " + function;
  }

  void Packet(Reader packet) {
    int64_t timestamp = -1;
    uint32_t sequence = 0;
    uint32_t flags = 0;
    bool is_first = false;
    std::optional<Reader> event;
    std::optional<Reader> interned;
    while (packet.next()) {
      switch (packet.tag()) {
        case 6:
          Clocks(packet.get_message());
          break;
        case 8:
          timestamp = static_cast<int64_t>(packet.get_uint64());
          break;
        case 10:
          sequence = packet.get_uint32();
          break;
        case 11:
          event = packet.get_message();
          break;
        case 12:
          interned = packet.get_message();
          break;
        case 13:
          flags = packet.get_uint32();
          break;
        case 60:
          Describe(packet.get_message());
          break;
        case 87:
          is_first = packet.get_bool();
          break;
        default:
          ADD_FAILURE() << "field " << packet.tag() << " of a packet";
          packet.skip();
      }
    }
    // One sequence, whose first packet says that nothing was before it.
    EXPECT_EQ(sequence, 1U);
    EXPECT_EQ(is_first, packets_++ == 0);
    EXPECT_EQ((flags & 1) != 0, is_first);
    if (interned) {
      EXPECT_NE(flags, 0U);
      Intern(*interned);
    }
    if (!event) return;
    EXPECT_EQ(flags, 2U);
    EXPECT_GE(timestamp, 0);
    TrackEvent(*event, timestamp);
  }

  void Clocks(Reader snapshot) {
    std::map<uint32_t, int64_t> clocks;
    while (snapshot.next(1)) {
      Reader clock = snapshot.get_message();
      uint32_t id = 0;
      int64_t time = 0;
      while (clock.next()) {
        if (clock.tag() == 1) {
          id = clock.get_uint32();
        } else {
          EXPECT_EQ(clock.tag(), 2U);
          time = static_cast<int64_t>(clock.get_uint64());
        }
      }
      clocks[id] = time;
    }
    EXPECT_EQ(clocks.size(), 2U);
    EXPECT_EQ(clocks[6], 0);
    base_ns_ = clocks[1] - start_unix_ns_;
  }

  void Describe(Reader descriptor) {
    uint64_t uuid = 0;
    Track track;
    while (descriptor.next()) {
      switch (descriptor.tag()) {
        case 1:
          uuid = descriptor.get_uint64();
          break;
        case 2:
          track.name = descriptor.get_string();
          break;
        case 3:
          for (Reader process = descriptor.get_message(); process.next();) {
            if (process.tag() == 1)
              track.pid = process.get_int32();
            else if (process.tag() == 2)
              track.command = process.get_string();
            else if (process.tag() == 6)
              track.name = process.get_string();
            else if (process.tag() == 8)
              track.labels.push_back(process.get_string());
            else
              ADD_FAILURE() << process.tag();
          }
          break;
        case 4:
          for (Reader thread = descriptor.get_message(); thread.next();) {
            if (thread.tag() == 1)
              track.pid = thread.get_int32();
            else if (thread.tag() == 2)
              track.tid = thread.get_int64();
            else if (thread.tag() == 5)
              track.name = thread.get_string();
            else
              ADD_FAILURE() << thread.tag();
          }
          break;
        case 5:
          track.parent = descriptor.get_uint64();
          break;
        case 8:
          for (Reader counter = descriptor.get_message(); counter.next();) {
            EXPECT_EQ(counter.tag(), 3U);
            track.unit = counter.get_enum();
          }
          break;
        default:
          ADD_FAILURE() << "field " << descriptor.tag() << " of a track";
      }
    }
    EXPECT_NE(uuid, 0U);
    EXPECT_TRUE(track.parent == 0 || tracks_.count(track.parent) != 0);
    EXPECT_TRUE(tracks_.emplace(uuid, track).second);
  }

  void Intern(Reader data) {
    while (data.next()) {
      const uint32_t kind = data.tag();
      Reader one = data.get_message();
      uint64_t id = 0;
      std::string text;
      Frame frame;
      std::vector<uint64_t> frames;
      std::string function;
      std::optional<uint32_t> line;
      while (one.next()) {
        if (one.tag() == 1)
          id = one.get_uint64();
        else if (kind == 7 && one.tag() == 2)
          frames.push_back(one.get_uint64());
        else if (kind == 6 && one.tag() == 2)
          frame.function = one.get_uint64();
        else if (kind == 6 && one.tag() == 5)
          frame.path = one.get_uint64();
        else if (kind == 6 && one.tag() == 6)
          frame.line = one.get_uint32();
        else if (kind == 4 && one.tag() == 3)
          function = one.get_string();
        else if (kind == 4 && one.tag() == 4)
          line = one.get_uint32();
        else if (one.tag() == 2)
          text = one.get_string();
        else
          ADD_FAILURE() << "field " << one.tag() << " of interned data " << kind;
      }
      EXPECT_NE(id, 0U);
      EXPECT_TRUE(ids_.insert({kind, id}).second) << "interned twice";
      if (kind == 6)
        frames_[id] = frame;
      else if (kind == 7)
        callstacks_[id] = frames;
      else if (kind == 4)
        texts_[kind][id] = LineText(text, line, function);
      else
        texts_[kind][id] = text;
    }
  }

  std::string TextOf(uint32_t kind, uint64_t id) {
    EXPECT_EQ(texts_[kind].count(id), 1U) << "not interned before its use: " << kind << " " << id;
    return texts_[kind][id];
  }

  void TrackEvent(Reader reader, int64_t timestamp) {
    Event event;
    event.timestamp = timestamp + base_ns_;
    while (reader.next()) {
      switch (reader.tag()) {
        case 3:
          event.category = TextOf(1, reader.get_uint64());
          break;
        case 4:
          Note(reader.get_message(), &event);
          break;
        case 9:
          event.type = reader.get_enum();
          break;
        case 10:
          event.name = TextOf(2, reader.get_uint64());
          break;
        case 11:
          event.track = reader.get_uint64();
          break;
        case 30:
          event.value = reader.get_int64();
          break;
        case 34:
          event.site = TextOf(4, reader.get_uint64());
          break;
        case 47:
          event.flows.push_back(reader.get_fixed64());
          break;
        case 56:
          for (const uint64_t id : callstacks_.at(reader.get_uint64())) {
            const Frame& frame = frames_.at(id);
            if (!event.stack.empty()) event.stack += ";";
            event.stack += LineText(TextOf(18, frame.path), frame.line, TextOf(5, frame.function));
          }
          break;
        default:
          ADD_FAILURE() << "field " << reader.tag() << " of an event";
          reader.skip();
      }
    }
    EXPECT_EQ(tracks_.count(event.track), 1U) << "not described before its use";
    events_.push_back(std::move(event));
  }

  void Note(Reader note, Event* event) {
    std::string name;
    std::string value;
    while (note.next()) {
      if (note.tag() == 1)
        name = TextOf(3, note.get_uint64());
      else if (note.tag() == 4)
        value = std::to_string(note.get_int64());
      else if (note.tag() == 5)
        value = RealText(note.get_double());
      else if (note.tag() == 6)
        value = note.get_string();
      else if (note.tag() == 17)
        value = TextOf(29, note.get_uint64());
      else
        ADD_FAILURE() << "field " << note.tag() << " of an annotation";
    }
    EXPECT_TRUE(event->notes.emplace(name, value).second) << name;
  }

  // What follows the text in a name.
  static std::string Behind(const std::string& name, const std::string& text) {
    const size_t at = name.find(text);
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? "" : name.substr(at + text.size());
  }

  void Read(const Event& event, std::optional<int64_t> end) {
    const auto note = [&](const char* key, const char* without = "") {
      const auto found = event.notes.find(key);
      return found == event.notes.end() ? without : found->second;
    };
    const Track& track = tracks_.at(event.track);
    // The process that it is under, and the thread.
    std::string tid;
    const Track* at = &track;
    for (; !at->pid || at->tid; at = &tracks_.at(at->parent)) {
      if (at->tid) tid = std::to_string(*at->tid);
      if (at->parent == 0) break;
    }
    ASSERT_TRUE(at->pid.has_value()) << track.name;
    const std::string pid = "pid=" + std::to_string(*at->pid);
    const std::string ts = " ts=" + std::to_string(event.timestamp);
    const std::string time = ts + " dur=" + (end ? std::to_string(*end - event.timestamp) : "");
    if (event.type == 4) {
      const size_t pool = track.name.find(" pool: ");
      ASSERT_TRUE(track.name.starts_with("device ") && pool != std::string::npos) << track.name;
      const std::string what = track.name.substr(pool + 7);
      EXPECT_EQ(track.unit, what == "trims" || what == "retries" ? 2 : 3);
      lines_.push_back("counter " + pid + " device=" + track.name.substr(7, pool - 7) + " " + what + ts +
                       " value=" + std::to_string(event.value));
      return;
    }
    if (event.type == 1 && event.category != "user_annotation") {
      EXPECT_TRUE(end.has_value()) << event.name;
    }
    if (event.category == "cuda_runtime" || event.category == "cuda_driver") {
      EXPECT_EQ(event.type, 1);
      const bool flows = !event.flows.empty();
      if (flows) {
        EXPECT_EQ(event.flows, std::vector<uint64_t>{std::stoull(note("correlation"))});
      }
      lines_.push_back("call " + pid + " tid=" + tid + time + " " + event.category + " " + event.name +
                       " corr=" + note("correlation", "0") + " bytes=" + note("bytes", "0") + " stream=" +
                       note("stream handle", "0") + " device=" + note("device") + " returned=" + note("returned", "0") +
                       " decision=" + note("decision") + " saved=" + note("saved ns") + " site=" + event.site +
                       " stack=" + event.stack + " flow=" + (flows ? "1" : "0"));
    } else if (event.category == "step") {
      EXPECT_EQ(track.name, "steps");
      EXPECT_EQ(event.name, "step " + note("number"));
      lines_.push_back("step " + pid + time + " " + note("number") + " site=" + event.site);
    } else if (event.category == "user_annotation") {
      EXPECT_EQ(event.type, event.name == "a mark" ? 3 : 1);
      lines_.push_back("range " + pid + " tid=" + Behind(track.name, "NVTX of thread ") + time +
                       (event.type == 3 ? " mark " : " ") + event.name);
    } else if (event.name == "mark") {
      EXPECT_EQ(event.type, 3);
      lines_.push_back("mark " + pid + " tid=" + tid + ts + " value=" + note("value") + " site=" + event.site);
    } else if (event.name == "records missing") {
      lines_.push_back("drop " + pid + " tid=" + Behind(track.name, "of thread ") + time + " count=" + note("count"));
    } else {
      Work(event, track, pid, time);
    }
  }

  void Work(const Event& event, const Track& track, const std::string& pid, const std::string& time) {
    const auto note = [&](const std::string& key) {
      const auto found = event.notes.find(key);
      return found == event.notes.end() ? "" : found->second;
    };
    const auto three = [&](const char* key) {
      std::string text = note(key);
      for (size_t at = text.find(" x "); at != std::string::npos; at = text.find(" x ")) text.replace(at, 3, ",");
      return text;
    };
    const bool is_wait = event.category == "cuda_sync";
    EXPECT_EQ(tracks_.at(track.parent).name, "GPU " + note("device"));
    EXPECT_EQ(track.name, !is_wait                 ? "stream " + note("stream")
                          : note("stream") == "-1" ? "synchronizations of the context"
                                                   : "synchronizations of stream " + note("stream"));
    const bool flows = !event.flows.empty();
    if (flows) {
      EXPECT_EQ(event.flows, std::vector<uint64_t>{std::stoull(note("correlation"))});
    }
    const std::string correlation = note("correlation");
    std::string line = event.category + " " + pid + " device=" + note("device") + " stream=" + note("stream") + time +
                       " " + event.name + " corr=" + (correlation.empty() ? "0" : correlation) +
                       " context=" + note("context") + " flow=" + (flows ? "1" : "0") + " by=" + note("asked for by");
    if (event.category == "kernel") {
      line += " grid=" + three("grid") + " block=" + three("block") + " registers=" + note("registers per thread") +
              " shared=" + note("shared memory") + " node=" + note("graph node id");
      if (event.notes.count("blocks per SM") != 0) {
        line += " blocks=" + note("blocks per SM") + " warps=" + note("warps per SM");
      }
    } else if (!is_wait) {
      line += " bytes=" + note("bytes") + " bandwidth=" + note("memory bandwidth (GB/s)");
    }
    lines_.push_back(line);
  }

  const int64_t start_unix_ns_;
  int64_t base_ns_ = 0;
  uint64_t packets_ = 0;
  std::map<uint64_t, Track> tracks_;
  std::map<uint32_t, Texts> texts_;
  std::map<uint64_t, Frame> frames_;
  std::map<uint64_t, std::vector<uint64_t>> callstacks_;
  std::set<std::pair<uint32_t, uint64_t>> ids_;
  std::vector<Event> events_;
  Lines lines_;
};

}  // namespace slipstream::trace_export
