"""Launchers of several ranks: Open MPI and Slurm. Those of PyTorch are in test_torchrun.py."""

import json
import shlex
import subprocess
import unittest

from launching import OPTIONS, LauncherTest, has, main, needs


@needs("mpirun")
class Mpi(LauncherTest):
    def setUp(self):
        super().setUp()
        self.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    @staticmethod
    def launcher(program):
        return ["mpirun", "--oversubscribe", "-n", "2", *program]

    def test_ends(self):
        self.both_ways(self.launcher, processes=2)

    def test_summary_of_each_rank(self):
        line = f"exec slipstream run --quiet --summary summary-$OMPI_COMM_WORLD_RANK.json -- {shlex.join(self.train)}"
        place = self.place()
        ended = self.finish(self.start(self.launcher(["bash", "-c", line]), place), place)
        self.assertEqual((ended.status, ended.summaries), (0, 0), ended.everything)
        ranks = [json.loads((place / f"summary-{rank}.json").read_text())["processes"][0]["rank"] for rank in (0, 1)]
        self.assertEqual(ranks, [0, 1])

    def test_fails(self):
        # Which rank is the first to fail is not said; mpirun may end the other before it says anything.
        for command in (self.launcher(self.train), [*self.run_words(), *self.launcher(self.train)],
                        self.launcher([*self.run_words(), *self.train])):
            self.assertEqual(self.run_command([*command, "--fail", "3"]).status, 3)

    def test_signals(self):
        self.ended_by_signals(self.launcher, ranks=[0, 1], say_the_same=False)


def has_slurm():
    return has("srun") and subprocess.run(["srun", "--immediate=5", "-n1", "true"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(has_slurm(), "no Slurm that runs a job")
class Slurm(LauncherTest):
    @staticmethod
    def launcher(program):
        return ["srun", "--quiet", "--overcommit", "-n", "2", *program]

    def test_ends(self):
        self.both_ways(self.launcher, processes=2)

    def test_fails(self):
        for command in (self.launcher(self.train), [*self.run_words(), *self.launcher(self.train)],
                        self.launcher([*self.run_words(), *self.train])):
            self.assertEqual(self.run_command([*command, "--fail", "3"]).status, 3)

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
