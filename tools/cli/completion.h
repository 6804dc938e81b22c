// Scripts that complete slipstream's command line in a shell, made of the command line itself.
//
// Threading: none. Included by main.cpp alone: CLI11 is slow to compile.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace slipstream::cli {

struct Completed {
  std::string path;  // "policy show"; empty: the command line itself
  std::vector<std::string> commands;
  std::vector<const CLI::Option*> options;
};

inline void AddCompleted(const CLI::App& app, const std::string& path, std::vector<Completed>* all) {
  Completed one = {.path = path, .commands = {}, .options = {}};
  for (const CLI::App* const below : app.get_subcommands({})) one.commands.push_back(below->get_name());
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_positional() && !option->get_lnames().empty()) one.options.push_back(option);
  }
  all->push_back(std::move(one));
  for (const CLI::App* const below : app.get_subcommands({}))
    AddCompleted(*below, path + (path.empty() ? "" : " ") + below->get_name(), all);
}

inline std::string Words(const Completed& one) {
  std::string words;
  for (const std::string& command : one.commands) words += command + " ";
  for (const CLI::Option* const option : one.options) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  if (!words.empty()) words.pop_back();
  return words;
}

// A `case` of what there is behind each path: bash and zsh read it alike.
inline std::string Cases(const std::vector<Completed>& all) {
  std::string text = "  case \"$verb\" in\n";
  for (const Completed& one : all) text += "    \"" + one.path + "\") offered=\"" + Words(one) + "\" ;;\n";
  return text + "  esac\n";
}

// Walks over the words before the one that is completed, and ends at --: behind it stands a command. `path` and `words`
// are zsh's own names.
inline std::string Walk(const std::string& array, const std::string& first, const std::string& end,
                        const std::string& known, const std::string& of_command) {
  return "  local verb=\"\" offered=\"\" word i\n"
         "  for ((i = " +
         first + "; i < " + end +
         "; i++)); do\n"
         "    word=\"${" +
         array +
         "[i]}\"\n"
         "    if [[ $word == -- ]]; then\n"
         "      " +
         of_command +
         "\n"
         "      return\n"
         "    fi\n"
         "    case \" " +
         known +
         " \" in\n"
         "      *\" ${verb:+$verb/}$word \"*) verb=\"${verb:+$verb }$word\" ;;\n"
         "    esac\n"
         "  done\n";
}

// The script, empty: no such shell. `topics` stand behind `help`.
inline std::string CompletionFor(const CLI::App& app, const std::string& shell,
                                 const std::vector<std::string>& topics) {
  std::vector<Completed> all;
  AddCompleted(app, "", &all);
  for (Completed& one : all) {
    if (one.path == "help") one.commands = topics;
  }
  std::string known;  // "run policy policy/show"
  for (const Completed& one : all) {
    std::string path = one.path;
    for (char& c : path) c = c == ' ' ? '/' : c;
    if (!path.empty()) known += (known.empty() ? "" : " ") + path;
  }
  if (shell == "bash") {
    return "# slipstream completion bash\n_slipstream() {\n" +
           Walk("COMP_WORDS", "1", "COMP_CWORD", known, "COMPREPLY=()") + Cases(all) +
           // Where no option has been begun there may be a file as well.
           "  if [[ ${COMP_WORDS[COMP_CWORD]} != -* ]]; then\n"
           "    local commands=\"\"\n"
           "    for word in $offered; do [[ $word == --* ]] || commands+=\" $word\"; done\n"
           "    offered=\"$commands\"\n"
           "  fi\n"
           "  COMPREPLY=($(compgen -W \"$offered\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
           "}\ncomplete -o default -o bashdefault -F _slipstream slipstream\n";
  }
  if (shell == "zsh") {
    return "#compdef slipstream\n# slipstream completion zsh\n_slipstream() {\n" +
           Walk("words", "2", "CURRENT", known, "shift $i words; ((CURRENT -= i)); _normal") + Cases(all) +
           "  compadd -- ${=offered}\n"
           "  [[ $words[CURRENT] == -* ]] || _files\n"
           "}\ncompdef _slipstream slipstream\n";
  }
  if (shell == "fish") {
    std::string text = "# slipstream completion fish\n";
    for (const Completed& one : all) {
      std::string condition = "__fish_use_subcommand";
      if (!one.path.empty()) {
        condition = "__fish_seen_subcommand_from " + one.path.substr(one.path.rfind(' ') + 1);
        if (const size_t space = one.path.find(' '); space != std::string::npos)
          condition += "; and __fish_seen_subcommand_from " + one.path.substr(0, space);
      }
      for (const std::string& command : one.commands)
        text += "complete -c slipstream -f -n '" + condition + "' -a " + command + "\n";
      for (const CLI::Option* const option : one.options) {
        for (const std::string& name : option->get_lnames()) {
          text += "complete -c slipstream -n '" + condition + "' -l " + name +
                  (option->get_expected_min() != 0 ? " -r" : "") + "\n";
        }
      }
    }
    return text;
  }
  return "";
}

}  // namespace slipstream::cli
