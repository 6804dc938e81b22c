"""The group blocks: what it asks of a run, and what shows nothing."""

import json
import pathlib
import types
import unittest

import support
from suite import blocks, harness, mirrors
from suite.harness import Failed, Skipped

RIGHT = f"{blocks.COPIES} copies, 0 wrong\n".encode()
FEW = f"{blocks.COPIES_OF_A_REHEARSAL} copies, 0 wrong\n".encode()


class Blocks(unittest.TestCase):
    def outcomes(self, decisions, printed=RIGHT, said=mirrors.THERE):
        """Of its checks by name; `decisions`: of each run's summary."""
        found = {}
        self.environments = {}
        with support.TemporarySuite() as suite:
            suite.rehearsal = False

            def command(name, argv, env, timeout):
                self.environments[name] = env
                under = "--summary" in argv
                if under:
                    totals = {"decisions": {name: {"count": count} for name, count in decisions.items()}}
                    pathlib.Path(argv[argv.index("--summary") + 1]).write_text(json.dumps({"totals": totals}))
                return types.SimpleNamespace(expect_success=lambda _: None, stdout=printed if under else FEW)

            suite.command = command
            real, mirrors.said_by_doctor = mirrors.said_by_doctor, lambda suite: said
            try:
                for name, check in blocks.checks(suite):
                    try:
                        found[name] = check({})
                    except (Failed, Skipped) as problem:
                        found[name] = f"{type(problem).__name__} {problem}"
            finally:
                mirrors.said_by_doctor = real
        return found

    def test_both_levels_with_and_without_mirrors(self):
        found = self.outcomes({blocks.REUSED: 7, blocks.MIRRORED: 5})
        names = ["blocks.runtime", "blocks.runtime.mirrors", "blocks.driver", "blocks.driver.mirrors"]
        self.assertEqual(names, list(found))
        self.assertTrue(all("all bytes as expected; transfer.host.reused 7" in text for text in found.values()), found)
        self.assertEqual("driver", self.environments["blocks.driver.20"]["SLIPSTREAM_INTERCEPT_LEVEL"])
        self.assertNotIn(mirrors.MOST, self.environments["blocks.driver.20"])
        self.assertEqual("1GiB", self.environments["blocks.driver.21"][mirrors.MOST])

    def test_wrong_bytes(self):
        found = self.outcomes({blocks.REUSED: 7, blocks.MIRRORED: 5}, printed=b"25000 copies, 1 wrong\n")
        self.assertTrue(all(text.startswith("Failed it printed b'25000 copies, 1 wrong") for text in found.values()), found)

    def test_without_a_part_of_the_engine_nothing_is_shown(self):
        found = self.outcomes({blocks.REUSED: 7})
        self.assertIn("Failed no transfer.h2d.mirrored, so this shows nothing", found["blocks.runtime.mirrors"])
        self.assertIn("Failed no transfer.host.reused", self.outcomes({})["blocks.driver"])

    def test_where_there_are_no_mirrors(self):
        found = self.outcomes({blocks.REUSED: 7}, said="none: so")
        self.assertEqual("Skipped mirrors are none: so", found["blocks.runtime.mirrors"])
        self.assertIn("all bytes as expected", found["blocks.runtime"])

    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(blocks.GROUP, harness.ON_REQUEST)


if __name__ == "__main__":
    unittest.main()
