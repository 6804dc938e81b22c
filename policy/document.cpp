#include "policy/document.h"

// Nothing of ours is nested at all; a small limit keeps the parser's recursion off small stacks.
#define TOML_MAX_NESTED_VALUES 16
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <tuple>

#include "policy/statements.h"
#include "policy/text.h"

namespace slipstream::policy {
namespace {

// Tables are destroyed recursively, and "a.a.a.a" nests one more with every dot. No policy needs a hundred.
constexpr std::size_t kMostDots = 1000;

// After so many errors in the syntax the rest is not worth reading.
constexpr std::size_t kMostSyntaxErrors = 20;

// Stands in for the header of a table whose own is wrong: what follows must not fall into the table before it.
constexpr std::string_view kPutAside = "\x01 put aside";
constexpr std::string_view kPutAsideHeader = "[[\"\\u0001 put aside\"]]";

constexpr std::string_view kSpace = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

int ToInt(toml::source_index index) { return static_cast<int>(index); }

Entry MakeEntry(const toml::key& key, const toml::node& node, std::vector<std::string> path) {
  Entry entry;
  entry.path = std::move(path);
  entry.key_line = ToInt(key.source().begin.line);
  entry.key_column = ToInt(key.source().begin.column);
  entry.line = ToInt(node.source().begin.line);
  entry.column = ToInt(node.source().begin.column);
  switch (node.type()) {
    case toml::node_type::boolean:
      entry.kind = Entry::Kind::kBool;
      entry.value = node.as_boolean()->get();
      break;
    case toml::node_type::integer:
      entry.kind = Entry::Kind::kInteger;
      entry.value = node.as_integer()->get();
      break;
    case toml::node_type::string:
      entry.kind = Entry::Kind::kString;
      entry.value = node.as_string()->get();
      break;
    case toml::node_type::floating_point:
      entry.kind = Entry::Kind::kFloat;
      break;
    case toml::node_type::array:
      entry.kind = node.is_array_of_tables() ? Entry::Kind::kTableArray : Entry::Kind::kArray;
      break;
    case toml::node_type::table:
      entry.kind = node.as_table()->empty() ? Entry::Kind::kEmptyTable : Entry::Kind::kTable;
      break;
    default:
      entry.kind = Entry::Kind::kDate;
  }
  return entry;
}

void Flatten(const toml::table& table, const std::vector<std::string>& above, std::vector<Entry>& out) {
  for (const auto& [key, node] : table) {
    if (above.empty() && key.str() == kPutAside) continue;
    std::vector<std::string> path = above;
    path.emplace_back(key.str());
    out.push_back(MakeEntry(key, node, path));
    if (const toml::table* inner = node.as_table()) Flatten(*inner, path, out);
  }
}

// The keys as they stand in the text, for an error that has no node: "[a.b]" gives "a.b", "c = 1" gives "c".
std::string_view KeyOf(std::string_view statement) {
  statement = Trim(statement);
  if (statement.starts_with('[')) {
    statement.remove_prefix(std::min(statement.find_first_not_of('['), statement.size()));
    return Trim(statement.substr(0, statement.find(']')));
  }
  return Trim(statement.substr(0, statement.find('=')));
}

// What stands behind the equals sign, without a comment.
std::string_view RawValueOf(std::string_view statement) {
  const std::size_t equals = statement.find('=');
  if (equals == std::string_view::npos) return {};
  statement.remove_prefix(equals + 1);
  return Trim(statement.substr(0, statement.find_first_of("#\n")));
}

int FirstColumn(std::string_view statement) {
  const std::size_t first = statement.find_first_not_of(kSpace);
  return first == std::string_view::npos ? 1 : static_cast<int>(first) + 1;
}

// In words of ours where ours are better.
Problem Explain(const toml::parse_error& error, std::string_view text, const std::vector<Statement>& statements,
                const Statement* statement) {
  Problem problem;
  problem.line = ToInt(error.source().begin.line);
  problem.column = ToInt(error.source().begin.column);
  std::string_view description = error.description();
  const std::string_view words = "Error while parsing ";
  std::string_view subject;
  if (description.starts_with(words)) {
    description.remove_prefix(words.size());
    const std::size_t colon = description.find(": ");
    if (colon != std::string_view::npos) {
      subject = description.substr(0, colon);
      description.remove_prefix(colon + 2);
    }
  }
  problem.what = "not TOML: " + Escape(description);
  if (statement == nullptr) return problem;
  const std::string_view source = text.substr(statement->begin, statement->end - statement->begin);

  if (description.starts_with("cannot redefine existing")) {
    std::string key(KeyOf(source));
    if (!statement->header) {
      // The table it stands in: the last header before it.
      std::string_view table;
      for (const Statement& before : statements) {
        if (before.begin >= statement->begin) break;
        if (before.header) table = KeyOf(text.substr(before.begin, before.end - before.begin));
      }
      if (!table.empty()) key = std::string(table) + "." + key;
    }
    problem.line = statement->first_line;
    problem.column = FirstColumn(source);
    problem.what = (statement->header ? "duplicate table \"" : "duplicate key \"") + Escape(key) + "\"";
    problem.key = std::move(key);
    return problem;
  }
  // A bare word or a size without quotes is the slip of everybody's hand.
  const std::string_view raw = RawValueOf(source);
  const bool bare = !raw.empty() && raw.find_first_of("\"'[]{}= ") == std::string_view::npos;
  if (bare && !statement->header && subject != "string" && subject != "key" && subject != "root table") {
    problem.key = std::string(KeyOf(source));
    problem.what = "not a TOML value";
    problem.found = Escape(raw.substr(0, 80));
    problem.expected = "true, false, a number or text in quotes such as " + Quote(raw);
    problem.line = statement->first_line;
    const std::size_t at = source.find(raw, source.find('='));
    int column = 1;
    for (std::string_view rest = source.substr(0, at); !rest.empty(); ++column) {
      rest.remove_prefix(std::max<std::size_t>(Utf8CharacterLength(rest), 1));
    }
    problem.column = column;
  }
  return problem;
}

// The same number of lines without the statement.
void PutAside(std::string& text, const Statement& statement) {
  std::string instead = statement.header ? std::string(kPutAsideHeader) : std::string();
  const std::string_view source = std::string_view(text).substr(statement.begin, statement.end - statement.begin);
  instead.append(static_cast<std::size_t>(std::count(source.begin(), source.end(), '\n')), '\n');
  text.replace(statement.begin, statement.end - statement.begin, instead);
}

}  // namespace

std::string Entry::Key() const {
  std::string out;
  for (const std::string& part : path) {
    if (!out.empty()) out += '.';
    const auto bare = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    };
    out += !part.empty() && std::all_of(part.begin(), part.end(), bare) ? part : Quote(part);
  }
  return out;
}

std::string Entry::Found() const {
  switch (kind) {
    case Kind::kBool:
      return std::get<bool>(value) ? "true" : "false";
    case Kind::kInteger:
      return std::to_string(std::get<std::int64_t>(value));
    case Kind::kString:
      return Quote(std::get<std::string>(value));
    case Kind::kFloat:
      return "a floating-point number";
    case Kind::kDate:
      return "a date or time";
    case Kind::kArray:
      return "an array";
    case Kind::kTableArray:
      return "an array of tables";
    case Kind::kTable:
    case Kind::kEmptyTable:
      return "a table";
  }
  return "something else";
}

Document ParseDocument(std::string_view text) {
  Document document;
  std::string remaining(text);
  for (;;) {
    const Outline outline = OutlineOf(remaining);
    if (outline.dots > kMostDots) {
      document.problems.push_back({.what = "more than " + std::to_string(kMostDots) + " dots outside of text"});
      return document;
    }
    const toml::parse_result result = toml::parse(std::string_view(remaining));
    if (result) {
      Flatten(result.table(), {}, document.entries);
      const auto position = [](const Entry& e) { return std::tuple(e.key_line, e.key_column, e.path.size()); };
      std::stable_sort(document.entries.begin(), document.entries.end(),
                       [&](const Entry& a, const Entry& b) { return position(a) < position(b); });
      return document;
    }
    const int line = ToInt(result.error().source().begin.line);
    const auto holds = [line](const Statement& s) { return s.first_line <= line && line <= s.last_line; };
    const auto statement = std::find_if(outline.statements.begin(), outline.statements.end(), holds);
    const bool known = statement != outline.statements.end();
    document.problems.push_back(Explain(result.error(), remaining, outline.statements, known ? &*statement : nullptr));
    if (!known || document.problems.size() == kMostSyntaxErrors) return document;
    PutAside(remaining, *statement);
  }
}

}  // namespace slipstream::policy
