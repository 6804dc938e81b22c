// The texts of the command line: what `--help` prints, 80 columns wide, and the message for a mistake.
//
// Threading: none. Included by main.cpp alone: CLI11 is slow to compile.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/environment.h"
#include "policy/nearest.h"

namespace slipstream::cli {

// CLI11's own help repeats types and ranges behind each option and does not wrap lines.
class HelpFormatter : public CLI::Formatter {
 public:
  // What stands behind "Usage: slipstream" for a command.
  void SetUsage(const CLI::App* command, const std::string& usage) { usages_[command] = usage; }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const auto usage = usages_.find(app);
    const std::string behind = usage != usages_.end() ? usage->second : "";
    std::string text = "Usage: slipstream" + (behind.empty() ? "" : " " + behind) + "\n\n";
    text += Wrapped(app->get_description(), 0);
    for (const bool positional : {true, false}) {
      std::string options;
      for (const CLI::Option* const option : app->get_options()) {
        if (option->get_positional() != positional || option->get_group().empty()) continue;
        options += Row(NameOf(*option), option->get_description());
      }
      if (!options.empty()) text += (positional ? "\nArguments:\n" : "\nOptions:\n") + options;
    }
    std::string commands;
    for (const CLI::App* const command : app->get_subcommands({})) {
      commands += Row(command->get_name(), command->get_description());
    }
    if (!commands.empty()) text += "\nCommands:\n" + commands;
    (void)name;
    (void)mode;
    const std::string footer = app->get_footer();
    return text + (footer.empty() ? "" : "\n" + footer + "\n");
  }

 private:
  static constexpr size_t kColumns = 80;
  static constexpr size_t kNames = 24;

  // "-o, --out FILE"
  static std::string NameOf(const CLI::Option& option) {
    if (option.get_positional()) return option.get_name();
    std::string name;
    for (const std::string& one : option.get_snames()) name += (name.empty() ? "-" : ", -") + one;
    for (const std::string& one : option.get_lnames()) name += (name.empty() ? "--" : ", --") + one;
    // Of "FLOAT:POSITIVE" the first word; flags take no value.
    std::string value = option.get_type_size() == 0 ? "" : option.get_type_name();
    value.resize(std::min(value.size(), value.find(':')));
    return name + (value.empty() ? "" : " " + value);
  }

  // Words on lines of 80 columns, all of them indented; lines that the text has itself stay apart.
  static std::string Wrapped(const std::string& text, size_t indent) {
    std::string lines;
    std::string line(indent, ' ');
    bool empty = true;
    std::string word;
    const auto put = [&] {
      if (word.empty()) return;
      if (!empty && line.size() + 1 + word.size() > kColumns) {
        lines += line + "\n";
        line.assign(indent, ' ');
        empty = true;
      }
      line += (empty ? "" : " ") + word;
      empty = false;
      word.clear();
    };
    for (const char c : text) {
      if (c != ' ' && c != '\n') {
        word += c;
        continue;
      }
      put();
      if (c == '\n') {
        lines += line + "\n";
        line.assign(indent, ' ');
        empty = true;
      }
    }
    put();
    return lines + line + "\n";
  }

  static std::string Row(const std::string& name, const std::string& description) {
    const std::string left = "  " + name;
    const std::string right = Wrapped(description, kNames);
    return left.size() + 2 > kNames ? left + "\n" + right : left + right.substr(left.size());
  }

  std::map<const CLI::App*, std::string> usages_;
};

// A file of the user's, or a program on PATH.
inline bool IsProgram(const std::string& word) {
  std::error_code error;
  if (word.find('/') != std::string::npos || word.ends_with(".py"))
    return std::filesystem::exists(word, error) && !std::filesystem::is_directory(word, error);
  const char* const path = policy::EnvironmentValue("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    if (!folder.empty() && access((std::string(folder) + "/" + word).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// "; did you mean --policy?" where one of the names is near; else nothing.
inline std::string DidYouMean(std::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = policy::Nearest(name, names);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

// The message for a command line that cannot be parsed: one line, and where to read on.
inline std::string MistakeText(const CLI::ParseError& error, const CLI::App& app,
                               const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (bool deeper = true; deeper;) {
    const std::vector<CLI::App*> parsed = command->get_subcommands();
    deeper = !parsed.empty();
    if (deeper) command = parsed.front();
  }
  std::string path = "slipstream";
  for (const CLI::App* one = command; one != &app; one = one->get_parent()) path.insert(10, " " + one->get_name());
  std::string text = error.what();
  std::vector<std::string> commands;
  for (const CLI::App* const one : command->get_subcommands({})) commands.push_back(one->get_name());
  std::vector<std::string> options;
  for (const CLI::Option* const option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  const std::vector<std::string> rest = command->remaining();
  const std::string first = !rest.empty()                           ? rest.front()
                            : command == &app && !arguments.empty() ? arguments.front()
                                                                    : "";
  if (!commands.empty() && !first.empty() && first[0] != '-') {
    text = "no command \"" + first + "\"" + DidYouMean(first, commands);
  } else if (!commands.empty() && first.empty()) {
    text = "no command";
  } else if (!first.empty() && first[0] == '-') {
    text = "no option " + first + DidYouMean(first.substr(0, first.find('=')), options);
  } else if (!first.empty()) {
    text = "what is \"" + first + "\" for?";
  }
  return path + ": " + text + "\n  `" + path + " --help` says what there is.\n";
}

// What was meant by a command line that cannot be parsed: why that is none, and the right one. Empty: nobody knows.
struct Meant {
  std::string why;
  std::vector<std::string> line;  // without "slipstream"
};

// `arguments` up to the first "--", `behind` what stands after it; `takes_command`: of a command's name.
inline Meant WhatWasMeant(const CLI::App& app, const std::vector<std::string>& arguments,
                          const std::vector<std::string>& behind, bool has_separator,
                          const std::function<bool(const std::string&)>& takes_command) {
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  std::vector<std::string> names;
  for (const CLI::App* const one : app.get_subcommands({})) names.push_back(one->get_name());
  const auto verb = std::find_if(arguments.begin(), arguments.end(), [&](const std::string& word) {
    return std::find(names.begin(), names.end(), word) != names.end();
  });
  Meant meant;
  const auto add_command = [&](std::vector<std::string>::const_iterator first) {
    meant.line.emplace_back("--");
    const bool is_script = first != arguments.end() && first->ends_with(".py");
    if (is_script && access(first->c_str(), X_OK) != 0) meant.line.emplace_back("python");
    meant.line.insert(meant.line.end(), first, arguments.end());
  };
  if (verb == arguments.end()) {
    const bool is_program = !arguments.empty() && !is_option(arguments[0]) && IsProgram(arguments[0]);
    if (!is_program || !policy::Nearest(arguments[0], names).empty()) return meant;
    meant.why = "no command \"" + arguments[0] + "\". To run it under slipstream:";
    meant.line = {"run"};
    add_command(arguments.begin());
  } else {
    if (!std::all_of(arguments.begin(), verb, is_option)) return meant;
    const auto below = [](const CLI::App* above, const std::string& name) -> const CLI::App* {
      for (const CLI::App* const one : above->get_subcommands({})) {
        if (one->get_name() == name) return one;
      }
      return nullptr;
    };
    const CLI::App* command = &app;
    auto word = verb;
    for (; word != arguments.end() && below(command, *word) != nullptr; ++word) {
      command = below(command, *word);
      meant.line.push_back(*word);
    }
    meant.line.insert(meant.line.end(), arguments.begin(), verb);
    for (; word != arguments.end() && is_option(*word); ++word) {
      meant.line.push_back(*word);
      const CLI::Option* const option = command->get_option_no_throw(*word);
      if (option == nullptr || option->get_expected_min() == 0 || word + 1 == arguments.end()) continue;
      meant.line.push_back(*++word);
    }
    const auto options = command->get_options();
    const bool takes_words =
        std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->get_positional(); });
    const bool is_command = word != arguments.end() && (!takes_words || IsProgram(*word));
    if (takes_command(*verb) && !has_separator && is_command) {
      meant.why = "the command stands after --:";
      add_command(word);
    } else if (verb != arguments.begin()) {
      meant.why = "the options stand after the command's name:";
      meant.line.insert(meant.line.end(), word, arguments.end());
    } else {
      meant.line.clear();
      return meant;
    }
  }
  if (has_separator) {
    meant.line.emplace_back("--");
    meant.line.insert(meant.line.end(), behind.begin(), behind.end());
  }
  return meant;
}

}  // namespace slipstream::cli
