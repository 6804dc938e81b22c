#include "tools/tune/journal.h"

#include <nlohmann/json.hpp>

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

}  // namespace

std::string SubjectLine(const Subject& subject) {
  Json knobs = Json::array();
  for (const Knob& knob : subject.knobs) knobs.push_back({{"key", knob.key}, {"values", knob.values}});
  return Line({{"schema", kJournalSchema},
               {"command", subject.command},
               {"policy", subject.policy},
               {"ruler", subject.ruler},
               {"knobs", std::move(knobs)}});
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
        replayed.error = where + "of another command, policy or way to measure";
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
    if (event.kind == Event::Kind::kPair) search->Add(event.figures);
    if (event.kind == Event::Kind::kRefused) search->Refuse(event.why);
    if (event.kind == Event::Kind::kStopped) search->StopTrying();
    ++replayed.events;
    replayed.bytes = at;
  }
  return replayed;
}

}  // namespace slipstream::tune
