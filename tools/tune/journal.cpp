#include "tools/tune/journal.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

namespace slipstream::tune {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json ContestJson(const Contest* contest) {
  if (contest == nullptr) return nullptr;
  return {{"stage", NameOf(contest->stage)}, {"key", contest->key}, {"value", contest->value}, {"pair", contest->pair}};
}

// Of numbers that a double holds exactly: the text that gives the same one.
Json FigureJson(const compare::Figure& figure) { return Json::array({figure.value, figure.rounding}); }

bool ReadFigure(const Json& json, compare::Figure* figure) {
  if (!json.is_array() || json.size() != 2 || !json[0].is_number() || !json[1].is_number()) return false;
  *figure = {json[0].get<double>(), json[1].get<double>()};
  return figure->value > 0 && figure->rounding >= 0;
}

// Nothing is thrown where nothing was parsed.
bool ReadEvent(const Json& json, Event* event) {
  if (!json.is_object()) return false;
  if (json.contains("stopped")) {
    event->kind = Event::Kind::kStopped;
    return true;
  }
  if (json.contains("refused") && json["refused"].is_string()) {
    event->kind = Event::Kind::kRefused;
    event->why = json["refused"].get<std::string>();
    return true;
  }
  event->kind = Event::Kind::kPair;
  return json.contains("incumbent") && json.contains("challenger") &&
         ReadFigure(json["incumbent"], event->figures.data()) && ReadFigure(json["challenger"], &event->figures[1]);
}

// FNV-1a of 64 bits over the words, each with its end.
std::string DigestOf(const std::vector<std::string>& words) {
  uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&digest](char byte) { digest = (digest ^ static_cast<unsigned char>(byte)) * 0x100000001b3; };
  for (const std::string& word : words) {
    for (const char byte : word) add(byte);
    add('\0');
  }
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016" PRIx64, digest);
  return text.data();
}

// Why a search of this subject cannot go on from measurements of the one of this line.
std::string WhyAnother(std::string_view line, const Subject& subject) {
  const Json was = Json::parse(line, nullptr, false);
  const Json is = Json::parse(SubjectLine(subject));
  if (!was.is_object() || !was.contains("schema") || was["schema"] != is["schema"]) {
    return "not of this version of slipstream";
  }
  struct Part {
    const char* key;
    const char* where;
    const char* what;
  };
  constexpr std::array<Part, 4> kPlace = {{{"host", "on the machine ", "this is "},
                                           {"devices", "with the GPU ", "here it is "},
                                           {"driver", "with the driver ", "here it is "},
                                           {"slipstream", "by slipstream ", "this is "}}};
  const auto text = [](const Json& json, const char* key) {
    const std::string found = json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
    return found.empty() ? std::string("an unknown one") : found;
  };
  for (const Part& part : kPlace) {
    const std::string then = text(was, part.key);
    const std::string now = text(is, part.key);
    if (then != now) return std::string("measured ") + part.where + then + ", and " + part.what + now;
  }
  return "of another command, policy or way to measure";
}

}  // namespace

std::string SubjectLine(const Subject& subject) {
  Json knobs = Json::array();
  for (const Knob& knob : subject.knobs) knobs.push_back({{"key", knob.key}, {"values", knob.values}});
  return Line(
      {{"schema", kJournalSchema},
       {"program", subject.command.empty() ? "" : std::filesystem::path(subject.command[0]).filename().string()},
       {"command_digest", DigestOf(subject.command)},
       {"policy", subject.policy},
       {"ruler", subject.ruler},
       {"knobs", std::move(knobs)},
       {"host", subject.place.host},
       {"devices", subject.place.devices},
       {"driver", subject.place.driver},
       {"slipstream", subject.place.slipstream}});
}

std::optional<std::vector<Knob>> KnobsOf(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const Json json = Json::parse(text.substr(0, end), nullptr, false);
  if (!json.is_object() || !json.contains("knobs") || !json["knobs"].is_array()) return std::nullopt;
  std::vector<Knob> knobs;
  for (const Json& one : json["knobs"]) {
    if (!one.is_object() || !one.contains("key") || !one["key"].is_string() || !one.contains("values") ||
        !one["values"].is_array()) {
      return std::nullopt;
    }
    Knob knob = {.key = one["key"].get<std::string>(), .values = {}};
    for (const Json& value : one["values"]) {
      if (!value.is_string()) return std::nullopt;
      knob.values.push_back(value.get<std::string>());
    }
    knobs.push_back(std::move(knob));
  }
  return knobs;
}

std::string EventLine(const Contest* contest, const Event& event) {
  Json json = {{"contest", ContestJson(contest)}};
  switch (event.kind) {
    case Event::Kind::kPair:
      json["incumbent"] = FigureJson(event.figures[0]);
      json["challenger"] = FigureJson(event.figures[1]);
      break;
    case Event::Kind::kRefused:
      json["refused"] = event.why;
      break;
    case Event::Kind::kStopped:
      json["stopped"] = true;
      break;
  }
  return Line(json);
}

Replayed Replay(std::string_view text, const Subject& subject, Search* search) {
  Replayed replayed;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(at, end + 1 - at);
    ++number;
    at = end + 1;
    const std::string where = "line " + std::to_string(number) + ": ";
    if (number == 1) {
      if (line != SubjectLine(subject)) {
        replayed.error = where + WhyAnother(line, subject);
        return replayed;
      }
      replayed.bytes = at;
      continue;
    }
    const Json json = Json::parse(line, nullptr, false);
    Event event;
    if (json.is_discarded() || !ReadEvent(json, &event)) {
      replayed.error = where + "not what `slipstream tune` writes";
      return replayed;
    }
    const Contest* const contest = search->next() ? &*search->next() : nullptr;
    if (contest == nullptr || !json.contains("contest") || json["contest"] != ContestJson(contest)) {
      replayed.error = where + "not the measurement that comes next: of another version of slipstream";
      return replayed;
    }
    if (event.kind == Event::Kind::kStopped) {
      replayed.stopped = true;
      return replayed;
    }
    if (event.kind == Event::Kind::kPair) search->Add(event.figures);
    if (event.kind == Event::Kind::kRefused) search->Refuse(event.why);
    ++replayed.events;
    replayed.bytes = at;
  }
  return replayed;
}

}  // namespace slipstream::tune
