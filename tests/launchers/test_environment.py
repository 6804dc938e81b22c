"""Containers and pods, and slipstream by variables alone: what docs/launchers.md has of them, without a container."""

import json
import os
import re
import shutil
import subprocess
import sys

from launching import HERE, OPTIONS, LauncherTest, has, main, needs

POLICY = 'version = 1\n[transfer]\nh2d = "off"\n'


def can(*command):
    return has(command[0]) and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


class Variables(LauncherTest):
    """The library without the command in front: the engines work, nothing is counted or printed."""

    def setUp(self):
        super().setUp()
        self.environment |= {"LD_PRELOAD": str(OPTIONS.build / "libslipstream.so"), "SLIPSTREAM_LOG_LEVEL": "info"}

    def run_program(self, **variables):
        self.environment |= variables
        ended = self.run_command(self.train)
        self.assertEqual((ended.status, ended.out, ended.summaries), (0, ["rank 0 of 1: good"], 0), ended.everything)
        return ended.everything

    def test_library_alone(self):
        text = self.run_program()
        self.assertIn("info: policy: defaults", text)
        self.assertIn("transfer copies between pageable memory and the device", text)

    def test_policy_by_name(self):
        policy = self.folder / "policy.toml"
        policy.write_text(POLICY)
        self.assertIn(str(policy), self.run_program(SLIPSTREAM_POLICY=str(policy)))

    def test_policy_of_the_machine(self):
        (self.folder / "policy.toml").write_text(POLICY)
        self.assertIn("info: policy: system", self.run_program(SLIPSTREAM_SYSTEM_DIRECTORY=str(self.folder)))

    def test_off(self):
        self.assertNotIn("info", self.run_program(SLIPSTREAM_DISABLE="1"))

    def test_no_library(self):
        """What an image without the library says: the loader goes on without it."""
        self.environment["LD_PRELOAD"] = "/nonexistent/libslipstream.so"
        ended = self.run_command(self.train)
        self.assertEqual((ended.status, ended.out), (0, ["rank 0 of 1: good"]))
        self.assertIn("cannot be preloaded", ended.everything)

    def test_children(self):
        """`slipstream run` inside of a process that has the library already."""
        ended = self.run_command([*self.run_words("--summary", "summary.json"), *self.train])
        self.assertEqual(ended.status, 0, ended.everything)
        self.assert_seen(ended, 1)


class ConfigMaps(LauncherTest):
    """A mounted ConfigMap is a folder that everybody may write, with links in it; a file of it (subPath) is a plain file."""

    def setUp(self):
        super().setUp()
        self.mounted = self.folder / "mounted"
        (self.mounted / "..2026").mkdir(parents=True)
        (self.mounted / "..2026" / "policy.toml").write_text(POLICY)
        (self.mounted / "..data").symlink_to("..2026")
        (self.mounted / "policy.toml").symlink_to("..data/policy.toml")
        self.mounted.chmod(0o777)

    def test_folder_is_refused(self):
        ended = self.run_command([*self.run_words("--policy", self.mounted / "policy.toml"), *self.train])
        self.assertEqual(ended.status, 125)
        self.assertIn("everybody may write its folder", ended.everything)

    def test_file_is_the_policy_of_the_machine(self):
        """`subPath: policy.toml` at /etc/slipstream/policy.toml."""
        system = self.folder / "etc"
        system.mkdir()
        (system / "policy.toml").write_bytes((self.mounted / "policy.toml").read_bytes())
        self.environment["SLIPSTREAM_SYSTEM_DIRECTORY"] = str(system)
        ended = self.run_command([*self.run_words("--summary", "summary.json"), *self.train])
        self.assert_seen(ended, 1)
        self.assertIn("policy: system", ended.everything)


class Containers(LauncherTest):
    def test_first_process(self):
        """ENTRYPOINT ["slipstream", "run", "--"]: the program is the container's first process, and its summary is printed."""
        around = ["unshare", "--pid", "--fork", "--mount-proc", "--"]
        if not can(*around):
            self.skipTest("no PID namespace of one's own here")
        bare = self.run_command([*around, *self.train, "--fail", "3"])
        ended = self.run_command([*around, *self.run_words("--summary", "summary.json"), *self.train, "--fail", "3"])
        self.assertEqual(bare.status, 3)
        self.assert_same(bare, ended)
        self.assert_seen(ended, 1)

    def test_read_only_root(self):
        """readOnlyRootFilesystem: true. Counters are in /dev/shm; a trace wants a volume."""
        around = ["unshare", "--mount", "--", "sh", "-c", 'mount -o remount,ro,bind / && exec "$@"', "sh"]
        if not can(*around):
            self.skipTest("no root file system of one's own here")
        if os.stat("/").st_dev != os.stat(self.folder).st_dev or os.stat("/dev/shm").st_dev == os.stat("/").st_dev:
            self.skipTest("the working directory, or /dev/shm, is on another file system than here assumed")
        bare = self.run_command([*around, *self.train])
        ended = self.run_command([*around, *self.run_words(), *self.train])
        self.assert_same(bare, ended)
        self.assertEqual(ended.summaries, 1)
        recorded = self.run_command([*around, *self.run_words("--record"), *self.train])
        self.assert_same(bare, recorded)
        self.assertIn("no trace, no counters and no summary of this run: ", recorded.everything)

    @needs("setpriv")
    def test_nobody_without_capabilities(self):
        """runAsNonRoot, allowPrivilegeEscalation: false, capabilities: drop: [ALL]."""
        if os.geteuid() != 0:
            self.skipTest("for root, who can give it up")
        around = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                  "--no-new-privs"]
        self.train[0] = shutil.which("python3", path="/usr/bin:/usr/local/bin") or self.train[0]
        self.folder.chmod(0o755)
        needed = [self.train[0], self.train[1], OPTIONS.build / "slipstream", OPTIONS.build / "sim" / "libcudart.so.13"]
        if any(subprocess.run([*around, "test", "-r", path], check=False).returncode for path in needed):
            self.skipTest("another user cannot read these files")
        bare = self.run_command([*around, *self.train])
        ended = self.run_command([*around, *self.run_words(), *self.train])
        self.assert_same(bare, ended)
        self.assertEqual(ended.summaries, 1)

    def test_small_shared_memory(self):
        """A pod's /dev/shm is 64 MiB: each process that uses CUDA has its counters there, and less than 2 MiB of them."""
        ended = self.run_command([*self.run_words("--record"), "sh", "-c", '"$@"; du -k --apparent-size slipstream-trace-*/*.counters', "sh",
                                  *self.train])
        (kilobytes,) = [int(line.split()[0]) for line in ended.out if line.endswith(".counters")]
        self.assertLess(kilobytes, 2048)


class Document(LauncherTest):
    """docs/launchers.md: policies are valid, lines of a shell and of JSON can be read, and variables exist."""

    def setUp(self):
        super().setUp()
        self.text = (HERE.parents[1] / "docs" / "launchers.md").read_text()

    def blocks(self, language):
        found = re.findall(rf"```{language}\n(.*?)```", self.text, re.DOTALL)
        self.assertTrue(found, language)
        return found

    def test_policies(self):
        for block in self.blocks("toml"):
            policy = self.folder / "policy.toml"
            policy.write_text(block)
            ended = self.run_command(["slipstream", "policy", "check", policy])
            self.assertEqual(ended.status, 0, ended.everything)

    def test_shell(self):
        for block in self.blocks("sh"):
            ended = self.run_command(["bash", "-n", "-c", block])
            self.assertEqual(ended.status, 0, ended.everything)

    def test_lines(self):
        """Those whose launchers are here and need no other machine, window, device or PyTorch run as they stand."""
        names = self.folder / "bin"
        names.mkdir()
        (names / "python").symlink_to(sys.executable)
        self.environment["PATH"] += f"{os.pathsep}{names}"
        lines = [line for line in self.blocks("sh")[0].splitlines() if line.startswith("slipstream run -- ")]
        tried = 0
        for line in lines:
            launcher = re.search(r" -- (\S+)", line)[1]
            if launcher not in ("python", "bash", "timeout", "gdb") or (launcher != "python" and not has(launcher)):
                continue
            with self.subTest(line=line):
                place = self.place()
                for name in ("train.py", "package/train.py"):
                    (place / name).parent.mkdir(exist_ok=True)
                    shutil.copy(self.train[1], place / name)
                line = re.sub(r"gdb --args", "gdb -q -nx -batch -iex 'set debuginfod enabled off' -ex run --args", line)
                ended = self.finish(self.start(["bash", "-c", line], place), place)
                self.assertEqual((ended.status, ended.summaries), (0, 1), ended.everything)
                self.assertIn("rank 0 of 1: good", ended.out)
                tried += 1
        self.assertGreaterEqual(tried, 3)

    def test_kernelspec(self):
        for block in self.blocks("json"):
            self.assertEqual(json.loads(block)["argv"][:2], ["slipstream", "run"])

    def test_variables(self):
        """Each variable that the page names is one of a key's, or another that the reference of policies knows."""
        reference = (HERE.parents[1] / "docs" / "policy.md").read_text()
        for name in set(re.findall(r"\bSLIPSTREAM_[A-Z0-9_]+\b", self.text)):
            self.assertIn(name, reference)


if __name__ == "__main__":
    main()
