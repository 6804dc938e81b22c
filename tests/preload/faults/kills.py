"""kills.py SLIPSTREAM ENDS: a recorded program is killed at random moments, again and again.

The command ends as the program did, the watcher ends the run, whatever trace there is can be read, and nothing is left in the temporary
directory. A fatal signal may cut the write that the kernel is at (write(2)); the report then says that it is partial. The moments are drawn by a seed, from
before the program's first call to the middle of its copies. SLIPSTREAM_TEST_KILLS says how many (default 60).
"""

import ctypes
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SLIPSTREAM, ENDS = sys.argv[1:3]
KILLS = int(os.environ.get("SLIPSTREAM_TEST_KILLS", "60"))
LATEST_S = 0.15
LATEST_WITH_DEVICES_S = 0.6  # their records are written four times a second
LIMIT_S = 60
PR_SET_CHILD_SUBREAPER = 36


class Kills(unittest.TestCase):
    def setUp(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # the watchers come to us
        temporary = tempfile.TemporaryDirectory(prefix="slipstream-kills-")
        self.addCleanup(temporary.cleanup)
        self.place = pathlib.Path(temporary.name)
        self.kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "LD_PRELOAD"))}

    def summary_of(self, variables, run):
        """What the watcher kept of the only run that has that place, once it has ended it."""
        end = time.monotonic() + LIMIT_S
        while any(run.glob("*/run.json")):
            self.assertLess(time.monotonic(), end, "the watcher has not ended the run")
            time.sleep(0.001)
        os.waitpid(-1, 0)
        return subprocess.run([SLIPSTREAM, "summary"], env=variables, capture_output=True, text=True, check=True).stdout

    def kill_one(self, number, after_s, which, with_devices):
        """The folder of the run, once it is over."""
        run, scratch = self.place / str(number), self.place / f"{number}-tmp"
        run.mkdir()
        scratch.mkdir()
        variables = self.kept | {"TMPDIR": str(scratch), "XDG_STATE_HOME": str(self.place / f"{number}-state"), "SLIPSTREAM_RUN_WATCHER": "on",
                                 "SIMCUDA_SEED": str(number % 4), "SLIPSTREAM_TRANSFER_START": ("now", "background")[number % 2],
                                 "SLIPSTREAM_TRACER_DEVICE": "cupti" if with_devices else "off",
                                 "SLIPSTREAM_LOG_FILE": str(self.place / "log.txt"), "SLIPSTREAM_LOG_LEVEL": "debug"}
        command = [SLIPSTREAM, "run", "--record", "--quiet", "--", "sh", "-c", 'echo $$; exec "$0" waits', ENDS]
        with subprocess.Popen(command, cwd=run, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            program = int(process.stdout.readline())
            time.sleep(after_s)  # the moment, which is what is being varied: nothing is waited for
            os.kill(program, which)
            out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -which, err)
        self.assertRegex(self.summary_of(variables, run), re.compile(r"^slipstream: (no )?trace: ", re.MULTILINE))
        self.assertIn(out, (b"", b"ready\n"))
        self.assertEqual(list(scratch.iterdir()), [], "left in the temporary directory")
        return run

    def assert_last_write_is_cut(self, report):
        """Bytes at the end of the spool are left out, and nothing else is wrong with it."""
        for process in report["processes"]:
            lost = process["not_seen"]
            self.assertEqual(lost["left_why"], "the last chunk is cut", lost)
            self.assertEqual([lost["malformed_chunks"], lost["missing_records"], lost["newer_records"]], [0, 0, 0], lost)

    def assert_nothing_contradicts(self, folder):
        """What is missing is known to be, and work of devices is that of a call or counted."""
        check = subprocess.run([SLIPSTREAM, "export", "--check", str(folder), "--json"], env=self.kept, capture_output=True, text=True, check=False)
        self.assertIn(check.returncode, (0, 1), check.stderr)
        for process in json.loads(check.stdout)["processes"]:
            # The simulated CUPTI's clock runs 5 % faster, which the check says.
            said = [each for each in process["contradicts"] if each["about"] != "device_clock_disagree"]
            self.assertEqual(said, [], process)
            self.copies += process["has"]["device_copies"]

    def test_S58_killed_at_any_moment(self):
        chance = random.Random(1)
        readable = cut = 0
        self.copies = 0
        for number in range(KILLS):
            which = signal.SIGKILL if number % 4 else chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGQUIT])
            with self.subTest(number=number, signal=which):
                with_devices = number % 3 == 0
                latest_s = LATEST_WITH_DEVICES_S if with_devices else LATEST_S
                run = self.kill_one(number, chance.random() * latest_s, which, with_devices)
                for folder in run.iterdir():
                    spools = list(folder.glob("*.spool"))
                    report = subprocess.run([SLIPSTREAM, "report", str(folder), "--json"], env=self.kept, capture_output=True, check=False)
                    if any(spool.stat().st_size != 0 for spool in spools):
                        self.assertIn(report.returncode, (0, 3), report.stderr)
                        said = json.loads(report.stdout)
                        self.assertEqual(said["partial"], report.returncode == 3)
                        if said["partial"]:
                            self.assert_last_write_is_cut(said)
                            cut += 1
                        self.assert_nothing_contradicts(folder)
                        readable += 1
                    else:
                        self.assertEqual(report.returncode, 1, report.stdout)
        # Some were killed before their first call and left nothing; if all were, nothing was tested.
        self.assertGreater(readable, KILLS // 4)
        self.assertLess(cut, KILLS // 20)
        self.assertGreater(self.copies, 0, "no trace had work of a device")
        print(f"{KILLS} killed, {readable} with a trace")
        for line in (self.place / "log.txt").read_text().splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT[\d:.]+Z slipstream\[\d+\] \w+: ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
