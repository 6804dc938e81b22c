#include "policy/render.h"

#include <algorithm>
#include <string_view>

#include "policy/children.h"
#include "policy/environment.h"
#include "policy/load.h"
#include "policy/options.h"
#include "policy/rule_keys.h"
#include "policy/value.h"

namespace slipstream::policy {
namespace {

constexpr std::size_t kCommentColumns = 100;

// Calls `use` for every option of a table ("" for those outside of any).
template <typename Use>
void ForEachIn(std::string_view table, Use use) {
  for (const Option& option : Options()) {
    if (option.table == table) use(option);
  }
}

std::string Default(const Option& option) { return Literal(option, option.get(Policy())); }

// Comment lines of at most kCommentColumns, broken at spaces.
void AppendComment(std::string& out, std::string_view text) {
  while (!text.empty()) {
    std::size_t length = text.size();
    if (length > kCommentColumns) {
      length = text.rfind(' ', kCommentColumns);
      if (length == std::string_view::npos) length = text.size();
    }
    out.append("# ").append(text.substr(0, length)).append("\n");
    text.remove_prefix(std::min(length + 1, text.size()));
  }
}

void AppendSetting(std::string& out, const Option& option) {
  AppendComment(out, option.doc);
  if (option.min != option.max || option.type == OptionType::kChoice || option.type == OptionType::kList) {
    AppendComment(out, "Accepts " + Expected(option) + ".");
  }
  // The version is what makes a file a policy; everything else is there to be uncommented.
  if (&option != FindOption("version")) out += '#';
  out.append(option.key).append(" = ").append(Default(option)).append("\n");
}

// One rule as an example, commented out. It ends its table: what stands behind it would be a rule's key.
void AppendExampleRule(std::string& out) {
  AppendComment(out, "Rules for some copies only, as many as wanted, up to " + std::to_string(kMostRules) +
                         ". The first one that matches a copy decides; what it does not say is as the keys above say.");
  out.append("#[[").append(kRuleTable).append("]]\n");
  for (const RuleKey& key : RuleKeys()) {
    AppendComment(out, key.option.doc);
    out.append("#").append(key.option.key).append(" = ").append(key.example).append("\n");
  }
}

// A vertical bar would end the cell.
std::string Cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

void AppendRows(std::string& out, std::string_view table) {
  out += "| Key | Accepts | Default | Meaning | Environment variable |\n|---|---|---|---|---|\n";
  ForEachIn(table, [&](const Option& option) {
    out += "| `" + KeyOf(option) + "` | " + Cell(Expected(option)) + " | `" + Default(option) + "` | " +
           Cell(option.doc) + " | " + (option.overridable ? "`" + VariableOf(option) + "`" : "none") + " |\n";
  });
}

void AppendChildren(std::string& out) {
  out +=
      "\n`drop` wins over `keep`, and both win over `preload`. A pattern is a shell's: `*` is any text, slashes too, "
      "`?` "
      "one character, `[a-z]` one of those, `[!a-z]` one of the others, and `\\` takes the meaning from the character "
      "behind "
      "it. Programs that are known as Python's begin with `python`, `pypy` or `graalpy`; those that only start others, "
      "and so "
      "keep the preload with `preload = \"python\"`, are ";
  for (const std::string_view& name : Starters()) {
    if (&name != &Starters().front()) out += &name == &Starters().back() ? " and " : ", ";
    out.append("`").append(name).append("`");
  }
  out += ". [children.md](children.md) says the rest.\n";
}

void AppendRules(std::string& out) {
  out +=
      "\n### [[transfer.rule]]\n\n"
      "What becomes of some copies only. Each `[[transfer.rule]]` in the file is one rule: the keys that say which "
      "copies it matches (without any: all), and at least one of `promote` and `skip_synchronize`. The first rule that "
      "matches a copy decides, in the order of the file (of several files: [Layers](#layers)); what it does not say is "
      "as the keys of [transfer] say, and "
      "rules behind it are not asked. At most " +
      std::to_string(kMostRules) +
      " rules.\n\n"
      "| Key | Accepts | Example | Meaning |\n|---|---|---|---|\n";
  for (const RuleKey& key : RuleKeys()) {
    out += "| `" + std::string(key.option.key) + "` | " + Cell(Expected(key.option)) + " | `" +
           std::string(key.example) + "` | " + Cell(key.option.doc) + " |\n";
  }
  out +=
      "\nFor example, batches are promoted and everything else is left alone, and every wait behind a large one is "
      "kept:\n\n"
      "    [transfer]\n"
      "    h2d = \"off\"\n\n"
      "    [[transfer.rule]]\n"
      "    name = \"large batches wait\"\n"
      "    direction = \"h2d\"\n"
      "    min_size = \"64MiB\"\n"
      "    promote = true\n"
      "    skip_synchronize = false\n\n"
      "    [[transfer.rule]]\n"
      "    name = \"batches\"\n"
      "    direction = \"h2d\"\n"
      "    min_size = \"1MiB\"\n"
      "    promote = true\n\n"
      "`slipstream policy explain --size 80MB --direction h2d --policy FILE` says what becomes of one copy, and which "
      "line decides it.\n\n"
      "A rule outranks keys, wherever their values come from, a variable too; it never outranks what must hold for a "
      "copy to be promoted or for its synchronization to be skipped ([transfer.md](transfer.md)): `promote = true` and "
      "`skip_synchronize = true` allow, and everything is checked as without a rule. So a rule that nothing would obey "
      "is refused: `skip_synchronize = true` for copies to the host or for copies that are not promoted, "
      "`promote = true` for copies to the host of up to 64 KiB, and a rule whose copies are all matched by rules "
      "before it. Of a program that uses several devices no synchronization is skipped, whatever a rule says. A rule "
      "has "
      "no "
      "variable.\n";
}

}  // namespace

std::string TemplateToml() {
  std::string out =
      "# A slipstream policy. Uncomment a line to change it; what stands here are the defaults.\n"
      "# \"slipstream policy check FILE\" checks it, \"slipstream policy show FILE\" prints what holds and why.\n"
      "# Sizes are bytes, or text such as \"64KiB\", \"1.5GB\" (KiB, MiB, GiB by 1024; kB, MB, GB by 1000).\n"
      "# A variable overrides a key: SLIPSTREAM_LOG_LEVEL=debug is [log] level = \"debug\".\n\n";
  ForEachIn("", [&](const Option& option) {
    AppendSetting(out, option);
    out += '\n';
  });
  for (const Table& table : Tables()) {
    AppendComment(out, table.doc);
    out.append("[").append(table.name).append("]\n");
    ForEachIn(table.name, [&](const Option& option) { AppendSetting(out, option); });
    if (table.name == "transfer") AppendExampleRule(out);
    out += '\n';
  }
  out +=
      "# Variables that \"slipstream run\" gives the command, where the user has not set them. Values are text.\n"
      "[environment]\n"
      "#NVIDIA_TF32_OVERRIDE = \"1\"\n";
  return out;
}

std::string ReferenceMarkdown() {
  std::string out =
      "<!-- Generated from policy/options.cpp and policy/rule_keys.cpp: build the target policy-reference to write it "
      "again. -->\n"
      "# Policy\n\n"
      "A policy says what slipstream does. It is merged from TOML files, each of which may be missing, and from "
      "environment variables; where nothing is said, the defaults below hold.\n\n"
      "    slipstream policy init policy.toml     # writes every key, commented out at its default\n"
      "    slipstream policy check policy.toml    # says everything that is wrong, with line and column\n"
      "    slipstream policy show                 # prints what holds here and where each value comes from\n"
      "    slipstream policy diff default         # prints what differs from the defaults, and who says so\n"
      "    slipstream policy explain --size 80MB --direction h2d --policy policy.toml    # says what becomes of such a "
      "copy\n\n"
      "A policy with anything wrong in it is not used at all: `slipstream run` refuses to start, and a process that "
      "has "
      "the library preloaded by other means says so once on standard error and runs as if slipstream were not "
      "there. A key whose option was removed is accepted for one more version, with a note that it has no effect.\n\n"
      "## Layers\n\n"
      "Key by key, what stands further down wins:\n\n"
      "| Layer | Files | Read by |\n|---|---|---|\n"
      "| default | none | everybody |\n"
      "| system | `/etc/slipstream/policy.toml`, then `/etc/slipstream/policy.d/*.toml` in the order of their names "
      "(bytes) | everybody |\n"
      "| user | `$XDG_CONFIG_HOME/slipstream/policy.toml`, or `~/.config/slipstream/policy.toml` | everybody, unless a "
      "policy is named |\n"
      "| project | `slipstream.toml` in the working directory, else in the nearest folder above it | the `slipstream` "
      "command alone, unless a policy is named |\n"
      "| named | `--policy FILE`, else the files that `SLIPSTREAM_POLICY` lists with colons between them | everybody "
      "|\n"
      "| variables | `SLIPSTREAM_...`, one a key | everybody |\n\n"
      "- **A policy that is named takes the place of the user's and the project's, never of the system's**: limits "
      "that "
      "whoever looks after a machine has set do not vanish because somebody names a file. A key in the named file, or "
      "a "
      "variable, still wins over the same key of the system's. `SLIPSTREAM_POLICY` that is empty names no file: then "
      "neither the user's nor a project's is looked for.\n"
      "- A `[[transfer.rule]]` replaces none of another file: **the rules of a later file come before those of an "
      "earlier one**, in each file's own order. As the first rule that matches decides, a later file wins here too, "
      "and "
      "what its rules do not match is left to the others. Together they may be " +
      std::to_string(kMostRules) +
      ".\n"
      "- The search for a project's file ends at the root of the repository (a folder with `.git`, `.hg` or `.svn`) or "
      "at the home directory, whichever comes first; where there is neither above the working directory, only that one "
      "is looked into. It also ends before a folder that belongs to another user than you and root, or that everybody "
      "may write, as `/tmp`. `slipstream run` says which project's file it has obeyed.\n"
      "- **A project's file that nobody named sets no variables (`[environment]`), no `log.file` and no "
      "`run.summaries`**: it comes "
      "with "
      "whatever was checked out, and would decide which code the command loads, or which files are written. "
      "`--policy slipstream.toml` trusts it.\n"
      "- A process that the library was preloaded into by other means never looks for a project's file: its working "
      "directory may be anybody's.\n"
      "- `slipstream run` hands what it has read to the processes that it starts, as a list in `SLIPSTREAM_POLICY`, so "
      "that they agree with it wherever they go and whatever their `HOME`. In that list a colon or backslash of a "
      "file's name stands behind a backslash; a value that is itself the name of a file is that one file.\n"
      "- `SLIPSTREAM_SYSTEM_DIRECTORY` names another directory than `/etc/slipstream`, and an empty one none. It is no "
      "protection against users, who may switch slipstream off altogether; it is what keeps a default from being "
      "forgotten.\n\n"
      "`slipstream policy show` lists every place that was looked at. `slipstream policy check` without a file checks "
      "all of them. `slipstream policy diff A [B]` compares two policies key by key and their rules as lists; each is "
      "a file, or `default`, `system`, `user`, `project` (the defaults and that layer), or `effective`, which is also "
      "what B is where it is not said. Its exit status is 0 where they are the same, 1 where they differ, 2 where one "
      "of "
      "them cannot be had. `show`, `diff` and `explain` take `--json`.\n\n"
      "## Keys\n\n"
      "Outside of any table:\n\n";
  AppendRows(out, "");
  for (const Table& table : Tables()) {
    out.append("\n### [").append(table.name).append("]\n\n").append(table.doc).append("\n\n");
    AppendRows(out, table.name);
    if (table.name == "transfer") AppendRules(out);
    if (table.name == "children") AppendChildren(out);
  }
  out +=
      "\n### [environment]\n\n"
      "Variables that `slipstream run` gives the command where the user has not set them: `NAME = \"text\"`. Names "
      "have letters, digits and `_`, and begin with no digit. `LD_PRELOAD` and `SLIPSTREAM_*` are refused: the first "
      "is "
      "slipstream's to set (what the user has in it is kept), and for the others there are the keys above. There is no "
      "override: set the variable itself.\n\n"
      "## Sizes\n\n"
      "A number of bytes, or text: digits, a fraction if wanted, a unit. `KiB`, `MiB`, `GiB` are powers of 1024; `kB`, "
      "`MB`, `GB` are powers of 1000; `B` is bytes. `\"1.5GB\"` is 1500000000 bytes. A fraction must give whole "
      "bytes.\n\n"
      "## Environment variables\n\n"
      "Every key but `version` and those of a rule has one: `SLIPSTREAM_`, the table, the key, in capitals. The text "
      "needs no quotes, the elements of an array are separated by colons, and it is "
      "checked as the file is. There `yes`, `on` and `1` are true (or `\"on\"`), `no`, `off` and `0` are false (or "
      "`\"off\"`), in letters of any case. A variable that is nearly one of them (`SLIPSTREAM_TRANSFER_HD2`) is an "
      "error, so that "
      "a "
      "slip of the hand does not go unnoticed. Any other that begins so is somebody else's, as those that Kubernetes "
      "sets for a service named slipstream (`SLIPSTREAM_PORT`): it is ignored, and `slipstream doctor` and `slipstream "
      "policy check` name it. A process has the values that it began with, whatever it does to its variables later. "
      "These have meanings of their own:\n\n"
      "| Variable | Meaning |\n|---|---|\n";
  const auto variable = [&out](const char* name, const char* meaning) {
    out.append("| `").append(name).append("` | ").append(meaning).append(" |\n");
  };
  variable(kPolicyVariable, "The policy files, where the command line names none ([Layers](#layers)). Empty: none.");
  variable(kSystemDirectoryVariable, "The directory of the system's policy, for `/etc/slipstream`. Empty: none.");
  variable(kDisableVariable, "Anything but empty or `0`: every call passes through and no policy is read.");
  variable(kRunDirectoryVariable, "Set by `slipstream run` for the processes that it starts.");
  variable(kRunVariable, "The same: which of them is the first, whose end is the end of the run.");
  variable(kRunPolicyVariable, "The same: the text of the policy as it was when the run began, which they obey.");
  variable(kChildrenVariable, "Set by `slipstream run` where [children] says anything but the defaults.");
  out +=
      "\n## The file\n\n"
      "- `version = " +
      std::to_string(kVersion) +
      "` must be there. A file for another version is refused as a whole.\n"
      "- UTF-8, at most " +
      FormatSize(static_cast<std::int64_t>(kMaxFileSize)) +
      ", a regular file; a symbolic link to one is followed.\n"
      "- It belongs to you or to root, and so does a symbolic link that leads to it: another user's file is refused, "
      "whatever the layer. In a container whose root reads files of a user outside, copy the file or give it to root.\n"
      "- Nobody but its owner and group may write it. A file that everybody may write is refused, and so is one in a "
      "folder that everybody may write without the sticky bit, because everybody could put another file in its place. "
      "That is asked of the folder in the path and of the folder where the path leads past symbolic links, not of the "
      "folders above. On file systems that know no permissions (FAT, some mounts of Windows disks) everything looks "
      "writable by everybody: keep the policy elsewhere.\n\n"
      "## The log\n\n"
      "Silent by default. One line a message, with the time in UTC, the process and the level. `log.file` is created "
      "for "
      "its owner only, and is not written where it is a symbolic link, not a regular file, another user's, or has a "
      "second hard link; one line on standard error says so. A relative name starts at the working directory that the "
      "process has at its first CUDA call. Several processes may share a file. When the next line would make it larger "
      "than `log.max_size` it becomes `FILE.1`, replacing the one before.\n";
  return out;
}

}  // namespace slipstream::policy
