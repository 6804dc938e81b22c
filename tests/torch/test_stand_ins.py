"""The stand-ins let a library load that needs what is not there, and let nobody take them for it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import stand_ins


class StandIns(unittest.TestCase):
    """A PyTorch of one library, linked to two of NVIDIA's (one with symbol versions) that then go away."""

    def setUp(self):
        if not shutil.which("cc") or not shutil.which("readelf"):
            self.skipTest("no compiler or no readelf here")
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-stand-ins-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        for folder in ("lib", "nvidia", "out"):
            (self.scratch / folder).mkdir()
        self.library("nvidia/libcublas.so.13", "int cublasCreate_v2() { return 0; } int cublasDestroy_v2() { return 0; }",
                     "libcublas.so.13 { global: cublas*; };")
        self.library("nvidia/libcufile.so.0", "int cuFileRead() { return 0; }")
        self.library("nvidia/libcudart.so.13", "int cudaMalloc() { return 0; }", "libcudart.so.13 { global: cuda*; };")
        self.library("lib/libtorch_other.so", "int torch_function() { return 3; }")
        self.library(
            "lib/libtorch_cuda.so",
            "int cublasCreate_v2(); int cuFileRead(); int torch_function(); int cudaMalloc();"
            "int Matmul() { return cublasCreate_v2() + cuFileRead(); } int Copy() { return torch_function(); }"
            "int Allocate() { return cudaMalloc(); }",
            None, "libtorch_other.so", "libcublas.so.13", "libcufile.so.0", "libcudart.so.13")

    def library(self, name, source, versions=None, *needs):
        path = self.scratch / name
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path, f"-Wl,-soname,{path.name}", "-x", "none"]
        if versions:
            (self.scratch / "map").write_text(versions)
            command.append(f"-Wl,--version-script={self.scratch / 'map'}")
        for need in needs:
            command.append(next(folder / need for folder in (self.scratch / "lib", self.scratch / "nvidia")
                                if (folder / need).exists()))
        subprocess.run(command, input=source, text=True, check=True, capture_output=True)

    def call(self, function, *folders):
        """What a process says that loads libtorch_cuda.so as Python loads an extension, all at once, and calls it."""
        script = ("import ctypes, os, sys; library = ctypes.CDLL('libtorch_cuda.so', mode=os.RTLD_NOW);"
                  "print('loaded', flush=True); sys.exit(getattr(library, sys.argv[1])())")
        path = ":".join(str(self.scratch / folder) for folder in ("lib", *folders))
        return subprocess.run([sys.executable, "-c", script, function], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": path})

    def test_what_is_missing_loads_and_what_is_called_says_so(self):
        self.assertEqual(self.call("Matmul", "nvidia").returncode, 0)
        (self.scratch / "simulated").mkdir()
        (self.scratch / "nvidia/libcudart.so.13").rename(self.scratch / "simulated/libcudart.so.13")
        self.assertIn("cannot open shared object file", self.call("Copy", "simulated").stderr)
        stand_ins.main([str(self.scratch / "lib"), str(self.scratch / "out")])
        self.assertEqual(sorted(path.name for path in (self.scratch / "out").iterdir()),
                         ["libcublas.so.13", "libcufile.so.0"])
        done = self.call("Copy", "simulated", "out")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("loaded\n", "", 3))
        done = self.call("Matmul", "simulated", "out")
        self.assertEqual(done.stdout, "loaded\n")
        self.assertTrue(done.stderr.startswith("libcublas.so.13: cublasCreate_v2 was called"), done.stderr)
        self.assertEqual(done.returncode, -6)

    def test_only_what_is_looked_up_is_there(self):
        made = stand_ins.plan(self.scratch / "lib")
        self.assertEqual(made, {"libcublas.so.13": {"libcublas.so.13": ["cublasCreate_v2"]},
                                "libcufile.so.0": {None: ["cuFileRead"]}})

    def test_what_a_simulated_library_lacks_is_in_a_stand_in(self):
        """The simulated libcudart is older than the one that PyTorch was linked to."""
        (self.scratch / "simulated").mkdir()
        self.library("simulated/libcudart.so.13", "int cudaFree() { return 0; }", "libcudart.so.13 { global: cuda*; };")
        self.assertIn("undefined symbol: cudaMalloc", self.made_and_called("out"))
        self.assertEqual(self.made_and_called("more", "--simulated", str(self.scratch / "simulated")), "")

    def made_and_called(self, out, *options):
        stand_ins.main([str(self.scratch / "lib"), str(self.scratch / out), *options])
        shutil.rmtree(self.scratch / "nvidia")
        (self.scratch / "nvidia").mkdir()
        return self.call("Copy", "simulated", out).stderr


if __name__ == "__main__":
    unittest.main()
