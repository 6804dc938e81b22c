// What is reported, where, and in which words.

#include "policy/load.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "policy/document.h"
#include "tests/support/process.h"

namespace slipstream::policy {
namespace {

using test::Variables;

using std::string_literals::operator""s;
using Strings = std::vector<std::string>;

Strings Formatted(const Loaded& loaded) {
  Strings lines;
  for (const Problem& problem : loaded.problems) lines.push_back(problem.Format());
  return lines;
}

Loaded LoadOnly(const std::string& text) { return LoadText(text, "policy.toml", Environment(Variables{})); }

struct Case {
  std::string name;
  std::string text;
  Strings problems;
};

// Stands in the names of the tests, where bytes of the object would change from run to run.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class LoadProblems : public ::testing::TestWithParam<Case> {};

TEST_P(LoadProblems, AreReportedWithTheirPlace) {
  const Loaded loaded = LoadOnly(GetParam().text);
  EXPECT_EQ(Formatted(loaded), GetParam().problems);
  EXPECT_FALSE(loaded.ok());
  EXPECT_FALSE(loaded.policy.enabled);
}

const std::string kSize = "a size from 64KiB to 1GiB, as a number of bytes or like \"512MiB\"";
const std::string kLevels = "\"off\", \"error\", \"warn\", \"info\" or \"debug\"";

INSTANTIATE_TEST_SUITE_P(
    , LoadProblems,
    ::testing::Values(
        // Version.
        Case{"Empty", "", {"policy.toml:1:1: \"version\" is missing, expected version = 1"}},
        Case{"VersionMissing",
             "[log]\nlevel = \"off\"\n",
             {"policy.toml:1:1: \"version\" is missing, expected version = 1"}},
        Case{"VersionUnknown",
             "version = 2\nnew_key = 1\n",
             {"policy.toml:1:11: \"version\": found 2 (a policy version that this slipstream does not know; nothing "
              "else "
              "was checked), expected 1"}},
        Case{"VersionText", "version = \"1\"\n", {"policy.toml:1:11: \"version\": found \"1\", expected 1"}},
        Case{"VersionTable", "[version]\nx = 1\n", {"policy.toml:1:1: \"version\": found a table, expected 1"}},
        Case{"VersionBare",
             "version = one\n",
             {"policy.toml:1:11: \"version\": found one (not a TOML value), expected 1"}},
        Case{"VersionElsewhere",
             "[log]\nversion = 1\n",
             {"policy.toml:1:1: \"version\" is missing, expected version = 1",
              "policy.toml:2:1: unknown key \"log.version\"; did you mean \"version\"?"}},
        // Unknown keys.
        Case{"UnknownTable",
             "version = 1\n[alocator]\n  mode = \"off\"\n",
             {"policy.toml:3:3: unknown key \"alocator.mode\"; did you mean \"allocator.mode\"?"}},
        Case{"UnknownTableDotted",
             "version = 1\nalocator . mode = \"off\"\n",
             {"policy.toml:2:12: unknown key \"alocator.mode\"; did you mean \"allocator.mode\"?"}},
        Case{"UnknownKey",
             "version = 1\n[transfer]\nhd2 = \"off\"\n",
             {"policy.toml:3:1: unknown key \"transfer.hd2\"; did you mean \"transfer.h2d\"?"}},
        Case{"UnknownKeyFar", "version = 1\nweather = \"fine\"\n", {"policy.toml:2:1: unknown key \"weather\""}},
        Case{"TableForgotten",
             "version = 1\nmax_threads = 5\n",
             {"policy.toml:2:1: unknown key \"max_threads\"; did you mean \"tracer.max_threads\"?"}},
        Case{"EmptyUnknownTable",
             "version = 1\n[trasfer]\n",
             {"policy.toml:2:2: unknown table \"trasfer\"; did you mean \"transfer\"?"}},
        Case{"UnknownInlineTable",
             "version = 1\ntracr = { nvtx = true, counters = \"off\" }\n",
             {"policy.toml:2:11: unknown key \"tracr.nvtx\"; did you mean \"tracer.nvtx\"?",
              "policy.toml:2:24: unknown key \"tracr.counters\"; did you mean \"tracer.counters\"?"}},
        Case{"QuotedDottedKey",
             "version = 1\n\"log.level\" = \"off\"\n",
             {"policy.toml:2:1: unknown key \"\"log.level\"\"; did you mean \"log.level\"?"}},
        Case{"Capitals",
             "version = 1\n[log]\nLevel = \"off\"\n",
             {"policy.toml:3:1: unknown key \"log.Level\"; did you mean \"log.level\"?"}},
        // Types.
        Case{"Bool",
             "version = 1\nenabled = \"yes\"\n",
             {"policy.toml:2:11: \"enabled\": found \"yes\", expected true or false"}},
        Case{"BoolNumber",
             "version = 1\nenabled = 0\n",
             {"policy.toml:2:11: \"enabled\": found 0, expected true or false"}},
        Case{"TextBool",
             "version = 1\n[log]\nfile = false\n",
             {"policy.toml:3:8: \"log.file\": found false, expected text without NUL"}},
        Case{"TextFloat",
             "version = 1\n[log]\nfile = 1.5\n",
             {"policy.toml:3:8: \"log.file\": found a floating-point number, expected text without NUL"}},
        Case{"TextDate",
             "version = 1\n[log]\nfile = 1979-05-27\n",
             {"policy.toml:3:8: \"log.file\": found a date or time, expected text without NUL"}},
        Case{"TextArray",
             "version = 1\n[log]\nfile = [\"a\"]\n",
             {"policy.toml:3:8: \"log.file\": found an array, expected text without NUL"}},
        Case{"TextNul",
             "version = 1\n[log]\nfile = \"a\\u0000b\"\n",
             {"policy.toml:3:8: \"log.file\": found \"a\\u0000b\", expected text without NUL"}},
        Case{"TableForValue",
             "version = 1\n[log.level]\nx.y = 1\n",
             {"policy.toml:2:1: \"log.level\": found a table, expected " + kLevels}},
        Case{"ValueForTable",
             "version = 1\nlog = \"debug\"\n",
             {"policy.toml:2:7: \"log\": found \"debug\", expected a table"}},
        Case{"ArrayForTable",
             "version = 1\n[[log]]\nlevel = \"off\"\n",
             {"policy.toml:2:1: \"log\": found an array of tables, expected a table"}},
        Case{"ArrayOfUnknown",
             "version = 1\n[[logs]]\nlevel = \"off\"\n",
             {"policy.toml:2:3: unknown table \"logs\"; did you mean \"log\"?"}},
        // Ranges and choices.
        Case{"IntegerLow",
             "version = 1\ntracer.max_threads = 0\n",
             {"policy.toml:2:22: \"tracer.max_threads\": found 0, expected an integer from 1 to 4096"}},
        Case{"IntegerHigh",
             "version = 1\ntracer.max_threads = 4097\n",
             {"policy.toml:2:22: \"tracer.max_threads\": found 4097, expected an integer from 1 to 4096"}},
        Case{"IntegerHuge",
             "version = 1\ntracer.max_threads = 99999999999999999999\n",
             {"policy.toml:2:22: \"tracer.max_threads\": found 99999999999999999999 (not a TOML value), expected an "
              "integer from 1 to 4096"}},
        Case{"IntegerWraps",
             "version = 1\ntracer.max_threads = 4294967297\n",
             {"policy.toml:2:22: \"tracer.max_threads\": found 4294967297, expected an integer from 1 to 4096"}},
        Case{"SizeSmall",
             "version = 1\nlog.max_size = 65535\n",
             {"policy.toml:2:16: \"log.max_size\": found 65535, expected " + kSize}},
        Case{"SizeLarge",
             "version = 1\nlog.max_size = \"1.000000001GiB\"\n",
             {"policy.toml:2:16: \"log.max_size\": found \"1.000000001GiB\" (not a whole number of bytes), expected " +
              kSize}},
        Case{"SizeNegative",
             "version = 1\nlog.max_size = -1\n",
             {"policy.toml:2:16: \"log.max_size\": found -1, expected " + kSize}},
        Case{"SizeNegativeText",
             "version = 1\nlog.max_size = \"-1MiB\"\n",
             {"policy.toml:2:16: \"log.max_size\": found \"-1MiB\", expected " + kSize}},
        Case{"SizeOverflow",
             "version = 1\nlog.max_size = \"99999999999GiB\"\n",
             {"policy.toml:2:16: \"log.max_size\": found \"99999999999GiB\" (more than 64 bits hold), expected " +
              kSize}},
        Case{"SizeUnit",
             "version = 1\nlog.max_size = \"16M\"\n",
             {"policy.toml:2:16: \"log.max_size\": found \"16M\", expected " + kSize}},
        Case{"SizeBare",
             "version = 1\n[log]\nmax_size = 16MiB # large\n",
             {"policy.toml:3:12: \"log.max_size\": found 16MiB (not a TOML value), expected " + kSize}},
        Case{"Choice",
             "version = 1\n[log]\nlevel = \"debgu\"\n",
             {"policy.toml:3:9: \"log.level\": found \"debgu\", expected " + kLevels + "; did you mean \"debug\"?"}},
        Case{"ChoiceBare",
             "version = 1\n[log]\nlevel = debug\n",
             {"policy.toml:3:9: \"log.level\": found debug (not a TOML value), expected " + kLevels}},
        Case{"Level",
             "version = 1\n[intercept]\nlevel = \"drivers\"\n",
             {"policy.toml:3:9: \"intercept.level\": found \"drivers\", expected \"runtime\" or \"driver\"; did you "
              "mean "
              "\"driver\"?"}},
        Case{"Stacks",
             "version = 1\n[tracer]\nrecord = \"on\"\nstacks = \"native\"\nmax_file = 65535\n",
             {"policy.toml:4:10: \"tracer.stacks\": found \"native\", expected \"none\", \"line\", \"python\" or "
              "\"full\"",
              "policy.toml:5:12: \"tracer.max_file\": found 65535, expected a size from 64KiB to 1024GiB, as a number "
              "of "
              "bytes or like \"512MiB\""}},
        Case{"Allocator",
             "version = 1\nallocator.mode = \"expandible\"\n",
             {"policy.toml:2:18: \"allocator.mode\": found \"expandible\", expected \"off\", \"segments\" or "
              "\"expandable\"; did you mean \"expandable\"?"}},
        Case{"On",
             "version = 1\nallocator = { pinned = \"off\", mode = \"unlimited\" }\n",
             {"policy.toml:2:38: \"allocator.mode\": found \"unlimited\", expected \"off\", \"segments\" or "
              "\"expandable\""}},
        Case{"Transfer",
             "version = 1\n[transfer]\nh2d = \"On\"\nsmall_copies = \"on\"\nskip_syncronize = false\n"
             "hmm = \"asume_private\"\nthreads = 65\nmax_pinned = \"7MiB\"\nstart = \"never\"\n",
             {"policy.toml:3:7: \"transfer.h2d\": found \"On\", expected \"off\" or \"on\"; did you mean \"on\"?",
              "policy.toml:4:16: \"transfer.small_copies\": found \"on\", expected true or false",
              "policy.toml:5:1: unknown key \"transfer.skip_syncronize\"; did you mean \"transfer.skip_synchronize\"?",
              "policy.toml:6:7: \"transfer.hmm\": found \"asume_private\", expected \"stand_aside\" or "
              "\"assume_private\"; did you mean \"assume_private\"?",
              "policy.toml:7:11: \"transfer.threads\": found 65, expected an integer from 0 to 64",
              "policy.toml:8:14: \"transfer.max_pinned\": found \"7MiB\", expected a size from 8MiB to 64GiB, as a "
              "number of bytes or like \"512MiB\"",
              "policy.toml:9:9: \"transfer.start\": found \"never\", expected \"background\" or \"now\""}},
        // Duplicates.
        Case{"DuplicateKey",
             "version = 1\n[log]\nlevel = \"off\"\n  level = \"off\"\n",
             {"policy.toml:4:3: duplicate key \"log.level\""}},
        Case{"DuplicateDotted",
             "version = 1\nlog.level = \"off\"\nlog.level = \"off\"\n",
             {"policy.toml:3:1: duplicate key \"log.level\""}},
        Case{"DuplicateTable",
             "version = 1\n[log]\n[tracer]\n[log]\nlevel = \"off\"\n",
             {"policy.toml:4:1: duplicate table \"log\""}},
        Case{"DuplicateInline",
             "version = 1\nlog = { level = \"off\", level = \"off\" }\n",
             {"policy.toml:2:32: not TOML: cannot redefine existing string 'level'"}},
        // Syntax. What else is wrong is reported too.
        Case{"Header", "version = 1\n[log\nlevel = \"x\"\n", {"policy.toml:2:5: not TOML: expected ']', saw '\\n'"}},
        // What toml++ 3.3 leaves undefined outside of quotes.
        Case{"LetterOutsideOfQuotes",
             "version = 1\né = 1\nenabled = falseé\n[é]\n",
             {"policy.toml:2:1: not TOML: expected keys, tables, whitespace or comments, saw 'é'",
              "policy.toml:3:11: \"enabled\": found falseé (not a TOML value), expected true or false",
              "policy.toml:4:2: not TOML: expected bare key starting character or string delimiter, saw 'é'"}},
        Case{"HeaderOfADot",
             "version = 1\n[.]\n",
             {"policy.toml:2:2: not TOML: expected bare key starting character or string delimiter, saw '.'"}},
        Case{"NoValue",
             "version = 1\nenabled =\nweather = 1\n",
             {"policy.toml:2:10: not TOML: expected value, saw '\\n'", "policy.toml:3:1: unknown key \"weather\""}},
        Case{"Unterminated",
             "version = 1\n[log]\nfile = \"a\nlevel = \"x\"\n",
             {"policy.toml:3:10: not TOML: unescaped control characters other than TAB (U+0009) are explicitly "
              "prohibited",
              "policy.toml:4:9: \"log.level\": found \"x\", expected " + kLevels}},
        Case{"Array",
             "version = 1\n[tracer]\nmax_threads = [1,\n2\nnvtx = 3\n",
             {"policy.toml:5:1: not TOML: expected comma or closing ']', saw 'n'"}},
        Case{"Three",
             "version = 1\na = \nlog.level = loud\nlog.fiel = 1\n",
             {"policy.toml:2:5: not TOML: expected value, saw '\\n'",
              "policy.toml:3:13: \"log.level\": found loud (not a TOML value), expected " + kLevels,
              "policy.toml:4:5: unknown key \"log.fiel\"; did you mean \"log.file\"?"}},
        Case{"Nested",
             "version = 1\nx = " + std::string(17, '[') + std::string(17, ']') + "\n",
             {"policy.toml:2:21: not TOML: exceeded maximum nested value depth of 16 (TOML_MAX_NESTED_VALUES)"}},
        // [[transfer.rule]].
        Case{"RuleKeys",
             "version = 1\n[[transfer.rule]]\nmin_sise = 1\npromote = \"yes\"\n[[transfer.rule]]\n  device = 256\n"
             "  max_size = 0\n  direction = \"up\"\n  name = 3\n  transfer.promote = true\n",
             {"policy.toml:3:1: unknown key \"transfer.rule.min_sise\"; did you mean \"transfer.rule.min_size\"?",
              "policy.toml:4:11: \"transfer.rule.promote\": found \"yes\", expected true or false",
              "policy.toml:6:12: \"transfer.rule.device\": found 256, expected an integer from 0 to 255",
              "policy.toml:7:14: \"transfer.rule.max_size\": found 0, expected a size from 1B to 1024GiB, as a number "
              "of bytes or like \"512MiB\"",
              "policy.toml:8:15: \"transfer.rule.direction\": found \"up\", expected \"h2d\" or \"d2h\"",
              "policy.toml:9:10: \"transfer.rule.name\": found 3, expected text without NUL",
              "policy.toml:10:12: unknown key \"transfer.rule.transfer.promote\"; did you mean "
              "\"transfer.rule.promote\"?"}},
        Case{"RuleSites",
             "version = 1\n[[transfer.rule]]\nsite = \"\"\npromote = false\n[[transfer.rule]]\nsite = \"train.py:0\"\n"
             "promote = false\n[[transfer.rule]]\nsite = \":4\"\npromote = false\n[[transfer.rule]]\nsite = 42\n"
             "promote = false\n",
             {"policy.toml:3:8: \"transfer.rule.site\": found \"\" (no place in a program), expected a file, or a file "
              "and a line: \"train.py:42\"",
              "policy.toml:6:8: \"transfer.rule.site\": found \"train.py:0\" (no place in a program), expected a file, "
              "or a file and a line: \"train.py:42\"",
              "policy.toml:9:8: \"transfer.rule.site\": found \":4\" (no place in a program), expected a file, or a "
              "file and a line: \"train.py:42\"",
              "policy.toml:12:8: \"transfer.rule.site\": found 42, expected text without NUL"}},
        Case{"RuleSitesBehindOthers",
             "version = 1\n[[transfer.rule]]\nsite = \"train.py\"\npromote = false\n[[transfer.rule]]\n"
             "site = \"job/train.py:42\"\npromote = false\n[[transfer.rule]]\npromote = false\n"
             "[[transfer.rule]]\nsite = \"other.py\"\npromote = false\n",
             {"policy.toml:5:1: a rule that no copy can reach: those before it match all that it does",
              "policy.toml:10:1: a rule that no copy can reach: those before it match all that it does"}},
        Case{"RuleSizes",
             "version = 1\n[[transfer.rule]]\nmax_size = \"1MiB\"\nmin_size = \"1.5MiB\"\npromote = false\n",
             {"policy.toml:3:12: \"transfer.rule.max_size\": found \"1MiB\" (no copy has such a size), expected a size "
              "from 1536KiB, the rule's min_size"}},
        Case{"RuleWithoutAction",
             "version = 1\n  [[transfer.rule]]\nmin_size = 1\nname = \"x\"\n[[transfer.rule]]\n",
             {"policy.toml:2:3: a rule without an action, expected promote or skip_synchronize",
              "policy.toml:5:1: a rule without an action, expected promote or skip_synchronize"}},
        Case{"RuleThatNobodyObeys",
             "version = 1\n[[transfer.rule]]\ndirection = \"d2h\"\nmax_size = \"64KiB\"\npromote = true\n"
             "[[transfer.rule]]\ndirection = \"d2h\"\nskip_synchronize = true\n"
             "[[transfer.rule]]\npromote = false\nskip_synchronize = true\n",
             {"policy.toml:5:11: \"transfer.rule.promote\": found true (copies to the host of up to 64KiB are never "
              "promoted), expected false",
              "policy.toml:8:20: \"transfer.rule.skip_synchronize\": found true (the synchronization behind a copy to "
              "the "
              "host is never skipped), expected false",
              "policy.toml:11:20: \"transfer.rule.skip_synchronize\": found true (the synchronization behind a copy "
              "that "
              "is not promoted is never skipped), expected false"}},
        Case{"RuleThatNoCopyReaches",
             "version = 1\n[[transfer.rule]]\npromote = false\n[[transfer.rule]]\ndevice = 1\npromote = true\n",
             {"policy.toml:4:1: a rule that no copy can reach: those before it match all that it does"}},
        Case{"RuleAsATable",
             "version = 1\n[transfer.rule]\npromote = false\n",
             {"policy.toml:2:1: \"transfer.rule\": found a table, expected an array of tables: [[transfer.rule]]"}},
        Case{"RuleAsAValue",
             "version = 1\ntransfer.rule = [1, {}]\n",
             {"policy.toml:2:17: \"transfer.rule\": found an array, expected an array of tables: [[transfer.rule]]"}},
        Case{"RuleBare",
             "version = 1\n[[transfer.rule]]\npromote = yes\n",
             {"policy.toml:3:11: \"transfer.rule.promote\": found yes (not a TOML value), expected true or false"}},
        Case{"RuleTwice",
             "version = 1\n[[transfer.rule]]\npromote = true\npromote = false\n",
             {"policy.toml:4:1: duplicate key \"transfer.rule.promote\""}},
        Case{"RuleTables",
             "version = 1\n[[transfer.rule]]\n[transfer.rule.promote]\nx = 1\n[transfer.rule.match]\nsize = 1\n"
             "[[transfer.rule.device]]\nx = 1\n",
             {"policy.toml:3:1: \"transfer.rule.promote\": found a table, expected true or false",
              "policy.toml:6:1: unknown key \"transfer.rule.match.size\"; did you mean \"transfer.rule.max_size\"?",
              "policy.toml:7:1: \"transfer.rule.device\": found an array of tables, expected an integer from 0 to "
              "255"}},
        Case{"RuleInAnArrayOfItsOwn",
             "version = 1\n[[transfer]]\n[[transfer.rule]]\npromote = 1\n",
             {"policy.toml:2:1: \"transfer\": found an array of tables, expected a table"}},
        // Columns are characters; lines end with \n or \r\n; a byte order mark counts for nothing.
        Case{"Columns",
             "version = 1\n[environment]\n\"é€\" = \"x\"\nA = \"ééé\"\nB = { \"é\" = 1, b = 2 }\n",
             {"policy.toml:3:1: \"environment.\"é€\"\" does not name a variable, expected letters, digits and _, no "
              "digit "
              "first",
              "policy.toml:5:5: \"environment.B\": found a table, expected text in quotes"}},
        Case{
            "ColumnOfBareValue",
            "version = 1\nlog.\"é\" = zzz\n",
            {"policy.toml:2:11: \"log.\"é\"\": found zzz (not a TOML value), expected true, false, a number or text in "
             "quotes such as \"zzz\""}},
        Case{"CarriageReturn",
             "version = 1\r\n[log]\r\nlevel = 1\r\n",
             {"policy.toml:3:9: \"log.level\": found 1, expected " + kLevels}},
        Case{"ByteOrderMark",
             "\xEF\xBB\xBFversion = 3\n",
             {"policy.toml:1:11: \"version\": found 3 (a policy version that this slipstream does not know; nothing "
              "else "
              "was checked), expected 1"}},
        // Characters.
        Case{"NotUtf8",
             "version = 1\nlog.file = \"é\xff\xfe\"\n# \xc3\x28\n",
             {"policy.toml:2:14: not UTF-8: byte \\xff", "policy.toml:3:3: not UTF-8: byte \\xc3"}},
        Case{"Nul", "version = 1\nlog.file = \"a\0b\"\n"s, {"policy.toml:2:14: a NUL character"}},
        Case{"TerminalEscape",
             "version = 1\nlog.level = \"\\u001b[31m\"\n",
             {"policy.toml:2:13: \"log.level\": found \"\\u001b[31m\", expected " + kLevels}},
        Case{"LongValue",
             "version = 1\nlog.level = \"" + std::string(200, 'x') + "\"\n",
             {"policy.toml:2:13: \"log.level\": found \"" + std::string(80, 'x') + "\"..., expected " + kLevels}},
        // [environment].
        Case{"Preload",
             "version = 1\n[environment]\nLD_PRELOAD = \"x.so\"\n",
             {"policy.toml:3:1: LD_PRELOAD may not be set here: slipstream run sets it, and keeps what the user has in "
              "it"}},
        Case{"Own",
             "version = 1\n[environment]\nSLIPSTREAM_LOG_LEVEL = \"debug\"\n",
             {"policy.toml:3:1: SLIPSTREAM_LOG_LEVEL may not be set here: this file is where slipstream's own settings "
              "stand"}},
        Case{
            "Names",
            "version = 1\n[environment]\n1A = \"\"\n\"\" = \"\"\n\"A=B\" = \"\"\nA-B = \"\"\n",
            {"policy.toml:3:1: \"environment.1A\" does not name a variable, expected letters, digits and _, no digit "
             "first",
             "policy.toml:4:1: \"environment.\"\"\" does not name a variable, expected letters, digits and _, no digit "
             "first",
             "policy.toml:5:1: \"environment.\"A=B\"\" does not name a variable, expected letters, digits and _, no "
             "digit "
             "first",
             "policy.toml:6:1: \"environment.A-B\" does not name a variable, expected letters, digits and _, no digit "
             "first"}},
        Case{"EnvironmentTypes",
             "version = 1\n[environment]\nA = 1\nB = true\nC = \"a\\u0000\"\nD.e = \"x\"\n",
             {"policy.toml:3:5: \"environment.A\": found 1, expected text in quotes",
              "policy.toml:4:5: \"environment.B\": found true, expected text in quotes",
              "policy.toml:5:5: \"environment.C\": found \"a\\u0000\", expected text without NUL",
              "policy.toml:6:1: \"environment.D\": found a table, expected text in quotes"}},
        Case{"EnvironmentLong",
             "version = 1\n[environment]\nA = \"" + std::string(40000, 'x') + "\"\n",
             {"policy.toml:3:5: \"environment.A\" is too long, expected at most 32768 bytes with its name"}}),
    [](const ::testing::TestParamInfo<Case>& test) { return test.param.name; });

TEST(Load, WithoutAFileItIsTheDefaults) {
  const Loaded loaded = Load({.path = std::nullopt, .env = Environment(Variables{{"PATH", "/bin"}, {"SLIP", "x"}})});
  EXPECT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.policy, Policy());
  EXPECT_FALSE(loaded.path);
  for (const auto& [key, origin] : loaded.origins) EXPECT_EQ(origin.Format(), "default") << key;
}

TEST(Load, EveryValueOfAFileArrives) {
  const Loaded loaded = LoadOnly(
      "version = 1\n"
      "enabled = false\n"
      "environment = { NVIDIA_TF32_OVERRIDE = \"1\", EMPTY = \"\" }\n"
      "[log]\nlevel = \"debug\"\nfile = '/tmp/slipstream.log'\nmax_size = \"1.5MB\"\n"
      "[intercept]\nlevel = \"runtime\"\n"
      "[run]\nsummaries = \"/srv/runs\"\nsummaries_mode = \"group\"\n"
      "[allocator]\nmode = \"off\"\npre_reserve = \"1GiB\"\npre_reserve_block = \"2MiB\"\n"
      "[transfer]\nh2d = \"off\"\nd2h = \"off\"\nsmall_copies = false\nlarge_copies = false\n"
      "skip_synchronize = false\nskip_with_rdma = true\nhmm = \"stand_aside\"\nthreads = 3\nmax_pinned = \"1GiB\"\n"
      "max_mirrored = \"2GiB\"\ndevice_staging = 0\nverify = true\n"
      "start = \"now\"\nunmap_in_background = false\n"
      "[tracer]\ncounters = \"calls\"\nnvtx = false\nmax_threads = 0x10\nrecord = \"on\"\n"
      "stacks = \"none\"\nranges = false\nmax_file = \"1MiB\"\nkeep = \"newest\"\nwindow = \"steps 3-4\"\n");
  ASSERT_EQ(Formatted(loaded), Strings{});
  Policy expected;
  expected.enabled = false;
  expected.environment = {{"NVIDIA_TF32_OVERRIDE", "1"}, {"EMPTY", ""}};
  expected.log = {.level = LogLevel::kDebug, .file = "/tmp/slipstream.log", .max_size = 1500000};
  expected.run.summaries = "/srv/runs";
  expected.run.summaries_mode = SummariesMode::kGroup;
  expected.allocator.mode = AllocatorMode::kOff;
  expected.allocator.pre_reserve = std::uint64_t{1} << 30;
  expected.allocator.pre_reserve_block = std::uint64_t{2} << 20;
  expected.transfer = {.h2d = TransferMode::kOff,
                       .d2h = TransferMode::kOff,
                       .small_copies = false,
                       .large_copies = false,
                       .skip_synchronize = false,
                       .skip_with_rdma = true,
                       .hmm = HmmMode::kStandAside,
                       .threads = 3,
                       .max_pinned = std::uint64_t{1} << 30,
                       .max_mirrored = std::uint64_t{2} << 30,
                       .device_staging = 0,
                       .verify = true,
                       .start = TransferStart::kNow,
                       .unmap_in_background = false};
  expected.tracer = {.counters = Counters::kCalls,
                     .nvtx = false,
                     .max_threads = 16,
                     .record = Record::kOn,
                     .stacks = Stacks::kNone,
                     .ranges = false,
                     .max_file = std::uint64_t{1} << 20,
                     .keep = Keep::kNewest,
                     .window = "steps 3-4"};
  EXPECT_EQ(loaded.policy, expected);
  EXPECT_EQ(loaded.origins.at("log.level"),
            (Origin{.kind = Origin::Kind::kFile, .name = "policy.toml", .line = 5, .column = 9}));
  EXPECT_EQ(loaded.origins.at("log.level").Format(), "policy.toml:5");
  EXPECT_EQ(loaded.origins.at("environment.EMPTY").Format(), "policy.toml:3");
}

TEST(Load, VariablesOverrideTheFileAndSayWhatIsWrongWithThem) {
  const std::string text = "version = 1\nlog.level = \"warn\"\ntracer.nvtx = 3\n";
  const Loaded loaded = LoadText(text, "policy.toml",
                                 Environment(Variables{{"SLIPSTREAM_LOG_LEVEL", "debug"},
                                                       {"SLIPSTREAM_TRANSFER_H2D", "on"},
                                                       {"SLIPSTREAM_ALLOCATOR_MODE", "unlimited"},
                                                       {"SLIPSTREAM_TRANSFER_HD2", "off"},
                                                       {"SLIPSTREAM_DISABEL", "1"},
                                                       {"SLIPSTREAM_VERSION", "1"},
                                                       {"SLIPSTREAM_ENVIRONMENT_A", "1"},
                                                       {"SLIPSTREAM_", "1"},
                                                       {"SLIPSTREAM_LOG_MAX_SIZE", "1 TiB"},
                                                       {"SLIPSTREAM_POLICY", "/nonexistent"},
                                                       {"SLIPSTREAM_DISABLE", "0"},
                                                       {"SLIPSTREAM_RUN_DIRECTORY", "/tmp"}}));
  EXPECT_EQ(Formatted(loaded),
            (Strings{"policy.toml:3:15: \"tracer.nvtx\": found 3, expected true or false",
                     "environment variable SLIPSTREAM_ALLOCATOR_MODE: found \"unlimited\", expected "
                     "\"off\", \"segments\" or \"expandable\"",
                     "environment variable SLIPSTREAM_DISABEL: not one that slipstream knows; did you mean "
                     "\"SLIPSTREAM_DISABLE\"?",
                     "environment variable SLIPSTREAM_ENVIRONMENT_A: [environment] has no overrides: set the variable "
                     "itself",
                     "environment variable SLIPSTREAM_LOG_MAX_SIZE: found \"1 TiB\", expected " + kSize,
                     "environment variable SLIPSTREAM_TRANSFER_HD2: not one that slipstream knows; did you mean "
                     "\"SLIPSTREAM_TRANSFER_H2D\"?",
                     "environment variable SLIPSTREAM_VERSION: \"version\" belongs to the file and has no override"}));
}

// Those of a Kubernetes service "slipstream", of its host and port; and what anybody might have.
TEST(Load, OtherPeoplesVariablesAreIgnored) {
  const Variables others = {{"SLIPSTREAM_", "1"},
                            {"SLIPSTREAM_BUILD_ID", "7"},
                            {"SLIPSTREAM_HOME", "/opt/slipstream"},
                            {"SLIPSTREAM_PORT", "tcp://10.0.0.1:80"},
                            {"SLIPSTREAM_PORT_80_TCP", "tcp://10.0.0.1:80"},
                            {"SLIPSTREAM_PORT_80_TCP_ADDR", "10.0.0.1"},
                            {"SLIPSTREAM_PORT_80_TCP_PORT", "80"},
                            {"SLIPSTREAM_PORT_80_TCP_PROTO", "tcp"},
                            {"SLIPSTREAM_SERVICE_HOST", "10.0.0.1"},
                            {"SLIPSTREAM_SERVICE_PORT", "80"},
                            {"SLIPSTREAM_SERVICE_PORT_HTTP", "80"},
                            {"SLIPSTREAM_TOKEN", "x"},
                            {"SLIPSTREAM_URL", "x"}};
  Variables all = others;
  all["SLIPSTREAM_LOG_LEVEL"] = "debug";
  const Loaded loaded = LoadText("version = 1\n", "policy.toml", Environment(all));
  EXPECT_TRUE(loaded.ok()) << ::testing::PrintToString(Formatted(loaded));
  EXPECT_EQ(loaded.policy.log.level, LogLevel::kDebug);
  Strings names;
  for (const auto& [name, value] : others) names.push_back(name);
  EXPECT_EQ(loaded.foreign, names);
  EXPECT_EQ(loaded.ForeignText().at(2),
            "environment variable SLIPSTREAM_HOME: ignored, no key of the policy has that name");
}

TEST(Load, VariablesThatAreOurs) {
  for (const char* name :
       {"SLIPSTREAM_POLICY", "SLIPSTREAM_DISABLE", "SLIPSTREAM_TRANSFER_H2D", "SLIPSTREAM_RUN_DIRECTORY",
        "SLIPSTREAM_RUN_ROOT", "SLIPSTREAM_RUN_POLICY", "SLIPSTREAM_CHILDREN"}) {
    EXPECT_TRUE(IsOwnVariable(name)) << name;
  }
  for (const char* name : {"SLIPSTREAM_", "SLIPSTREAM_PORT", "TRANSFER_H2D", ""})
    EXPECT_FALSE(IsOwnVariable(name)) << name;
}

TEST(Load, SizesOfBothKindsArrive) {
  const Loaded file = LoadOnly("version = 1\nlog.max_size = 70000\n");
  EXPECT_EQ(file.policy.log.max_size, 70000U);
  const Loaded variable =
      Load({.path = std::nullopt, .env = Environment(Variables{{"SLIPSTREAM_LOG_MAX_SIZE", "70000"}})});
  EXPECT_EQ(variable.policy.log.max_size, 70000U);
}

TEST(Load, TextTooLargeIsRefused) {
  EXPECT_TRUE(LoadOnly("version = 1\n" + std::string(kMaxFileSize - 12, '\n')).ok());
  EXPECT_EQ(Formatted(LoadOnly("version = 1\n" + std::string(kMaxFileSize - 11, '\n'))),
            Strings{"policy.toml: is larger than 1MiB, the most that is read"});
}

// Tables are destroyed recursively: without a limit, this ends the process with a stack overflow.
TEST(Load, AbsurdlyDeepTablesAreRefused) {
  std::string keys = "a";
  for (int i = 0; i < 250000; ++i) keys += ".a";
  EXPECT_EQ(Formatted(LoadOnly("version = 1\n" + keys + " = 1\n[b." + keys + "]\n")),
            Strings{"policy.toml: more than 1000 dots outside of text"});
}

TEST(Load, ManySyntaxErrorsEnd) {
  std::string text = "version = 1\n";
  for (int i = 0; i < 1000; ++i) text += "= 1\n";
  EXPECT_EQ(LoadOnly(text).problems.size(), 20U);
}

TEST(Document, EntriesAreInTheOrderOfTheText) {
  const Document document = ParseDocument("[z]\nb = 1\na = 2\n[c]\nd = 3\n");
  Strings keys;
  for (const Entry& entry : document.entries) keys.push_back(entry.Key());
  EXPECT_EQ(keys, (Strings{"z", "z.b", "z.a", "c", "c.d"}));
}

}  // namespace
}  // namespace slipstream::policy
