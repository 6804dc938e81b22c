"""Launchers of several ranks: Open MPI, MPICH and Slurm. Those of PyTorch are in test_torchrun.py."""

import json
import shlex
import signal
import subprocess
import unittest

from launching import OPTIONS, LauncherTest, has, main, needs


class Ranks(LauncherTest):
    """Two ranks by `words`, whose variable `rank` has the number."""

    words = ()
    rank = ""

    def launcher(self, program):
        return [*self.words, "-n", "2", *program]

    def look_at_ends(self):
        self.both_ways(self.launcher, processes=2)

    def look_at_failures(self):
        # Which rank is the first to fail is not known, and the launcher may end the other one before it says anything.
        for command in (self.launcher(self.train), [*self.run_words(), *self.launcher(self.train)],
                        self.launcher([*self.run_words(), *self.train])):
            self.assertEqual(self.run_command([*command, "--fail", "3"]).status, 3)

    def look_at_a_summary_for_each(self):
        line = f"exec slipstream run --quiet --summary summary-${self.rank}.json -- {shlex.join(self.train)}"
        place = self.place()
        ended = self.finish(self.start(self.launcher(["bash", "-c", line]), place), place)
        self.assertEqual((ended.status, ended.summaries), (0, 0), ended.everything)
        ranks = [json.loads((place / f"summary-{rank}.json").read_text())["processes"][0]["rank"] for rank in (0, 1)]
        self.assertEqual(ranks, [0, 1])


@needs("ompi_info", "mpirun")
class OpenMpi(Ranks):
    words = ("mpirun.openmpi" if has("mpirun.openmpi") else "mpirun", "--oversubscribe")
    rank = "OMPI_COMM_WORLD_RANK"

    def setUp(self):
        super().setUp()
        self.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def test_ends(self):
        self.look_at_ends()
        self.look_at_failures()
        self.look_at_a_summary_for_each()

    def test_signals(self):
        self.ended_by_signals(self.launcher, ranks=[0, 1], say_the_same=False)


@needs("mpiexec.hydra")
class Mpich(Ranks):
    words = ("mpiexec.hydra",)
    rank = "PMI_RANK"

    def test_ends(self):
        self.look_at_ends()
        self.look_at_failures()
        self.look_at_a_summary_for_each()

    def test_signals(self):
        """Every rank ends. The status is another one each time, bare too: 0, or the bits of the ranks' signals."""
        program = [*self.train, "--wait"]
        for number, to_all in ((signal.SIGTERM, False), (signal.SIGINT, True)):
            for command in ([*self.run_words(), *self.launcher(program)], self.launcher([*self.run_words(), *program])):
                self.assertIn("rank 1 of 2: good", self.told(command, number, [0, 1], to_all).out)


def has_slurm():
    return has("srun") and subprocess.run(["srun", "--immediate=5", "-n1", "true"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(has_slurm(), "no Slurm that runs a job")
class Slurm(Ranks):
    words = ("srun", "--quiet", "--overcommit")
    rank = "SLURM_PROCID"

    def test_ends(self):
        self.look_at_ends()
        self.look_at_failures()
        self.look_at_a_summary_for_each()

    def test_signals(self):
        # srun answers the first Ctrl-C with a question.
        self.ended_by_signals(self.launcher, ranks=[0, 1], say_the_same=False, interrupt=False)

    def test_library_alone(self):
        """srun --export, which is what a TaskProlog's `export` comes to: the tasks have the library, and nothing is printed."""
        library = OPTIONS.build / "libslipstream.so"
        self.environment["SLIPSTREAM_LOG_LEVEL"] = "info"
        command = self.launcher(self.train)
        ended = self.run_command([command[0], f"--export=ALL,LD_PRELOAD={library}", *command[1:]])
        self.assertEqual((ended.status, ended.out, ended.summaries), (0, ["rank 0 of 2: good", "rank 1 of 2: good"], 0), ended.everything)
        self.assertEqual(ended.everything.count("info: CUDA runtime: "), 2, ended.everything)


if __name__ == "__main__":
    main()
