"""Shells and small commands that start another: what is there on every machine."""

import shlex

from launching import LauncherTest, main, needs


class Shells(LauncherTest):
    def test_pipe(self):
        """`slipstream run -- bash -c 'python train.py | tee log'`: the status is the shell's, with pipefail the program's."""
        for options, status in (([], 0), (["-o", "pipefail"], 3)):
            with self.subTest(options=options):
                self.both_ways(lambda program, words=options: ["bash", *words, "-c", f"{shlex.join(program)} | tee log"], status=status,
                               arguments=["--fail", "3"])

    def test_several_programs(self):
        """One after the other and side by side: one summary in front, one for each inside."""
        line = "{0} && {0} & {0} & wait"
        self.both_ways(lambda program: ["bash", "-c", line.format(shlex.join(program))], processes=3)

    def test_script_with_exec(self):
        """A script that becomes the program, as entry points of containers do."""
        self.both_ways(lambda program: ["sh", "-c", 'cd . && exec "$@"', "entrypoint", *program], status=3,
                       arguments=["--fail", "3"])

    def test_python_module(self):
        module = self.train[1].removesuffix("/train.py")
        self.environment["PYTHONPATH"] = module
        self.train[1:] = ["-m", "train"]
        self.both_ways(lambda program: program, status=3, arguments=["--fail", "3"])

    def test_standard_input(self):
        """`slipstream run -- python - < train.py`."""
        program = self.train.pop()
        self.train.append("-")
        self.both_ways(lambda words: ["bash", "-c", f"{shlex.join(words)} < {program}"], status=3, arguments=["--fail", "3"])


class Small(LauncherTest):
    def test_what_becomes_the_program(self):
        for launcher in (["nohup"], ["nice", "-n", "1"], ["env", "FRUIT=apple"], ["setsid", "--wait"], ["stdbuf", "-oL"]):
            with self.subTest(launcher=launcher):
                self.both_ways(lambda program, words=launcher: [*words, *program], status=3, arguments=["--fail", "3"])

    def test_timeout(self):
        """It stays, and closes standard error before it ends; the summary is printed all the same."""
        for options in ([], ["--foreground"]):
            with self.subTest(options=options):
                self.both_ways(lambda program, words=options: ["timeout", *words, "60", *program], status=3,
                               arguments=["--fail", "3"])
        late = self.run_command([*self.run_words(), "timeout", "1", *self.train, "--wait"])
        self.assertEqual((late.status, late.summaries), (124, 1), late.everything)
        # timeout sends Ctrl-C on, so that the program has it twice: what Python says of that is different each time.
        self.ended_by_signals(lambda program: ["timeout", "60", *program], ranks=[0], say_the_same=False)

    def test_signals_to_a_shell(self):
        self.ended_by_signals(lambda program: ["bash", "-c", 'exec "$@"', "bash", *program], ranks=[0])
        # A shell does not send SIGTERM on: it goes to all.
        self.ended_by_signals(lambda program: ["bash", "-c", '"$@"; exit', "bash", *program], ranks=[0], to_launcher=False)


@needs("xargs")
class Xargs(LauncherTest):
    """Three at a time; 123 where one fails. xargs closes standard error as timeout does."""

    def test_three_at_a_time(self):
        def launcher(program):
            return ["xargs", "-a", self.numbers, "-P", "3", "-I", "{}", *program]

        self.numbers = self.folder / "numbers"
        self.numbers.write_text("1\n2\n3\n")
        self.both_ways(launcher, processes=3)
        self.both_ways(launcher, status=123, processes=3, arguments=["--fail", "3"])


@needs("parallel")
class Parallel(LauncherTest):
    def test_two_at_a_time(self):
        def launcher(values):
            return lambda program: ["parallel", "--will-cite", "-j", "2", shlex.join(program), ":::", *values]

        self.both_ways(launcher(["--fail=0", "--fail=0"]), processes=2)
        self.both_ways(launcher(["--fail=3", "--fail=0"]), processes=2, status=1)
        self.ended_by_signals(lambda program: ["parallel", "--will-cite", shlex.join(program), ":::", "--fail=0"], ranks=[1],
                              say_the_same=False)


if __name__ == "__main__":
    main()
