"""tools/setup asks for what is missing, says the exact line without root, and believes only what it then sees."""

import os
import shutil
import subprocess
import unittest

from support import ROOT, CheckTest

# What the script itself runs, and what a machine has before it.
_BASE = ("bash env dirname sort head sed uname readlink mktemp rm mv mkdir tail cat chmod g++ cmake ccache git readelf python3 "
         "clang-format-14 clang-tidy-14 musl-gcc lowdown mandoc ldconfig grep df").split()


class Setup(CheckTest):
    """A machine of ours: its commands are the links in bin/, its CUDA headers a toolkit of empty files."""

    def setUp(self):
        super().setUp()
        self.bin = self.scratch / "bin"
        self.bin.mkdir()
        for name in _BASE:
            path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
            if path:
                (self.bin / name).symlink_to(path)
        self.write("tools/setup", (ROOT / "tools" / "setup").read_text()).chmod(0o755)
        for header in ("cuda.h", "cuda_runtime_api.h", "cuda_profiler_api.h", "crt/host_defines.h", "cupti.h", "nvtx3/nvToolsExt.h"):
            self.write(f"toolkit/include/{header}", "")
        self.plotly = self.write("build/plotly/plotly/package_data/plotly.min.js", "")

    def built(self):
        """What is in build/ beside plotly.js, which setUp puts there."""
        return sorted(path.name for path in (self.scratch / "build").iterdir() if path.name != "plotly")

    def command(self, name, script):
        (self.bin / name).unlink(missing_ok=True)  # it may be a link to the real one
        path = self.write(f"bin/{name}", f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_setup(self, *arguments, user="1000", **variables):
        self.command("id", f"echo {user}")
        environment = {"PATH": str(self.bin), "HOME": str(self.scratch), "CUDA_HOME": str(self.scratch / "toolkit"), **variables}
        return subprocess.run([self.scratch / "tools" / "setup", *arguments], capture_output=True, text=True, env=environment)

    def test_without_root_it_prints_the_line_and_exits_2(self):
        self.command("apt-get", "echo must not run; exit 9")
        done = self.run_setup("--build-only")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        (line,) = done.stdout.splitlines()
        self.assertTrue(line.startswith("sudo apt-get update && sudo apt-get install -y --no-install-recommends "), line)
        self.assertIn("ninja-build", line.split())
        self.assertNotIn("cmake", line.split())

    def test_check_changes_nothing(self):
        self.command("apt-get", "echo must not run; exit 9")
        done = self.run_setup("--check", "--build-only", user="0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("ninja-build", done.stdout)
        self.assertEqual(self.built(), [])

    def test_as_root_it_installs_and_looks_again(self):
        self.command("apt-get", f'echo "$@" >>{self.scratch}/calls; case "$1" in install) printf "#!/bin/sh\\n" >{self.bin}/ninja; chmod +x {self.bin}/ninja;; esac')
        done = self.run_setup("--build-only", user="0")
        if "set-up: installed, and still not there" in done.stderr:
            self.skipTest("this machine lacks more than the stand-in for apt-get brings: " + done.stderr.splitlines()[0])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        update, install = (self.scratch / "calls").read_text().splitlines()
        self.assertTrue(update.startswith("update"))
        self.assertIn("ninja-build", install.split())
        # The second time there is nothing to do, and nothing is asked of the network.
        self.command("apt-get", "echo must not run; exit 9")
        done = self.run_setup("--build-only")
        self.assertEqual((done.returncode, done.stdout), (0, "set-up: everything is there\n"), done.stderr)

    def test_an_install_that_brings_nothing_is_a_failure(self):
        self.command("apt-get", "exit 0")
        done = self.run_setup("--build-only", user="0")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("still not there", done.stderr)

    def test_an_install_that_fails_is_a_failure(self):
        self.command("apt-get", "echo no such package; exit 100")
        done = self.run_setup("--build-only", user="0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such package", done.stderr)

    def test_an_old_compiler_counts_as_missing(self):
        self.command("ninja", "")
        self.command("g++", "echo 9")
        self.command("apt-get", "echo must not run; exit 9")
        self.assertIn("g++", self.run_setup("--build-only").stdout.split())

    def run_setup_without_toolkit(self, pip):
        """`pip` is what a stand-in for it does, with "$2" the folder to fill."""
        self.command("ninja", "")
        self.command("python3", f'case "$*" in *--version*) exit 0;; esac; echo "$@" >{self.scratch}/pip\n'
                                f'while [ "$1" != --target ]; do shift; done\n{pip}')
        done = self.run_setup("--build-only", SLIPSTREAM_HIDE_CUDA_TOOLKIT="1")
        if done.returncode == 2:
            self.skipTest("this machine lacks packages: " + done.stdout.strip())
        return done

    def test_without_a_toolkit_the_headers_are_fetched(self):
        done = self.run_setup_without_toolkit(
            f'mkdir -p "$2/nvidia/cu13" && {shutil.which("cp")} -r {self.scratch}/toolkit/include "$2/nvidia/cu13/"')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("cuda-toolkit[cudart,crt,cupti,nvtx,profiler]==13.0.*", (self.scratch / "pip").read_text())
        self.assertTrue((self.scratch / "build/cuda-headers/nvidia/cu13/include/cupti.h").exists())
        self.assertFalse((self.scratch / "build/cuda-headers.new").exists())

    def test_a_package_without_a_header_is_not_enough(self):
        (self.scratch / "toolkit/include/cupti.h").unlink()
        done = self.run_setup_without_toolkit(
            f'mkdir -p "$2/nvidia/cu13" && {shutil.which("cp")} -r {self.scratch}/toolkit/include "$2/nvidia/cu13/"')
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("cupti.h", done.stderr)

    def test_a_fetch_that_fails_leaves_nothing_that_looks_complete(self):
        done = self.run_setup_without_toolkit('mkdir -p "$2/nvidia"; echo no route to the index; exit 1')
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("no route to the index", done.stderr)
        self.assertEqual(self.built(), [])

    def run_setup_without_plotly(self, pip):
        """`pip` as above; the CUDA headers are there."""
        shutil.rmtree(self.scratch / "build")
        self.command("ninja", "")
        self.command("python3", f'case "$*" in *--version*) exit 0;; esac; echo "$@" >>{self.scratch}/pip\n'
                                f'while [ "$1" != --target ]; do shift; done\n{pip}')
        done = self.run_setup("--build-only")
        if done.returncode == 2:
            self.skipTest("this machine lacks packages: " + done.stdout.strip())
        return done

    def test_plotly_is_brought_once(self):
        pip = 'mkdir -p "$2/plotly/package_data" && : >"$2/plotly/package_data/plotly.min.js"'
        done = self.run_setup_without_plotly(pip)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("plotly==7.1.*", (self.scratch / "pip").read_text().split())
        self.assertIn("--no-deps", (self.scratch / "pip").read_text().split())
        self.assertTrue(self.plotly.exists())
        self.command("python3", "echo must not run; exit 9")
        done = self.run_setup("--build-only")
        self.assertEqual((done.returncode, done.stdout), (0, "set-up: everything is there\n"), done.stderr)

    def test_without_plotly_the_rest_goes_on(self):
        done = self.run_setup_without_plotly('mkdir -p "$2/plotly"; echo no route to the index; exit 1')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no route to the index", done.stderr)
        self.assertIn("will have no plots", done.stderr)
        self.assertEqual(list((self.scratch / "build").iterdir()), [])
        done = self.run_setup("--check", "--build-only")
        self.assertEqual(done.returncode, 2)
        self.assertIn("missing: plotly.js", done.stdout)

    def run_setup_for_tests(self, pip):
        """As above, where only what judges the exports is missing."""
        for header in ("build/cuda12-headers/nvidia/cuda_runtime/include/cuda_runtime_api.h", "build/cuda13-latest/nvidia/cu13/include/cuda_runtime_api.h"):
            self.write(header, "")
        return self.run_setup_with_pip(pip)

    def run_setup_with_pip(self, pip, *arguments):
        """`pip` is what a stand-in for pip does, with "$2" the folder that it is to fill."""
        self.command("ninja", "")
        self.command("python3", f'case "$*" in *--version*) exit 0;; esac; echo "$@" >>{self.scratch}/pip\n'
                                f'while [ "$1" != --target ]; do shift; done\n{pip}')
        done = self.run_setup(*arguments)
        if done.returncode == 2:
            self.skipTest("this machine lacks packages: " + done.stdout.strip())
        return done

    def test_the_judges_of_exports_are_brought_once(self):
        done = self.run_setup_for_tests('mkdir -p "$2/hta" "$2/perfetto" "$2/prometheus_client"; echo >"$2/hta/trace_analysis.py"')
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertTrue((self.scratch / "build/judges/hta/trace_analysis.py").exists())
        arguments = (self.scratch / "pip").read_text().split()
        self.assertIn("--no-deps", arguments)
        packages = [argument for argument in arguments if "==" in argument]
        self.assertEqual([name.split("==")[0] for name in packages[-1:] + packages[:-1]][:2], ["HolisticTraceAnalysis", "perfetto"])
        done = self.run_setup_for_tests("echo must not run; exit 9")
        self.assertEqual((done.returncode, done.stdout), (0, "set-up: everything is there\n"), done.stderr)

    def test_without_the_judges_set_up_goes_on(self):
        done = self.run_setup_for_tests("echo no route to the index; exit 1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no route to the index", done.stderr)
        self.assertTrue(done.stderr.splitlines()[-1].endswith("the tests trace_export.judge_* and site.judge will be skipped"), done.stderr)
        self.assertFalse((self.scratch / "build/judges").exists())

    def run_setup_wheel(self, pip):
        return self.run_setup_with_pip(pip, "--build-only", "--wheel")

    def test_what_makes_wheels_is_brought_once(self):
        done = self.run_setup_wheel('mkdir -p "$2/ziglang" "$2/auditwheel"; echo >"$2/ziglang/zig"; chmod +x "$2/ziglang/zig"')
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("ziglang==", (self.scratch / "pip").read_text())
        done = self.run_setup_wheel("echo must not run; exit 9")
        self.assertEqual((done.returncode, done.stdout), (0, "set-up: everything is there\n"), done.stderr)

    def test_without_a_network_there_is_no_wheel(self):
        done = self.run_setup_wheel("echo no route to the index; exit 1")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("set-up: no wheel: pip could not bring ziglang"), done.stderr)
        self.assertFalse((self.scratch / "build/wheel-tools").exists())

    def run_setup_torch(self, pip="exit 1", stand_ins="mkdir -p \"$3\"", free_kib=1 << 30):
        """As above, for PyTorch; `stand_ins` is what a stand-in for the script of that name does, with "$3" its folder."""
        self.command("ninja", "")
        self.command("df", f'echo Filesystem 1024-blocks Used Available Capacity Mounted; echo /dev/sda 9 9 {free_kib} 1% /')
        self.command("python3", f'case "$*" in *--version*) exit 0;; *stand_ins.py*) {stand_ins}; exit;; "-c import sys"*) echo {self.bin}/python3; exit;; esac\n'
                                f'echo "$@" >>{self.scratch}/pip\nwhile [ "$1" != --target ]; do shift; done\n{pip}')
        done = self.run_setup("--build-only", "--torch")
        if done.returncode == 2:
            self.skipTest("this machine lacks packages: " + done.stdout.strip())
        return done

    # As pip leaves it.
    _TORCH = 'mkdir -p "$2/torch/lib"; echo "__version__ = \'2.11.0+cu130\'" >"$2/torch/version.py"'

    def test_pytorch_is_brought_once(self):
        done = self.run_setup_torch(self._TORCH)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        torch = self.scratch / "build/torch"
        self.assertEqual((torch / "python").read_text(), f"{self.bin}/python3\n")
        self.assertEqual(sorted(path.name for path in torch.iterdir()), ["python", "site-packages", "stand-ins"])
        self.assertIn("torch==2.11.0", (self.scratch / "pip").read_text())
        done = self.run_setup_torch("echo must not run; exit 9")
        self.assertEqual((done.returncode, done.stdout), (0, "set-up: everything is there\n"), done.stderr)

    def test_without_room_pytorch_is_not_asked_for(self):
        done = self.run_setup_torch(self._TORCH, free_kib=(4 << 20) - 1)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("4095 MiB are free", done.stderr.splitlines()[-1])
        self.assertFalse((self.scratch / "pip").exists())

    def test_without_a_network_there_is_no_pytorch(self):
        done = self.run_setup_torch('mkdir -p "$2"; echo no route to the index; exit 1')
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("no route to the index", done.stderr)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("set-up: no PyTorch: "), done.stderr)
        self.assertEqual(list((self.scratch / "build/torch").iterdir()), [])

    def test_pytorch_without_stand_ins_does_not_count(self):
        done = self.run_setup_torch(self._TORCH, stand_ins="exit 1")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertFalse((self.scratch / "build/torch/python").exists())


if __name__ == "__main__":
    unittest.main()
