"""The wheel and the archive, installed in every way that people install such a thing, and used from there."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import unittest
import venv

from support import BUILD, NOBODY, ROOT, WheelTest, clean_environment, run, the, tree

WHEEL = the("slipstream-*.whl")
DEMO = the("slipstream_demo-*.whl")
ARCHIVE = the("slipstream-*.tar.gz")
PIP = [sys.executable, "-m", "pip"]
INSTALL = [*PIP, "install", "--quiet", "--no-index", "--no-deps", "--no-warn-script-location"]
VERSION = re.compile(r"slipstream [0-9.]+ \(commit [0-9a-f]{12}(-dirty)?\)\n")
TORCH = ROOT / "build" / "torch"
AS_ANOTHER = {"as_user": NOBODY} if os.getuid() == 0 and shutil.which("setpriv") else {}


# Folders above those of the pages for man: pip leaves them, empty.
EMPTY = {"share", "share/man"}


class InAnEnvironment(WheelTest):
    """In a virtual environment, whose path has a space."""

    def setUp(self):
        super().setUp()
        self.environment = self.scratch / "env"
        venv.create(self.environment, with_pip=False, symlinks=True)
        self.before = tree(self.environment)
        self.python = self.environment / "bin" / "python"
        self.slipstream = self.environment / "bin" / "slipstream"
        self.succeeds(*PIP, "--python", self.python, "install", "--quiet", "--no-index", WHEEL)

    def test_the_command_runs_and_uninstalls(self):
        self.assertRegex(self.succeeds(self.slipstream, "--version").stdout, VERSION)
        self.runs(self.slipstream)
        self.succeeds(*PIP, "--python", self.python, "check")
        self.assertRegex(self.succeeds(self.python, "-m", "slipstream", "--version").stdout, VERSION)
        self.succeeds(*PIP, "--python", self.python, "uninstall", "--quiet", "--yes", "slipstream")
        self.assertEqual(tree(self.environment) - EMPTY, self.before)

    def test_the_module(self):
        said = self.succeeds(self.python, "-c", "import slipstream; print(slipstream.__version__)").stdout
        self.assertEqual(said.strip(), WHEEL.name.split("-")[1])
        wrong = run(self.python, "-c", "import slipstream; slipstream.nonsense")
        self.assertIn("AttributeError: module 'slipstream' has no attribute 'nonsense'", wrong.stderr)
        self.assertEqual(run(self.python, "-m", "slipstream", "run", "--", "sh", "-c", "exit 7").returncode, 7)
        self.runs(self.slipstream)  # and python -m leaves nothing behind that disturbs it

    def test_the_module_becomes_the_command(self):
        """No Python stays between, and what it ignores the program does not."""
        show = 'echo $$ $PPID; grep -h "^Sig\\(Ign\\|Blk\\)" /proc/self/status; exec yes | head -n 1'
        bare = run("sh", "-c", show)
        for way in ([self.slipstream], [self.python, "-m", "slipstream"]):
            process = subprocess.Popen([*map(str, way), "run", "--quiet", "--", "sh", "-c", show], env=clean_environment(),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            said = process.communicate(timeout=60)[0]
            self.assertEqual(said.splitlines()[0], f"{process.pid} {os.getpid()}")
            self.assertEqual(said.splitlines()[1:], bare.stdout.splitlines()[1:])

    def test_signals_end_it_as_they_end_the_program(self):
        process = subprocess.Popen([str(self.python), "-m", "slipstream", "run", "--", "sh", "-c", "echo up; exec sleep 100"],
                                   env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), -signal.SIGTERM)
        process.stdout.close()

    def test_a_command_that_is_gone_is_named(self):
        self.slipstream.unlink()
        done = run(self.python, "-m", "slipstream", "--version")
        self.assertEqual(done.returncode, 1)
        self.assertIn("slipstream: the command of this package is not there; looked for:", done.stderr)
        self.assertIn(str(self.slipstream), done.stderr.replace("/lib/python3.%d/site-packages/../../.." % sys.version_info[1], ""))

    def test_a_library_that_is_gone_is_named(self):
        (library,) = self.environment.rglob("libslipstream.so")
        library.unlink()
        done = run(self.slipstream, "run", "--", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{self.environment}/libexec/libslipstream.so", done.stderr)

    def test_for_another_user_who_may_write_nothing(self):
        if not AS_ANOTHER:
            self.skipTest("needs root and setpriv")
        for path in [self.scratch, *self.scratch.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~0o222 & 0o777)
        before = tree(self.environment)
        home = self.scratch.parent  # not to be written either by that user, but for what is everybody's
        environment = clean_environment(LD_LIBRARY_PATH=str(BUILD / "sim"), HOME="/nonexistent")
        done = run(self.slipstream, "run", "--", BUILD / "examples" / "train_loop", environment=environment, cwd=home, **AS_ANOTHER)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"cudaLaunchKernel +[1-9]")
        self.assertRegex(self.succeeds(self.python, "-m", "slipstream", "--version", **AS_ANOTHER).stdout, VERSION)
        self.assertEqual(tree(self.environment), before)

    def test_the_manual(self):
        self.assertTrue(self.succeeds(self.slipstream, "help", "effects").stdout.startswith("What slipstream changes"))
        self.assertTrue(self.succeeds(self.python, "-m", "slipstream", "help", "stalls").stdout.startswith("Advice: stalls\n"))
        if shutil.which("man") is None:
            self.skipTest("man is not here")
        # As an activated environment has it.
        environment = clean_environment(PATH=f"{self.environment / 'bin'}:{os.environ['PATH']}", MANPATH="")
        found = self.succeeds("man", "-w", "slipstream", environment=environment).stdout.strip()
        self.assertEqual(found, str(self.environment / "share" / "man" / "man1" / "slipstream.1"))

    def test_what_pip_shows(self):
        shown = self.succeeds(*PIP, "--python", self.python, "show", "-f", "slipstream").stdout
        self.assertRegex(shown, r"(?m)^Author: The slipstream authors$")
        self.assertRegex(shown, r"(?m)^Requires: *$")
        for name in ("bin/slipstream", "libexec/libslipstream.so", "share/man/man1/slipstream-run.1", "share/slipstream/help/effects.txt"):
            self.assertRegex(shown, rf"(?m)^  (\.\./)+{re.escape(name)}$")

    def test_a_newcomer_reaches_a_report_by_what_is_printed(self):
        """Beginning with the bare command, each line is typed as the one before it printed it. The two wheels are the index."""
        home = self.scratch / "home"
        home.mkdir()
        environment = clean_environment(PATH=f"{self.environment / 'bin'}:/usr/bin:/bin", HOME=str(home), PIP_NO_INDEX="1",
                                        PIP_FIND_LINKS=WHEEL.parent.as_uri())
        self.succeeds(self.python, "-m", "ensurepip")  # as `python3 -m venv` has it

        def typed(line, status=0):
            done = run("sh", "-c", line, environment=environment, cwd=home)
            self.assertEqual(done.returncode, status, f"{line}\n{done.stdout}{done.stderr}")
            return done

        (line,) = re.findall(r"`(slipstream --help)`", typed("slipstream", status=2).stderr)
        self.assertRegex(typed(line).stdout, r"(?m)^  demo  ")
        (line,) = re.findall(r"(?m)^  (\S.* install .*)$", typed("slipstream demo --simulated", status=1).stderr)
        typed(line)
        said = typed("slipstream demo --simulated").stdout
        self.assertRegex(said, r"All \d+ simulated losses are identical, digit by digit")
        record, report, advise, own, more = re.findall(r"(?m)^  (slipstream .*)$", said.partition("\nNext: ")[2])
        self.assertRegex(typed(record).stderr, r"slipstream report ")
        self.assertIn("A STEP of ", typed(report).stdout)
        typed(advise)
        self.assertEqual(own, "slipstream run -- python train.py")
        self.assertIn("Tutorial", typed(more).stdout)
        self.succeeds(*PIP, "--python", self.python, "uninstall", "--quiet", "--yes", "slipstream", "slipstream-demo")
        self.assertEqual([name for name in tree(self.environment) if "slipstream" in name], [])

    def test_record_report_and_page(self):
        environment = clean_environment(LD_LIBRARY_PATH=str(BUILD / "sim"))
        self.succeeds(self.slipstream, "run", "--record", "--", BUILD / "examples" / "train_loop", environment=environment,
                      cwd=self.scratch)
        (trace,) = self.scratch.glob("slipstream-trace-*")
        page = self.scratch / "page.html"
        self.assertIn("A STEP of", self.succeeds(self.slipstream, "report", trace, "--html", page).stdout)
        self.assertIn("Plotly", page.read_text())

    def test_a_training_that_makes_no_cuda_call(self):
        if not (TORCH / "python").exists():
            self.skipTest("no PyTorch in build/torch; tools/setup --torch brings it")
        python = (TORCH / "python").read_text().strip()
        program = ("import torch; torch.manual_seed(1); m = torch.nn.Linear(8, 1); o = torch.optim.SGD(m.parameters(), 0.1)\n"
                   "x = torch.randn(64, 8); y = x.sum(1, keepdim=True)\n"
                   "for step in range(20):\n"
                   "    loss = (m(x) - y).square().mean(); o.zero_grad(); loss.backward(); o.step(); print(loss.item().hex())\n")
        environment = clean_environment(PYTHONPATH=str(TORCH / "site-packages"), OMP_NUM_THREADS="1",
                                        LD_LIBRARY_PATH=f"{BUILD / 'sim'}:{TORCH / 'stand-ins'}")
        bare = self.succeeds(python, "-W", "ignore", "-c", program, environment=environment)
        under = self.succeeds(self.slipstream, "run", "--", python, "-W", "ignore", "-c", program, environment=environment)
        self.assertEqual(len(set(bare.stdout.split())), 20)
        self.assertEqual(under.stdout, bare.stdout)
        self.assertIn("it made no CUDA call", under.stderr)

    def test_the_unwinder_that_is_in_it(self):
        """Threads are cancelled inside its frames, handlers jump over them, and exceptions of another preload pass through."""
        programs = BUILD / "preload"
        (library,) = self.environment.rglob("libslipstream.so")
        self.succeeds(BUILD / "tests" / "preload" / "rules" / "preload_run_rules", programs / "transfer_rules13", "*.S78_*", "0,1", library,
                      "SLIPSTREAM_TRANSFER_START=now", "SLIPSTREAM_TRANSFER_THREADS=3")
        environment = clean_environment(LD_PRELOAD=str(programs / "libpreload_interposer.so"), INTERPOSER_THROWS="1")
        bare = self.succeeds(programs / "preload_program", "catch", environment=environment)
        self.assertEqual(bare.stdout.count("caught: refused by the interposer"), 3)
        for options in ([], ["--record"]):
            under = self.succeeds(self.slipstream, "run", *options, "--", programs / "preload_program", "catch",
                                  environment=environment, cwd=self.scratch)
            self.assertEqual(under.stdout, bare.stdout)

    def test_a_program_without_cuda(self):
        program = [self.python, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"]
        bare, under = run(*program), run(self.slipstream, "run", "--", *program)
        self.assertEqual((under.returncode, under.stdout), (bare.returncode, bare.stdout))
        self.assertTrue(under.stderr.startswith(bare.stderr))
        self.assertIn("it made no CUDA call", under.stderr[len(bare.stderr):])
        quiet = run(self.slipstream, "run", "--quiet", "--", *program)
        self.assertEqual((quiet.returncode, quiet.stdout, quiet.stderr), (bare.returncode, bare.stdout, bare.stderr))


class Elsewhere(WheelTest):
    def test_into_a_folder(self):
        folder = self.scratch / "folder"
        self.succeeds(*INSTALL, "--target", folder, WHEEL)
        self.runs(folder / "bin" / "slipstream")
        environment = clean_environment(PYTHONPATH=str(folder))
        self.assertRegex(self.succeeds(sys.executable, "-m", "slipstream", "--version", environment=environment).stdout, VERSION)

    def test_under_a_prefix(self):
        prefix = self.scratch / "prefix"
        self.succeeds(*INSTALL, "--prefix", prefix, WHEEL)
        (command,) = prefix.rglob("bin/slipstream")
        self.runs(command)

    def test_for_one_user(self):
        base = self.scratch / "base"
        environment = clean_environment(PYTHONUSERBASE=str(base))
        self.succeeds(*INSTALL, "--user", WHEEL, environment=environment)
        self.runs(base / "bin" / "slipstream")
        self.assertRegex(self.succeeds(sys.executable, "-m", "slipstream", "--version", environment=environment).stdout, VERSION)

    def test_by_pipx(self):
        if shutil.which("pipx") is None:
            self.skipTest("pipx is not here (Debian: apt install pipx)")
        home = self.scratch / "pipx"
        environment = clean_environment(PIPX_HOME=str(home), PIPX_BIN_DIR=str(home / "bin"), PIPX_MAN_DIR=str(home / "man"))
        done = run("pipx", "install", "--python", sys.executable, WHEEL, environment=environment)
        if "shared libraries" in done.stdout + done.stderr and done.returncode != 0:
            self.skipTest("pipx brings pip first, and cannot")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.runs(home / "bin" / "slipstream")
        self.assertTrue(self.succeeds(home / "bin" / "slipstream", "help", "effects").stdout.startswith("What slipstream changes"))
        self.succeeds("pipx", "uninstall", "slipstream", environment=environment)
        self.assertFalse((home / "bin" / "slipstream").exists())

    def test_by_a_link(self):
        folder = self.scratch / "folder"
        self.succeeds(*INSTALL, "--target", folder, WHEEL)
        link = self.scratch / "slipstream"
        link.symlink_to(folder / "bin" / "slipstream")
        self.runs(link)

    def test_the_archive_and_where_it_is_moved(self):
        with tarfile.open(ARCHIVE) as packed:
            packed.extractall(self.scratch)
        (top,) = self.scratch.iterdir()
        self.assertRegex(self.succeeds(top / "bin" / "slipstream", "--version").stdout, VERSION)
        self.runs(top / "bin" / "slipstream")
        moved = self.scratch / "somewhere" / "else"
        moved.parent.mkdir()
        top.rename(moved)
        self.runs(moved / "bin" / "slipstream")


if __name__ == "__main__":
    unittest.main()
