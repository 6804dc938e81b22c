"""torchrun and accelerate with real PyTorch (tests/torch/README.md), two ranks over gloo on the simulated device."""

import os
import signal

from launching import OPTIONS, LauncherTest, main


def torch_python():
    file = OPTIONS.torch / "python" if OPTIONS.torch else None
    return file.read_text().strip() if file and file.exists() else None


class TorchTest(LauncherTest):
    def setUp(self):
        super().setUp()
        self.python = torch_python()
        if self.python is None:
            self.skipTest("no PyTorch in build/torch: tools/setup --torch brings it")
        self.environment |= {
            "PYTHONPATH": str(OPTIONS.torch / "site-packages"), "PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1",
            "LD_LIBRARY_PATH": f"{OPTIONS.build / 'sim'}:{OPTIONS.torch / 'stand-ins'}", "GLOO_SOCKET_IFNAME": "lo",
            "SIMCUDA_KERNELS": "empty", "TMPDIR": str(self.folder),
        }
        self.train[0] = self.python


class Torch(TorchTest):
    def launcher(self, program):
        """Inside, `--no-python` has torchrun start a command instead of a script."""
        return [self.python, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2",
                "--no-python", *program]

    def test_ends(self):
        program = [*self.train, "--all-reduce"]
        bare = self.run_command(self.launcher(program))
        self.assertEqual((bare.status, bare.out), (0, ["rank 0 of 2: good", "rank 1 of 2: good"]), bare.everything)
        front = self.run_command([*self.run_words("--record", "--summary", "summary.json"), *self.launcher(program)])
        self.assertEqual((bare.status, bare.out), (front.status, front.out), front.everything)
        self.assert_seen(front, 2)
        self.assertEqual(sorted(process["rank"] for process in front.summary["processes"]), [0, 1])
        self.assertEqual((len(front.traces), front.records), (1, 2), "one folder, and a file for each rank")
        inside = self.run_command(self.launcher([*self.run_words("--record"), *program]))
        self.assertEqual((bare.status, bare.out), (inside.status, inside.out), inside.everything)
        self.assertEqual((inside.summaries, len(inside.traces), inside.records), (2, 2, 2), "a folder for each rank")

    def test_fails_inside(self):
        """torchrun says which rank failed and how, and ends with 1."""
        for words in ([], self.run_words("--quiet")):
            ended = self.run_command(self.launcher([*words, *self.train, "--fail", "3"]))
            self.assertEqual(ended.status, 1, ended.everything)
            self.assertIn("exitcode  : 3", ended.err)

    def test_told_inside(self):
        """SIGTERM to torchrun ends its ranks."""
        statuses = {self.told(self.launcher([*words, *self.train, "--wait"]), signal.SIGTERM, [0, 1], False).status
                    for words in ([], self.run_words())}
        self.assertEqual(len(statuses), 1, statuses)


class Accelerate(TorchTest):
    def test_launch(self):
        """SLIPSTREAM_TEST_ACCELERATE names the folder that accelerate and numpy are in."""
        packages = os.environ.get("SLIPSTREAM_TEST_ACCELERATE")
        if not packages:
            self.skipTest("SLIPSTREAM_TEST_ACCELERATE is not set")
        self.environment["PYTHONPATH"] += os.pathsep + packages

        def launcher(program):
            return [self.python, "-m", "accelerate.commands.launch", "--num_processes=2", "--num_machines=1",
                    "--mixed_precision=no", "--dynamo_backend=no", "--multi_gpu", "--no_python", *program]

        program = [*self.train, "--all-reduce"]
        bare = self.run_command(launcher(program))
        self.assertEqual((bare.status, bare.out), (0, ["rank 0 of 2: good", "rank 1 of 2: good"]), bare.everything)
        front = self.run_command([*self.run_words("--summary", "summary.json"), *launcher(program)])
        self.assertEqual((bare.status, bare.out), (front.status, front.out), front.everything)
        self.assert_seen(front, 2)
        inside = self.run_command(launcher([*self.run_words(), *program]))
        self.assertEqual((bare.status, bare.out, 2), (inside.status, inside.out, inside.summaries), inside.everything)


if __name__ == "__main__":
    main()
