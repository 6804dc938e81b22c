"""The group samples, on scripts that stand in for nvcc, for slipstream and for the samples, which are scripts as well."""

import contextlib
import io
import os
import pathlib
import subprocess
import tarfile
import unittest
from unittest import mock

import support
from suite import harness, levels, samples
from suite.harness import Failed, Result, Skipped

# A "source" is a script: compiling copies it, and linking makes it a program that knows its runtime.
NVCC = """#!/bin/bash
runtime=
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out=$2; shift;;
    -c|-fatbin) ;;
    -cudart) runtime=$2; shift;;
    -I|-gencode) shift;;
    -*) ;;
    *) inputs+=("$1");;
  esac
  shift
done
[ -n "$NVCC_FAILS" ] && { echo "${inputs[0]}(7): error: identifier \\"cuNew\\" is undefined" >&2; exit 1; }
if [ -z "$runtime" ]; then cp "${inputs[0]}" "$out"; exit; fi
{ echo "#!/bin/bash"; echo "RUNTIME=$runtime"; cat "${inputs[@]}"; } > "$out"
chmod +x "$out"
"""
# slipstream policy check FILE; slipstream run --quiet --summary FILE -- COMMAND...
SLIPSTREAM = """#!/bin/bash
if [ "$1" = policy ]; then
  [ -z "$OLD_BUILD" ] && exit 0
  grep -q -e driver -e expandable "$3" || exit 0
  echo "$3:4:9: \\"intercept.level\\": found \\"driver\\" (not in this version)" >&2
  exit 1
fi
calls=${CALLS:-5}
[ "$SLIPSTREAM_INTERCEPT_LEVEL" = driver ] && calls=${DRIVER_CALLS:-9}
echo "{\\"totals\\": {\\"functions\\": [{\\"name\\": \\"cudaMalloc\\", \\"calls\\": $calls}, {\\"name\\": \\"cuGetProcAddress_v2\\", \\"calls\\": 440}]}}" > "$4"
shift 5
UNDER=1 exec "$@"
"""
SOURCE = """
[ -n "$FIGURE_OFF" ] && echo "throughput $RANDOM$RANDOM of $$ on $BASHPID at $(date +%N)"
[ -n "$WAIVED" ] && { echo "needs what is not here"; exit 2; }
[ -n "$BROKEN" ] && { echo "CUDA error 500" >&2; exit 1; }
[ -n "$SILENT" ] && exit 0
[ -n "$LOUD" ] && [ -n "$UNDER" ] && yes "wrong byte"
echo "took $RANDOM.5 ms"
[ "$SLIPSTREAM_ALLOCATOR_MODE" = off ] && [ -n "$WRONG_WITHOUT_POOL" ] && echo "Result = FAIL" || echo "Result = PASS"
[ -n "$WRONG_STATUS" ] && [ -n "$UNDER" ] && exit 3
exit 0
"""
SIMPLE = samples.Sample("0_Introduction/simple", ("simple.cu",), measured=(samples.MILLISECONDS,))
PLAIN = samples.Sample(
    "0_Introduction/plain",
    ("plain.cpp",),
    runtimes=(samples.NONE,),
    kernels="kernel.cu",
    measured=(samples.MILLISECONDS,),
)
TWO = samples.Sample("0_Introduction/two", ("two.cu",), gpus=2)


@contextlib.contextmanager
def group(given=True, **environment):
    """name -> check, of a checkout with three samples."""
    temporary = support.TemporarySuite(only="samples")
    with temporary as suite, mock.patch.dict(os.environ):
        root = pathlib.Path(temporary.directory.name)
        (root / "bin").mkdir()
        for path, text in ((root / "bin" / "nvcc", NVCC), (root / "slipstream", SLIPSTREAM)):
            path.write_text(text)
            path.chmod(0o755)
        checkout = root / "cuda-samples"
        (checkout / "Common").mkdir(parents=True)
        (checkout / "Common" / "helper_cuda.h").touch()
        for sample in (SIMPLE, PLAIN, TWO):
            folder = checkout / "Samples" / sample.folder
            folder.mkdir(parents=True)
            for name in filter(None, (*sample.sources, sample.kernels)):
                (folder / name).write_text(SOURCE)
        os.environ.update(PATH=f"{root / 'bin'}:/usr/bin:/bin", CUDA_HOME=str(root), **environment)
        suite.slipstream = root / "slipstream"
        suite.samples = checkout if given else None
        suite.results["machine"] = {"gpus": [{}]}
        with mock.patch.object(samples, "SAMPLES", (SIMPLE, PLAIN, TWO)):
            checks, behind = samples.checks(suite)
        suite.checkout = checkout
        yield suite, dict(checks) | dict(behind)


class Checks(unittest.TestCase):
    def test_all_rows_as_bare(self):
        with group() as (suite, checks):
            data = {}
            text = checks["samples.simple.shared"](data)
            for level in levels.LEVELS:
                self.assertIn(level.name, text)
            self.assertEqual({"calls_seen": 9}, data["levels"]["driver"])
            self.assertEqual({"calls_seen": 5}, data["levels"]["expandable"])
            checks["samples.simple.static"]({})
            checks["samples.plain.none"]({})
            self.assertTrue((suite.workdir / "samples" / "plain" / samples.FATBIN).exists())
            checks["samples.table"](data)
            self.assertEqual({"plain.none", "simple.shared", "simple.static"}, set(data["rows"]))
            table = (suite.logs / "samples.table.md").read_text()
            self.assertIn("| simple.static | ok | same, 5 calls |", table)

    def test_it_is_linked_to_the_runtime_that_is_meant(self):
        with group() as (suite, checks):
            for runtime in ("shared", "static"):
                checks[f"samples.simple.{runtime}"]({})
                program = suite.workdir / "samples" / "simple" / f"simple.{runtime}"
                self.assertIn(f"RUNTIME={runtime}\n", program.read_text())

    def test_a_row_that_this_build_does_not_know(self):
        with group(OLD_BUILD="1") as (_, checks):
            data = {}
            self.assertIn("not in this build: driver, expandable", checks["samples.simple.shared"](data))
            self.assertEqual(
                'skipped: "intercept.level": found "driver" (not in this version)', data["levels"]["driver"]
            )
            self.assertEqual({"calls_seen": 5}, data["levels"]["allocator_off"])

    def test_another_output_under_one_row(self):
        with group(WRONG_WITHOUT_POOL="1") as (_, checks):
            data = {}
            with self.assertRaisesRegex(Failed, r"^allocator_off: .*stdout: 'Result = PASS' and 'Result = FAIL'$"):
                checks["samples.simple.shared"](data)
            self.assertEqual({"calls_seen": 5}, data["levels"]["runtime"])
            checks["samples.table"](data)
            self.assertEqual("**differs**", data["rows"]["simple.shared"]["allocator_off"])

    def test_another_status(self):
        with group(WRONG_STATUS="1") as (_, checks), self.assertRaisesRegex(Failed, "exit status 0 and 3"):
            checks["samples.simple.static"]({})

    def test_a_line_for_every_wrong_byte(self):
        with group(LOUD="1") as (suite, checks), self.assertRaisesRegex(
            Failed, "exit status 0 and 137: ended by the suite: more than"
        ):
            checks["samples.simple.static"]({})

    def test_two_bare_runs_differ(self):
        with group(FIGURE_OFF="1") as (_, checks), self.assertRaisesRegex(Failed, "two bare runs differ"):
            checks["samples.simple.shared"]({})

    def test_what_shows_nothing(self):
        with group(SILENT="1") as (_, checks), self.assertRaisesRegex(Failed, "printed nothing"):
            checks["samples.simple.shared"]({})
        with group(CALLS="0") as (_, checks):
            with self.assertRaisesRegex(Failed, "runtime: slipstream saw no call"):
                checks["samples.simple.shared"]({})
            # There the runtime level has nothing to see.
            checks["samples.simple.static"]({})
            checks["samples.plain.none"]({})
        with group(DRIVER_CALLS="0") as (_, checks), self.assertRaisesRegex(Failed, "driver: slipstream saw no call"):
            checks["samples.plain.none"]({})

    def test_what_cannot_run_or_be_built_here(self):
        with group(WAIVED="1") as (_, checks), self.assertRaisesRegex(
            Skipped, "cannot run here: needs what is not here"
        ):
            checks["samples.simple.shared"]({})
        with group(BROKEN="1") as (_, checks), self.assertRaisesRegex(Skipped, "exit status 1: CUDA error 500"):
            checks["samples.simple.shared"]({})
        with group() as (_, checks), self.assertRaisesRegex(Skipped, "needs 2 GPUs"):
            checks["samples.two.shared"]({})
        with group(NVCC_FAILS="1") as (_, checks):
            data = {}
            for name in ("samples.simple.shared", "samples.simple.static"):
                with self.assertRaisesRegex(Skipped, 'nvcc does not build it here: .*identifier "cuNew" is undefined'):
                    checks[name]({})
            checks["samples.table"](data)
            self.assertEqual({"bare": "not built"}, data["rows"]["simple.static"])
        with group() as (suite, checks):
            (suite.checkout / "Samples" / PLAIN.folder / "kernel.cu").unlink()
            with self.assertRaisesRegex(Skipped, "not in the checkout: .*kernel.cu"):
                checks["samples.plain.none"]({})
        with group() as (_, checks), mock.patch.object(samples, "find_tool", lambda *_: None):
            with self.assertRaisesRegex(Skipped, "no nvcc"):
                checks["samples.simple.shared"]({})

    def test_no_checkout(self):
        with group(given=False) as (_, checks):
            self.assertEqual(["samples"], list(checks))
            with self.assertRaisesRegex(Skipped, "--samples"):
                checks["samples"]({})
        with support.TemporarySuite() as suite:
            suite.samples = "/nowhere"
            ((_, check),) = samples.checks(suite)[0]
            with self.assertRaisesRegex(Failed, "/nowhere has no Common/helper_cuda.h"):
                check({})

    def test_it_runs_only_where_it_is_named(self):
        self.assertIn(samples.GROUP, harness.ON_REQUEST)
        self.assertEqual(len(samples.SAMPLES), len({sample.name for sample in samples.SAMPLES}))


# Of each sample with figures: lines as it prints them, and the same with other figures.
FIGURES = {
    "asyncAPI": [
        ("time spent executing by the GPU: 11.02", "time spent executing by the GPU: 9.87"),
        ("time spent by CPU in CUDA calls: 0.07", "time spent by CPU in CUDA calls: 12.00"),
        (
            "CPU executed 64232 iterations while waiting for GPU to finish",
            "CPU executed 7 iterations while waiting for GPU to finish",
        ),
    ],
    "simpleStreams": [
        ("memcopy:\t1.21", "memcopy:\t0.98"),
        ("kernel:\t\t0.20", "kernel:\t\t10.20"),
        ("non-streamed:\t1.40", "non-streamed:\t1.39"),
        ("4 streams:\t1.22", "4 streams:\t1.25"),
    ],
    "simpleMultiCopy": [
        (" Memcpy host to device\t: 0.306 ms (54.800000 GB/s)", " Memcpy host to device\t: 1.3 ms (4.1 GB/s)"),
        (
            "No overlap at all (transfer-kernel-transfer): 0.62 ms ",
            "No overlap at all (transfer-kernel-transfer): 1.1 ms ",
        ),
        (
            " Avg. speedup gained (serialized - overlapped)\t: 0.29 ms",
            " Avg. speedup gained (serialized - overlapped)\t: -0.01 ms",
        ),
        (" Overlapped using 4 streams\t\t: 100.4 GB/s", " Overlapped using 4 streams\t\t: 90.1 GB/s"),
    ],
    "simpleIPC": [("PP: lshmName = simpleIPCshm8123", "PP: lshmName = simpleIPCshm991")],
    "streamOrderedAllocation": [
        ("Total elapsed time = 30.221 ms over 20 iterations", "Total elapsed time = 3.2 ms over 20 iterations")
    ],
    "jacobiCudaGraphs": [
        ("CPU Processing time: 812.115 (ms)", "CPU Processing time: 799.000 (ms)"),
        ("GPU Processing time: 50.100 (ms)", "GPU Processing time: 5.1 (ms)"),
    ],
    "simpleP2P": [
        (
            "cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 345.10GB/s",
            "cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 9.99GB/s",
        )
    ],
}
# And what no pattern may take out.
RESULTS = {
    "simpleStreams": [("> array_size   = 16777216", "> array_size   = 16777217")],
    "simpleMultiCopy": [("> scale_factor = 1.00", "> scale_factor = 0.50")],
    "simpleIPC": [("Process 1: Verification mismatch at 5: 0 != 1", "Process 1: Verification mismatch at 6: 0 != 1")],
    "streamOrderedAllocation": [("streamOrderedAllocationPostSync PASSED", "")],
    "jacobiCudaGraphs": [
        ("GPU iterations : 3000", "GPU iterations : 3001"),
        ("GPU error : 4.994e-03", "GPU error : 5.0e-03"),
    ],
    "simpleP2P": [
        (
            "Verification error @ element 3: val = 1.000000, ref = 2.000000",
            "Verification error @ element 3: val = 1.500000, ref = 2.000000",
        )
    ],
}


class Figures(unittest.TestCase):
    def difference(self, sample, line, other):
        runs = [[Result(0, f"Starting\n{text}\nDone\n".encode(), b"", 1)] for text in (line, other)]
        return samples.difference(sample, *runs)

    def test_figures_are_taken_out_and_nothing_else(self):
        known = {sample.name: sample for sample in samples.SAMPLES}
        self.assertEqual({sample.name for sample in samples.SAMPLES if sample.measured}, set(FIGURES))
        for table, same in ((FIGURES, True), (RESULTS, False)):
            for name, pairs in table.items():
                for line, other in pairs:
                    with self.subTest(line):
                        self.assertEqual(same, self.difference(known[name], line, other) is None)

    def test_order_counts_unless_several_processes_print(self):
        for sample in samples.SAMPLES:
            runs = [[Result(0, text, b"", 1)] for text in (b"a\nb\n", b"b\na\n")]
            self.assertEqual(sample.name == "simpleIPC", samples.difference(sample, *runs) is None, sample.name)

    def test_other_streams_and_ends(self):
        good = Result(0, b"a\n", b"", 1)
        for other, text in (
            (Result(0, b"a\n", b"warning\n", 1), "stderr: 0 and 1 lines"),
            (Result(0, b"a\nb\n", b"", 1), "stdout: 1 and 2 lines"),
            (Result(137, b"a\n", b"", 1, timed_out=True), "did not end in time"),
        ):
            self.assertIn(text, samples.difference(SIMPLE, [good], [other]))
        self.assertIn(
            "run 2, exit status 0 and 1", samples.difference(SIMPLE, [good, good], [good, Result(1, b"", b"", 1)])
        )

    def test_architectures(self):
        self.assertEqual(["-gencode", "arch=compute_90,code=sm_90"], samples.architectures(["9.0", "9.0"]))
        self.assertEqual(4, len(samples.architectures(["9.0", "8.0"])))
        self.assertIn("arch=compute_90,code=sm_90", samples.architectures([]))
        self.assertIn("arch=compute_80,code=[sm_80,compute_80]", samples.architectures(["[N/A]"]))


class Pack(unittest.TestCase):
    def test_what_is_in_the_archive(self):
        script = support.REPOSITORY / "tests" / "gpu" / "pack_samples.py"
        with support.TemporarySuite() as suite:
            clone, archive = suite.scratch("clone"), suite.scratch("out") / "packed.tar.gz"
            names = ["LICENSE", "README.md", "Common/helper_cuda.h", "Common/data/skull.raw", "Common/GL/glew.h"]
            for sample in samples.SAMPLES:
                names += [
                    f"Samples/{sample.folder}/{name}" for name in (*sample.sources, "README.md") if "/" not in name
                ]
            names += ["Samples/0_Introduction/other/other.cu"]

            def git(*arguments):
                identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
                subprocess.run(["git", "-C", clone, *identity, *arguments], check=True, capture_output=True)

            def packed():
                return subprocess.run([script, clone, archive], capture_output=True, text=True, check=False)

            git("init", "-q")
            for name in names:
                (clone / name).parent.mkdir(parents=True, exist_ok=True)
                (clone / name).write_text(name)
            git("add", "-A")
            git("commit", "-q", "-m", "samples")
            self.assertEqual(0, packed().returncode)
            first = archive.read_bytes()
            with tarfile.open(fileobj=io.BytesIO(first)) as file:
                found = {name.removeprefix("cuda-samples/") for name in file.getnames()}
                member = file.extractfile("cuda-samples/Common/helper_cuda.h")
                self.assertEqual(b"Common/helper_cuda.h", member.read())
            wanted = {name for name in names if name.endswith((".cu", ".cpp", "helper_cuda.h"))} | {"LICENSE"}
            self.assertEqual(wanted - {"Samples/0_Introduction/other/other.cu"}, found)
            packed()
            self.assertEqual(first, archive.read_bytes())
            git("rm", "-q", "-r", "Samples/0_Introduction/simpleP2P")
            git("commit", "-q", "-m", "less")
            result = packed()
            self.assertEqual(1, result.returncode)
            self.assertIn("no Samples/0_Introduction/simpleP2P", result.stderr)


if __name__ == "__main__":
    unittest.main()
