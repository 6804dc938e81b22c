"""The harness: outcomes, time limits, --only, the files it writes, and the script's exit status."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest

import support
from suite import harness, machine, outcomes

SCRIPT = support.REPOSITORY / "tools" / "gpu-suite"


def quietly(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        function(*arguments)
    return out.getvalue()


def passes(_data):
    return "fine"


def fails(_data):
    raise harness.Failed("not so")


def skips(_data):
    raise harness.Skipped("not here")


def breaks(_data):
    raise KeyError("a fault of the suite")


class BoundedOutput(unittest.TestCase):
    def command(self, script, most=1 << 16, timeout=60):
        with support.TemporarySuite() as suite:
            return suite.command("bounded", ["bash", "-c", script], timeout=timeout, most_output=most)

    def test_as_without_a_bound(self):
        result = self.command("seq 2000; seq 2000 >&2; exit 3")
        expected = "".join(f"{number}\n" for number in range(1, 2001)).encode()
        self.assertEqual((3, expected, expected, False), (result.status, result.stdout, result.stderr, result.timed_out))
        self.assertEqual(143, self.command("kill $$").status)

    def test_too_much(self):
        result = self.command("echo first; yes")
        self.assertEqual((137, False), (result.status, result.timed_out))
        self.assertTrue(result.stdout.startswith(b"first\ny\n"))
        self.assertLess(len(result.stdout), 1 << 18)
        self.assertIn(b"ended by the suite: more than 65536 bytes", result.stderr)

    def test_out_of_time(self):
        for script in ("echo first; sleep 1000", "echo first; exec >&- 2>&-; sleep 1000"):
            # The first of these in which a shell of this machine says anything.
            for timeout in (1, 4, 16, 64):
                result = self.command(script, timeout=timeout)
                if result.stdout:
                    break
            self.assertEqual((137, b"first\n", True), (result.status, result.stdout, result.timed_out), script)


class Checks(unittest.TestCase):
    def test_outcomes_are_recorded_as_they_come(self):
        for parallel in (False, True):
            with support.TemporarySuite() as suite:
                printed = quietly(
                    suite.run_checks, [("a.1", passes), ("a.2", fails), ("b", skips), ("c", breaks)], parallel
                )
                found = {check["name"]: check["outcome"] for check in suite.results["checks"]}
                self.assertEqual({"a.1": "PASS", "a.2": "FAIL", "b": "SKIP", "c": "FAIL"}, found)
                self.assertEqual(4, len(printed.splitlines()))
                written = json.loads((suite.out / "results.json").read_text())
                self.assertEqual(4, len(written["checks"]))
                self.assertFalse(written["complete"])
                self.assertTrue((suite.logs / "c.traceback.txt").exists())

    def test_only(self):
        with support.TemporarySuite(only="counts,inert.bash,workloads.item") as suite:
            names = (
                *("counts", "counts.lm.process", "inert.bash", "inert.bash_waiting", "ratio.x"),
                *("workloads.item", "workloads.item.gain", "workloads.items.gain"),
            )
            wanted = [name for name in names if suite.wanted(name)]
            self.assertEqual([*names[:3], *names[5:7]], wanted)

    def test_after_the_time_is_over_nothing_passes(self):
        with support.TemporarySuite(budget=0) as suite:
            quietly(suite.run_checks, [("a", passes)])
            self.assertEqual(["FAIL"], suite.outcomes())

    def test_files_at_the_end(self):
        with support.TemporarySuite() as suite:
            suite.command("a.log", [sys.executable, "-c", "print('out')"], env={"SOME_VARIABLE": "x"})
            suite.finish(True)
            self.assertEqual(["logs.tar.gz", "results.json"], sorted(os.listdir(suite.out)))
            with tarfile.open(suite.out / "logs.tar.gz") as archive:
                text = archive.extractfile("logs/a.log.txt").read().decode()
            self.assertIn("SOME_VARIABLE=x", text)
            self.assertIn("exit status 0", text)


    def test_results_do_not_say_where_the_project_lies(self):
        with support.TemporarySuite() as suite:
            program = support.REPOSITORY / "tests" / "gpu" / "train_lm.py"
            quietly(suite.record, "a", harness.PASS, f"step at {program}:76", 0, {"line": str(program)})
            check = json.loads((suite.out / "results.json").read_text())["checks"][0]
            self.assertEqual("step at tests/gpu/train_lm.py:76", check["detail"])
            self.assertEqual("tests/gpu/train_lm.py", check["data"]["line"])

    def test_a_policy_is_never_half_written(self):
        with support.TemporarySuite() as suite:
            path = suite.policy("x", "version = 1\n")
            self.assertEqual(path, suite.policy("x", "version = 1\n"))
            self.assertEqual("version = 1\n", path.read_text())
            self.assertEqual([path.name], os.listdir(path.parent))


class Commands(unittest.TestCase):
    def test_status_output_and_environment(self):
        os.environ["SLIPSTREAM_LEFT_OVER"] = "1"
        self.addCleanup(os.environ.pop, "SLIPSTREAM_LEFT_OVER")
        code = "import os, sys; print(os.environ.get('SLIPSTREAM_LEFT_OVER'), os.environ['X']); sys.exit(3)"
        with support.TemporarySuite() as suite:
            result = suite.command("x", [sys.executable, "-c", code], env={"X": "1"})
            self.assertEqual((3, b"None 1\n", False), (result.status, result.stdout, result.timed_out))
            with self.assertRaises(harness.Failed):
                result.expect_success("it")

    def test_out_of_time_ends_the_whole_group(self):
        with support.TemporarySuite() as suite:
            code = "import subprocess; p = subprocess.Popen(['sleep', '1000']); print(p.pid, flush=True); p.wait()"
            # The first of these in which a process of this machine comes to say who its child is.
            for timeout in (1, 4, 16, 64):
                start = time.monotonic()
                result = suite.command("x", [sys.executable, "-c", code], timeout=timeout)
                if result.stdout:
                    break
            self.assertLess(time.monotonic() - start, timeout + 20)
            self.assertTrue(result.timed_out)
            self.assertEqual(137, result.status)
            self.assertTrue(outcomes.gone(int(result.stdout), 10))

    def test_stop_ends_what_runs(self):
        with support.TemporarySuite() as suite:
            results = []
            thread = threading.Thread(target=lambda: results.append(suite.command("x", ["sleep", "100"])))
            thread.start()
            while not suite._children:  # pylint: disable=protected-access
                pass
            suite.stop()
            thread.join(20)
            self.assertFalse(thread.is_alive())
            self.assertEqual(137, results[0].status)
            with self.assertRaises(harness.Failed):
                suite.command("x", ["true"])


class Script(unittest.TestCase):
    def run_script(self, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-B", str(SCRIPT), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            env={**os.environ, **environment},
        )

    def test_no_gpu_is_a_skip(self):
        if machine.has_gpu(sys.executable):
            self.skipTest("there is a GPU here")
        done = self.run_script()
        self.assertEqual(77, done.returncode)
        self.assertIn("no NVIDIA GPU", done.stdout)

    def test_no_build_is_an_error(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_script("--rehearse", "--build", directory)
            self.assertEqual(2, done.returncode)
            self.assertIn("build first", done.stderr)

    def test_no_pytorch_is_a_skip(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for name in ("slipstream", "libslipstream.so"):
                (root / name).touch()
            (root / "torch.py").write_text("raise ImportError('none')\n")
            done = self.run_script("--rehearse", "--build", directory, "--out", str(root / "out"), PYTHONPATH=directory)
            self.assertEqual(77, done.returncode, done.stderr)
            self.assertIn("cannot import torch", done.stdout)

    def test_lists_its_checks(self):
        names = self.run_script("--list").stdout.split()
        self.assertEqual(len(names), len(set(names)))
        for name in (
            "allocator.race_without_fence",
            "allocator.pair_idle_20MiB",
            "inert.true",
            "identity.lm",
            "identity.cuda_graph",
            "identity.lm_expandable_segments",
            "sanitizer.memcheck",
            "counts.lm.process",
            "outcomes.sigterm",
            "speed.resnet50",
            "speed.two_streams",
            "transfer.blocking_64KiB",
            "ratio.lm.off",
        ):
            self.assertIn(name, names)


class Commit(unittest.TestCase):
    def test_given_then_the_builds_then_git(self):
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual("abc", machine.commit_of(directory, "abc"))
            self.assertNotEqual("", machine.commit_of(directory, None))
            (pathlib.Path(directory) / "COMMIT").write_text("def\n")
            self.assertEqual("def", machine.commit_of(directory, None))


if __name__ == "__main__":
    unittest.main()
