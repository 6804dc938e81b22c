"""tools/test counts right, shows why, and never passes for having done nothing."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import unittest
import unittest.mock
import xml.etree.ElementTree as ElementTree

from support import ROOT, CheckTest

import ctest
import legs
import main
import slowest
import sources
import tidy
from cases import FAILED, PASSED, SKIPPED, Case, read_ctest_junit, skip_reason

GTEST_SKIP = """[ RUN      ] A.Skip
/somewhere/a_test.cpp:5: Skipped
needs a GPU,
and there is none

[  SKIPPED ] A.Skip (0 ms)
"""


@unittest.skipUnless(shutil.which("ctest"), "ctest is not here")
class PreparedFolder(CheckTest):
    def add_test(self, name, script, properties=""):
        command = f'add_test([=[{name}]=] "sh" "-c" [==[{script}]==])\n'
        return command + (f"set_tests_properties([=[{name}]=] PROPERTIES {properties})\n" if properties else "")

    def run_tests(self, *tests, arguments=(), folder=None):
        folder = folder or self.scratch / "build"
        folder.mkdir(exist_ok=True)
        (folder / "CTestTestfile.cmake").write_text("".join(tests))
        return self.run_prepared(folder, *arguments)

    def run_prepared(self, folder, *arguments):
        done = subprocess.run([ROOT / "tools" / "test", "--build", folder, *arguments], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done

    def assert_ends(self, done, status, last_line):
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (status, last_line), done.stdout)

    def test_all_pass(self):
        self.assert_ends(self.run_tests(self.add_test("a", "true"), self.add_test("b", "true")), 0, "2 passed, 0 failed, 0 skipped")

    def test_a_failure_shows_its_output(self):
        done = self.run_tests(self.add_test("good", "true"), self.add_test("bad", "echo the reason of it; exit 3"))
        self.assert_ends(done, 1, "1 passed, 1 failed, 0 skipped")
        self.assertIn("prepared: bad failed\n  | the reason of it\n", done.stdout)

    def test_the_end_names_what_failed(self):
        done = self.run_tests(self.add_test("good", "true"), self.add_test("bad", "false"), self.add_test("worse", "exit 4"))
        self.assertEqual([line for line in done.stdout.splitlines() if not line.startswith("    | ")][-4:],
                         ["failed:", "  prepared: bad", "  prepared: worse", "1 passed, 2 failed, 0 skipped"])

    def test_the_end_says_why_in_short_lines(self):
        words = "begun; echo /x/a_test.cpp:7: Failure; echo Expected: 1; seq 1 50"
        done = self.run_tests(
            self.add_test("says", f"echo {words}; exit 1"),
            self.add_test("unit", f"echo begun; echo 'FAIL: test_x (Y)'; seq 1 50; exit 1"),
            self.add_test("silent", f"seq 1 50; echo {'x' * 500}; exit 1"))
        end = done.stdout[done.stdout.index("failed:\n"):].splitlines()
        at = end.index("  prepared: says")
        self.assertEqual(["    | /x/a_test.cpp:7: Failure", "    | Expected: 1", "    | 1", "    | 2"], end[at + 1 : at + 5])
        at = end.index("  prepared: unit")
        self.assertEqual(["    | FAIL: test_x (Y)", "    | 1"], end[at + 1 : at + 3])
        at = end.index("  prepared: silent")
        self.assertIn("    | " + "x" * 200, end[at + 1 : at + 5])

    def test_a_long_failure_shows_its_beginning_and_its_end(self):
        done = self.run_tests(self.add_test("bad", "echo it begins; seq 1 20000; echo it ends; exit 1"))
        self.assertIn("  | it begins\n", done.stdout)
        self.assertIn("characters ...\n", done.stdout)
        self.assertIn("  | it ends\n", done.stdout)
        self.assertLess(len(done.stdout), 60000)

    def test_a_skip_shows_its_reason(self):
        done = self.run_tests(
            self.add_test("good", "true"),
            self.add_test("by_status", "echo first; echo no GPU on this machine; exit 77", 'SKIP_RETURN_CODE "77"'),
            self.add_test("by_gtest", f"cat <<'END'\n{GTEST_SKIP}END", 'SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]"'),
            self.add_test("off", "true", 'DISABLED "ON"'))
        self.assert_ends(done, 0, "1 passed, 0 failed, 3 skipped")
        self.assertIn("by_status (prepared): no GPU on this machine\n", done.stdout)
        self.assertIn("by_gtest (prepared): needs a GPU, and there is none\n", done.stdout)
        self.assertIn("off (prepared): disabled in the source\n", done.stdout)

    def test_what_ctest_calls_not_run_is_a_failure(self):
        done = self.run_tests(
            self.add_test("good", "true"),
            'add_test(absent "/nonexistent/program")\n',
            self.add_test("prepare", "false", 'FIXTURES_SETUP "F"'), self.add_test("use", "true", 'FIXTURES_REQUIRED "F"'))
        self.assert_ends(done, 1, "1 passed, 3 failed, 0 skipped")

    def test_a_time_out_is_named(self):
        done = self.run_tests(self.add_test("slow", "exec sleep 30", 'TIMEOUT "1"'))
        self.assert_ends(done, 1, "0 passed, 1 failed, 0 skipped")
        self.assertIn("Timeout", done.stdout)

    def test_a_label_is_left_out(self):
        folder = self.scratch / "build"
        folder.mkdir()
        (folder / "CTestTestfile.cmake").write_text(
            self.add_test("a", "true") + self.add_test("b", "true", 'LABELS "torch"') + self.add_test("c", "true", 'LABELS "torch2"'))
        cases = ctest.run_tests(folder, ROOT, "release", 1, but_label=legs.TORCH_LABEL)
        self.assertEqual([case.name for case in cases], ["a", "c"])

    def test_a_leg_that_hangs_ends_and_names_the_test(self):
        folder = self.scratch / "build"
        folder.mkdir()
        (folder / "CTestTestfile.cmake").write_text(self.add_test("hangs", "exec sleep 100") + self.add_test("never", "true"))
        cases = ctest.run_tests(folder, ROOT, "release", 1, minutes=2 / 60)
        self.assertEqual([(case.name, case.outcome) for case in cases], [("hangs", "failed"), ("ctest", "failed")])
        self.assertIn("Timeout", cases[0].text)
        self.assertIn("not all tests were started", cases[1].text)

    def test_no_test_is_a_failure(self):
        self.assert_ends(self.run_tests(""), 1, "0 passed, 1 failed, 0 skipped")
        self.assert_ends(self.run_tests(self.add_test("a", "true"), arguments=("--filter", "nothing")), 1, "0 passed, 1 failed, 0 skipped")

    def test_skips_alone_are_a_failure(self):
        done = self.run_tests(self.add_test("a", "echo why; exit 77", 'SKIP_RETURN_CODE "77"'))
        self.assert_ends(done, 1, "0 passed, 1 failed, 1 skipped")

    def test_a_folder_without_tests(self):
        (self.scratch / "empty").mkdir()
        self.assert_ends(self.run_prepared(self.scratch / "empty"), 1, "0 passed, 1 failed, 0 skipped")

    def test_a_list_of_tests_that_cannot_be_made(self):
        done = self.run_tests(self.add_test("a", "true"), 'include("/nonexistent/list.cmake")\n')
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_the_junit_file(self):
        junit = self.scratch / "results" / "all.xml"
        self.run_tests(self.add_test("good", "true"), self.add_test("bad", "printf 'a\\001b <&>'; exit 1"),
                       self.add_test("skip", "echo why; exit 77", 'SKIP_RETURN_CODE "77"'), arguments=("--junit", junit))
        (suite,) = ElementTree.parse(junit).getroot()
        self.assertEqual([suite.get(key) for key in ("name", "tests", "failures", "skipped")], ["prepared", "3", "1", "1"])
        by_name = {case.get("name"): case for case in suite}
        self.assertIn("<&>", by_name["bad"].findtext("failure"))
        self.assertEqual(by_name["skip"].find("skipped").get("message"), "why")

    def test_a_junit_file_that_cannot_be_written(self):
        done = self.run_tests(self.add_test("a", "true"), arguments=("--junit", "/dev/null/all.xml"))
        self.assert_ends(done, 1, "1 passed, 1 failed, 0 skipped")

    def test_a_folder_that_was_built_elsewhere(self):
        built = self.scratch / "elsewhere" / "build"
        (built / "sub").mkdir(parents=True)
        (built / "program").write_text("#!/bin/sh\necho here is $1\n[ -e $1/sub/marker ]\n")
        (built / "program").chmod(0o755)
        (built / "sub" / "marker").write_text("")
        (built / "CMakeCache.txt").write_text(f"CMAKE_CACHEFILE_DIR:INTERNAL={built}\nCMAKE_HOME_DIRECTORY:INTERNAL={built.parent}\n")
        (built / "sub" / "t[1]_include.cmake").write_text(f'add_test(moved "{built}/program" "{built}")\n')
        (built / "sub" / "CTestTestfile.cmake").write_text(f'include("{built}/sub/t[1]_include.cmake")\n')
        carried = self.scratch / "carried"
        text = f'subdirs("sub")\nadd_test(source "grep" "-q" "slipstream" "{built.parent}/CMakeLists.txt")\n'
        (built / "CTestTestfile.cmake").write_text(text)
        built.rename(carried)
        done = self.run_prepared(carried)
        self.assert_ends(done, 0, "2 passed, 0 failed, 0 skipped")
        self.assertIn(f"(built in {built} and carried here", done.stdout)
        self.assertEqual((carried / "CTestTestfile.cmake").read_text(), text)

    def test_slipstream_variables_do_not_reach_the_tests(self):
        os.environ["SLIPSTREAM_DISABLE"] = "1"
        self.addCleanup(os.environ.pop, "SLIPSTREAM_DISABLE")
        done = self.run_tests(self.add_test("a", '[ -z "$SLIPSTREAM_DISABLE" ]'))
        self.assert_ends(done, 0, "1 passed, 0 failed, 0 skipped")


class Arguments(CheckTest):
    def test_wrong_ones_are_refused(self):
        for arguments in (["--only", "nothing"], ["--build", self.scratch / "absent"], ["--jobs", "0"], ["--minutes", "0"], ["--foo"],
                          ["--build", self.scratch, "--only", "format"]):
            done = subprocess.run([ROOT / "tools" / "test", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "")


class Reasons(unittest.TestCase):
    def test_none_given(self):
        self.assertEqual(skip_reason("x.cpp:1: Skipped\n\n[  SKIPPED ] A.B (0 ms)\n", "m"), "GTEST_SKIP() without a reason")
        self.assertEqual(skip_reason("", "SKIP_RETURN_CODE=77"), "no reason given (SKIP_RETURN_CODE=77)")

    def test_an_unknown_status_is_a_failure(self):
        text = '<testsuite><testcase name="a" status="new"/></testsuite>'
        self.assertEqual(read_ctest_junit(text, "leg"), [Case("leg", "a", FAILED, 0.0, "")])


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@unittest.skipUnless(shutil.which("git"), "git is not here")
class Changed(CheckTest):
    def setUp(self):
        super().setUp()
        self.base = os.environ.pop("CI_BASE", None)
        self.addCleanup(lambda: os.environ.pop("CI_BASE", None) if self.base is None else os.environ.update(CI_BASE=self.base))
        git(self.scratch, "init", "-q")
        for number in range(4):
            self.commit(f"policy/{number}.cpp", f"int x{number};\n")
        self.commit("README.md", "text")

    def commit(self, name, text):
        self.write(name, text)
        git(self.scratch, "add", "-A")
        git(self.scratch, "commit", "-qm", name)

    def names(self, **options):
        files, since = sources.changed(self.scratch, **options)
        return sorted(map(str, files)), since

    def test_on_main_it_goes_back_until_there_is_enough(self):
        self.assertEqual(self.names(at_least=1), (["policy/3.cpp"], "changed in the last 2 commits"))
        self.assertEqual(self.names(at_least=2)[0], ["policy/2.cpp", "policy/3.cpp"])

    def test_a_short_history_means_all(self):
        self.assertEqual(self.names(at_least=9)[0], [f"policy/{number}.cpp" for number in range(4)])

    def test_on_a_branch_since_it_left_main(self):
        git(self.scratch, "checkout", "-qb", "work")
        self.commit("shim/a.h", "")
        self.write("shim/b.cpp", "")
        self.assertEqual(self.names(), (["shim/a.h", "shim/b.cpp"], "changed since main"))

    def test_a_named_base(self):
        os.environ["CI_BASE"] = "HEAD~3"
        self.assertEqual(self.names()[0], ["policy/2.cpp", "policy/3.cpp"])
        os.environ["CI_BASE"] = "no-such-commit"
        with self.assertRaises(ValueError):
            self.names()


class Choice(CheckTest):
    def test_everyday_legs_are_those_of_the_release_build(self):
        self.assertEqual(main.parse([]).legs, ["setup", "format", "release"])
        self.assertEqual(main.parse(["--all"]).legs, list(legs.LEGS))
        self.assertEqual(main.parse(["--only", "asan"]).legs, ["setup", "asan"])

    def test_all_and_only_do_not_go_together(self):
        for arguments in (["--all", "--only", "asan"], ["--all", "--build", str(self.scratch)]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                main.parse(arguments)
            self.assertIn("--all", said.getvalue())


class Slowest(CheckTest):
    def test_tests_by_their_seconds(self):
        cases = [Case("release", f"t{i}", PASSED, float(i)) for i in range(12)] + [Case("asan", "bad", FAILED, 99.0)]
        found = slowest.lines(cases, [])
        self.assertEqual(found[0], "slowest tests (seconds):")
        self.assertEqual([line.split() for line in found[1:]], [[f"{i}.0", "release:", f"t{i}"] for i in range(11, 1, -1)])
        self.assertEqual(slowest.lines([], []), [])

    def test_sources_that_this_run_compiled(self):
        self.write(".ninja_log", "# ninja log v5\n0\t9000\t1\ta/CMakeFiles/x.dir/old.cpp.o\th\n"
                   "0\t100\t1\ta/CMakeFiles/x.dir/new.cpp.o\th\n500\t4000\t1\ta/CMakeFiles/x.dir/new.cpp.o\th\n"
                   "0\t7000\t1\ta/x\th\n0\t8000\t1\tgone.o\th\n")
        old = self.write("a/CMakeFiles/x.dir/old.cpp.o", "")
        self.write("a/CMakeFiles/x.dir/new.cpp.o", "")
        self.write("a/x", "")
        os.utime(old, (1, 1))
        found = slowest.sources(self.scratch, 2)
        self.assertEqual(found, [(3.5, f"{self.scratch.name}: a/x/new.cpp.o")])
        self.assertEqual(slowest.lines([], found)[0], "slowest sources (seconds):")
        self.assertEqual(slowest.sources(self.scratch / "nothing", 0), [])

    def test_a_source_that_takes_too_long_is_named(self):
        limit = slowest.SOURCE_SECONDS
        self.assertIsNone(slowest.warning([]))
        self.assertIsNone(slowest.warning([(limit, "release: a/x/just.cpp.o"), (1, "release: a/x/quick.cpp.o")]))
        self.assertEqual(slowest.warning([(limit + 1, "release: a/x/b.cpp.o"), (1, "release: a/x/quick.cpp.o"), (75.4, "release: a/x/c.cpp.o")]),
                         f"WARNING: 2 of 3 sources took more than {limit} s to compile (several together 60 s): a/x/c.cpp.o 75 s, a/x/b.cpp.o {limit + 1} s")
        self.assertTrue(slowest.warning([(99, f"release: {i}.o") for i in range(slowest.SHOWN + 3)]).endswith(" and 3 more"))


class Legs(CheckTest):
    def context(self):
        self.notes = []
        return legs.Context(self.scratch, 1, None, 5, self.notes.append)

    @unittest.skipUnless(shutil.which(legs.CLANG_FORMAT), "clang-format-14 is not here")
    def test_format(self):
        git(self.scratch, "init", "-q")
        self.write(".clang-format", "BasedOnStyle: Google\n")
        (case,) = legs.format_leg(self.context())
        self.assertEqual((case.outcome, case.text), (FAILED, "no C++ file is tracked"))
        self.write("a.cpp", "int x = 1;\n")
        (case,) = legs.format_leg(self.context())
        self.assertEqual((case.outcome, self.notes), (PASSED, ["1 files"]))
        self.write("b.h", "int   y;\n")
        (case,) = legs.format_leg(self.context())
        self.assertEqual(case.outcome, FAILED)
        self.assertIn(f"{legs.CLANG_FORMAT} -i b.h", case.text)

    def test_a_header_from_a_hidden_toolkit_is_seen(self):
        root = self.scratch.resolve()
        fetched = self.write("build/cuda-headers/nvidia/cu13/include/cuda.h", "")
        toolkit = self.write("toolkit/cuda-13.0/include/cuda_profiler_api.h", "")
        link = root / "usr_local_include_profiler_api.h"
        link.symlink_to(toolkit)
        ours = self.write("checkout/shim/cuda_names.h", "")
        system = legs.pathlib.Path("/usr/include/stdio.h")
        checkout = root / "checkout"
        (checkout / "build").symlink_to(root / "build")
        self.assertEqual(legs.strange_headers([fetched, ours, system], checkout), ({fetched.resolve()}, []))
        self.assertEqual(legs.strange_headers([fetched, link, system], checkout)[1], [toolkit.resolve()])
        self.assertEqual(legs.strange_headers([ours, system], checkout), (set(), []))

    def torch_leg(self, script):
        self.write("tools/setup", f"#!/bin/sh\n{script}\n").chmod(0o755)
        return legs.torch_leg(self.context())

    def test_without_pytorch_its_leg_is_one_skipped_case_with_the_reason(self):
        (case,) = self.torch_leg('[ "$1" = --torch ] && echo first && echo no PyTorch: the disk is full && exit 3')
        self.assertEqual((case.outcome, case.text), (SKIPPED, "no PyTorch: the disk is full"))

    def test_pytorch_that_does_not_come_in_time_is_skipped(self):
        self.addCleanup(setattr, legs, "FETCH_SECONDS", legs.FETCH_SECONDS)
        legs.FETCH_SECONDS = 0.1
        (case,) = self.torch_leg("exec tail -f /dev/null")
        self.assertEqual(case.outcome, SKIPPED)
        self.assertIn("tools/setup --torch", case.text)

    def test_a_set_up_of_pytorch_that_goes_wrong_is_a_failure(self):
        (case,) = self.torch_leg("echo the stand-ins could not be made; exit 1")
        self.assertEqual(case.outcome, FAILED)
        self.assertIn("the stand-ins could not be made", case.text)
        # Set-up is done, and there is nothing to build.
        (case,) = self.torch_leg("exit 0")
        self.assertEqual((case.name, case.outcome), ("configure", FAILED))

    def wheel_leg(self, setup, wheel="exit 0"):
        for name, script in (("setup", setup), ("wheel", wheel)):
            self.write(f"tools/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)
        return legs.wheel_leg(self.context())

    def test_without_the_compiler_the_leg_of_the_wheel_is_skipped(self):
        (case,) = self.wheel_leg('[ "$1" = --wheel ] && echo no wheel: no route && exit 3', "exit 0")
        self.assertEqual((case.outcome, case.text), (SKIPPED, "no wheel: no route"))

    def test_a_wheel_that_cannot_be_made_is_a_failure(self):
        (case,) = self.wheel_leg("exit 0", "echo it needs glibc 2.36; exit 1")
        self.assertEqual((case.name, case.outcome), ("tools/wheel", FAILED))
        self.assertIn("it needs glibc 2.36", case.text)
        # The wheel is there, and there is nothing to build that its tests need.
        made, case = self.wheel_leg("exit 0")
        self.assertEqual((made.outcome, case.name, case.outcome), (PASSED, "configure", FAILED))

    def test_a_leg_that_cannot_build_has_failed(self):
        (case,) = legs.preset_leg(self.context(), "release")
        self.assertEqual((case.name, case.outcome), ("configure", FAILED))

    def test_a_leg_whose_time_is_over_has_failed(self):
        context = self.context()
        context.deadline = legs.Deadline(0)
        self.assertEqual([(case.outcome, case.text) for leg in ("asan", "tidy") for case in legs.LEGS[leg](context)],
                         [("failed", "not run: the time of all legs was over")] * 2)

    def test_clang_is_not_shown_precompiled_headers_of_gcc(self):
        command = "env A=1 c++ -DX=\\\"y\\\" -fpch-preprocess -Winvalid-pch -include /b/CMakeFiles/t.dir/cmake_pch.hxx -include own.h -c a.cpp"
        self.write("build/compile_commands.json", json.dumps([{"directory": "/b", "file": "a.cpp", "command": command}]))
        tidy.commands_for_clang(self.scratch / "build", self.scratch)
        (entry,) = json.loads((self.scratch / "compile_commands.json").read_text())
        self.assertEqual(entry, {"directory": "/b", "file": "a.cpp",
                                 "command": """env A=1 c++ '-DX="y"' -include own.h -c a.cpp"""})

    def test_a_build_ends_with_the_time_of_all_legs(self):
        context = self.context()
        context.deadline = legs.Deadline(0.01)
        case = legs._build(context, "release", ["sleep", "100"], self.scratch)
        self.assertEqual((case.name, case.outcome), ("configure", "failed"))
        self.assertIn("ran out of time", case.text)

    @unittest.skipUnless(shutil.which("ninja"), "ninja is not here")
    def test_a_build_says_which_sources_took_too_long(self):
        self.write("build.ninja", "rule compile\n  command = touch $out\nbuild a/CMakeFiles/x.dir/a.cpp.o: compile\n")
        with unittest.mock.patch.object(slowest, "SOURCE_SECONDS", -1):
            for expected in (["WARNING: 1 of 1 sources took more than -1 s to compile (several together 60 s): a/x/a.cpp.o 0 s"], []):
                context = self.context()
                self.assertIsNone(legs._build(context, "release", ["true"], self.scratch))
                # The second time nothing is compiled.
                self.assertEqual([note for note in self.notes if "WARNING" in note], expected)

    @unittest.skipUnless(shutil.which(tidy.CLANG_TIDY) and shutil.which("g++"), "no clang-tidy-14 or no compiler here")
    def test_tidy(self):
        base = os.environ.pop("CI_BASE", None)  # of the run that this test is part of
        if base is not None:
            self.addCleanup(os.environ.update, CI_BASE=base)
        git(self.scratch, "init", "-q")
        self.write(".clang-tidy", "Checks: '-*,bugprone-integer-division'\nWarningsAsErrors: '*'\nHeaderFilterRegex: ''\n")
        self.write("policy/good.cpp", "int Good() { return 1; }\n")
        self.write("policy/bad.h", "inline double Bad(int n) { return 1 / n; }\n")
        self.write("policy/user.cpp", '#include "policy/bad.h"\ndouble Use() { return Bad(2); }\n')
        build = self.scratch / "build" / "release"
        names = ("policy/good", "policy/user")
        self.write("build/release/compile_commands.json", json.dumps([
            {"directory": str(build), "file": f"{self.scratch}/{name}.cpp",
             "command": f"g++ -I{self.scratch} -c {self.scratch}/{name}.cpp -o {name}.o"} for name in names]))
        self.write(".gitignore", "/build/\n")
        git(self.scratch, "add", ".gitignore", ".clang-tidy", "policy/good.cpp")
        git(self.scratch, "commit", "-qm", "first")

        def check(minutes=5):
            self.notes = []
            return tidy.check(build, self.scratch, 1, minutes, self.notes.append)

        (case,) = check()
        self.assertEqual(case.outcome, FAILED, case)
        self.assertIn("policy/bad.h:1:", case.text)
        self.assertIn("policy/good.cpp", self.notes[0])
        self.assertIn("policy/user.cpp", self.notes[0])
        self.write("policy/bad.h", "inline double Bad(int n) { return 1.0 / n; }\n")
        (case,) = check()
        self.assertEqual((case.outcome, case.text), (PASSED, ""))
        # No time: nothing was looked at, and that does not pass.
        self.assertEqual([case.outcome for case in check(minutes=0)], [FAILED])

    def test_a_header_is_checked_through_one_source(self):
        self.write("shim/a.h", '#include "x.h"\n#include <vector>\n')
        self.write("shim/x.h", '#include "shim/a.h"\n#include "generated/x.h"\n')
        self.write("shim/a.cpp", '#include "shim/a.h"\n#include "policy/text.h"\n')
        self.write("policy/text.h", "")
        self.write("shim/b.cpp", '#  include "a.h"\n')
        self.write("build/compile_commands.json", json.dumps([
            {"directory": str(self.scratch / "build"), "file": str(self.scratch / name), "command": ""}
            for name in ("shim/a.cpp", "shim/b.cpp", "build/generated.cpp")]))
        units = tidy.translation_units(self.scratch / "build", self.scratch)
        self.assertEqual({str(source): list(map(str, headers)) for source, headers in units.items()},
                         {"shim/a.cpp": ["policy/text.h", "shim/a.h", "shim/x.h"], "shim/b.cpp": ["shim/a.h", "shim/x.h"]})

        def choose(*files):
            chosen, orphans = tidy.choose(list(map(sources.pathlib.PurePosixPath, files)), units)
            return list(map(str, chosen)), list(map(str, orphans))

        self.assertEqual(choose("shim/a.h"), (["shim/a.cpp"], []))
        self.assertEqual(choose("shim/x.h"), (["shim/b.cpp"], []))
        self.assertEqual(choose("policy/text.h", "shim/b.cpp"), (["shim/b.cpp", "shim/a.cpp"], []))
        self.assertEqual(choose("shim/unused.h"), ([], ["shim/unused.h"]))


if __name__ == "__main__":
    unittest.main()
