"""NVIDIA's CUDA samples, built here from a checkout that the user names, bare and under slipstream.

Each sample is linked to the shared CUDA runtime and, another time, with the static one inside (programs of the driver's
own interface have none). Every row of levels.LEVELS must leave the output and the exit status of the bare run, once the
figures that a sample measures are taken out of both. Two bare runs are compared first: what they differ in is a figure
that `measured` does not name, and the check fails. Without --samples the group is one skipped check.
"""

import dataclasses
import pathlib
import re
import threading

from . import harness, levels, machine
from .harness import Failed, Skipped, needs_gpu
from .sanitizer import NVCC_OPTIONS, find_tool, library_path

GROUP = "samples"
SHARED, STATIC, NONE = "shared", "static", "none"  # as nvcc -cudart takes them
WAIVED = 2  # with which a sample says that it cannot run here
RUN_SECONDS = 40
BUILD_SECONDS = 100
MOST_OUTPUT = 1 << 20  # bytes; some print a line for every wrong byte
FATBIN = "vectorAdd_kernel64.fatbin"
MILLISECONDS, GIGABYTES = r"-?\d+\.\d+(?= ms\b)", r"-?\d+\.\d+(?= ?GB/s)"
HOW = "give --samples a checkout of NVIDIA's cuda-samples, or what tests/gpu/pack_samples.py packs of one"


@dataclasses.dataclass(frozen=True)
class Sample:
    folder: str  # below Samples/
    sources: tuple  # in the folder; or below Common/
    runs: tuple = ((),)  # arguments of each run
    runtimes: tuple = (SHARED, STATIC)
    libraries: tuple = ()
    kernels: str = ""  # compiled to FATBIN, which the sample loads from its working directory
    measured: tuple = ()  # patterns of figures that differ from run to run
    unordered: bool = False  # several processes print: lines are sorted
    gpus: int = 1

    @property
    def name(self):
        return self.folder.rsplit("/", 1)[1]


INTRODUCTION, CONCEPTS, FEATURES = "0_Introduction", "2_Concepts_and_Techniques", "3_CUDA_Features"


def one_file(folder, name, **more):
    return Sample(f"{folder}/{name}", (f"{name}.cu",), **more)


SAMPLES = (
    one_file(INTRODUCTION, "asyncAPI", measured=(r"(?<=: )\d+\.\d+$", r"\d+(?= iterations while waiting)")),
    one_file(INTRODUCTION, "simpleStreams", measured=(r"(?<=:\t)\t?\d+\.\d+$",)),
    one_file(INTRODUCTION, "simpleMultiCopy", measured=(MILLISECONDS, GIGABYTES)),
    one_file(INTRODUCTION, "simpleZeroCopy", runs=((), ("--use_generic_memory",))),
    Sample(f"{INTRODUCTION}/simpleCallback", ("simpleCallback.cu", "multithreading.cpp")),
    Sample(
        f"{INTRODUCTION}/simpleIPC",
        ("simpleIPC.cu", "Common/helper_multiprocess.cpp"),
        measured=(r"(?<=simpleIPCshm)\d+",),  # the parent's process id
        unordered=True,
    ),
    Sample(
        f"{INTRODUCTION}/simpleDrvRuntime",
        ("simpleDrvRuntime.cpp",),
        libraries=("cuda",),
        kernels="vectorAdd_kernel.cu",
    ),
    Sample(
        f"{INTRODUCTION}/vectorAddDrv",
        ("vectorAddDrv.cpp",),
        runtimes=(NONE,),
        libraries=("cuda",),
        kernels="vectorAdd_kernel.cu",
    ),
    Sample(
        f"{INTRODUCTION}/vectorAddMMAP",
        ("vectorAddMMAP.cpp", "multidevicealloc_memmap.cpp"),
        runtimes=(NONE,),
        libraries=("cuda",),
        kernels="vectorAdd_kernel.cu",
    ),
    one_file(CONCEPTS, "streamOrderedAllocation", measured=(MILLISECONDS,)),
    one_file(FEATURES, "simpleCudaGraphs"),
    one_file(FEATURES, "graphMemoryNodes"),
    Sample(
        f"{FEATURES}/jacobiCudaGraphs",
        ("jacobi.cu", "main.cpp"),
        runs=(("-gpumethod=0",), ("-gpumethod=1",), ("-gpumethod=2",)),
        measured=(r"\d+\.\d+(?= \(ms\))",),
    ),
    one_file(INTRODUCTION, "simpleP2P", measured=(GIGABYTES,), gpus=2),
)


def without_figures(sample, output):
    """What is left of the output when what is measured is taken out: text that two runs must have alike."""
    lines = output.decode(errors="replace").splitlines()
    for pattern in sample.measured:
        lines = [re.sub(pattern, "#", line) for line in lines]
    return "\n".join(sorted(lines) if sample.unordered else lines)


def first_difference(bare, other):
    """None, or the first lines in which two texts differ."""
    if bare == other:
        return None
    a, b = bare.splitlines(), other.splitlines()
    for x, y in zip(a, b):
        if x != y:
            return f"{x!r:.150} and {y!r:.150}"
    return f"{len(a)} and {len(b)} lines"


def difference(sample, bare, other):
    """None when two lists of harness.Result are the same run again, else what differs first."""
    for number, (a, b) in enumerate(zip(bare, other)):
        where = f"run {number + 1}, " if len(bare) > 1 else ""
        if b.timed_out:
            return f"{where}did not end in time"
        if a.status != b.status:
            return f"{where}exit status {a.status} and {b.status}: {harness.last_line(b.stderr or b.stdout)}"
        for stream in ("stdout", "stderr"):
            texts = (without_figures(sample, getattr(result, stream)) for result in (a, b))
            if found := first_difference(*texts):
                return f"{where}{stream}: {found}"
    return None


def first_error(result):
    """The line of a compiler's output that says most."""
    lines = (result.stdout + result.stderr).decode(errors="replace").strip().splitlines()
    return next((line for line in lines if "error" in line), lines[-1] if lines else "no message")[:300]


def architectures(capabilities):
    """nvcc's options for the devices that are here, or for those that the suite's own programs are made for."""
    found = sorted({capability.replace(".", "") for capability in capabilities if re.fullmatch(r"\d+\.\d", capability)})
    if not found:
        return [option for option in NVCC_OPTIONS if option == "-gencode" or option.startswith("arch=")]
    return [part for number in found for part in ("-gencode", f"arch=compute_{number},code=sm_{number}")]


class Built:
    """One sample: its objects are made once and linked to each runtime. Threading: any."""

    def __init__(self, suite, root, sample, options):
        self.suite = suite
        self.root = root
        self.sample = sample
        self.options = ["-std=c++17", "--extended-lambda", "-O2", "-Wno-deprecated-gpu-targets", *options]
        self.folder = suite.scratch(f"{GROUP}/{sample.name}")
        self._lock = threading.Lock()
        self._objects = None
        self._refused = None

    def program(self, runtime):
        """The path of the program; Skipped with the compiler's message where it cannot be built."""
        with self._lock:
            if self._objects is None and self._refused is None:
                try:
                    self._objects = self._compile()
                except Skipped as reason:
                    self._refused = str(reason)
        if self._refused is not None:
            raise Skipped(self._refused)
        made = self.folder / f"{self.sample.name}.{runtime}"
        stubs = [f"-L{folder}" for folder in self._stubs()] if self.sample.libraries else []
        libraries = [f"-l{library}" for library in self.sample.libraries]
        self._nvcc(["-cudart", runtime, "-o", made, *self._objects, *stubs, *libraries])
        return made

    def _source(self, name):
        below = name if name.startswith("Common/") else f"Samples/{self.sample.folder}/{name}"
        return self.root / below

    def _compile(self):
        options = [*self.options, "-I", self.root / "Common"]
        sources = [self._source(name) for name in (*self.sample.sources, *filter(None, [self.sample.kernels]))]
        if missing := [str(source) for source in sources if not source.is_file()]:
            raise Skipped(f"not in the checkout: {', '.join(missing)}")
        objects = []
        for name in self.sample.sources:
            made = self.folder / f"{pathlib.Path(name).name}.o"
            self._nvcc([*options, "-c", "-o", made, self._source(name)])
            objects.append(made)
        if self.sample.kernels:
            self._nvcc([*options, "-fatbin", "-o", self.folder / FATBIN, self._source(self.sample.kernels)])
        return objects

    def _stubs(self):
        """Where a libcuda.so to link to lies, beside the compiler; none: the linker knows one."""
        toolkit = find_tool(self.suite, "nvcc").resolve().parents[1]
        return [folder for folder in (*toolkit.glob("lib64/stubs"), *toolkit.glob("targets/*/lib/stubs"))]

    def _nvcc(self, arguments):
        nvcc = find_tool(self.suite, "nvcc")
        if not nvcc:
            raise Skipped("no nvcc here to build it with")
        log = f"{GROUP}.{self.sample.name}.build"
        result = self.suite.command(log, [nvcc, *arguments], timeout=BUILD_SECONDS, cwd=self.folder)
        if result.timed_out:
            raise Skipped(f"nvcc was not done in {BUILD_SECONDS} s")
        if result.status != 0:
            raise Skipped(f"nvcc does not build it here: {first_error(result)}")


class Table:
    """What became of each sample under each row: for people. Threading: any."""

    def __init__(self):
        self._lock = threading.Lock()
        self._rows = {}

    def set(self, row, column, text):
        with self._lock:
            self._rows.setdefault(row, {})[column] = text

    def rows(self):
        with self._lock:
            return {name: dict(row) for name, row in sorted(self._rows.items())}

    def markdown(self):
        columns = ["bare", *(level.name for level in levels.LEVELS)]
        lines = [f"| sample | {' | '.join(columns)} |", "|" + " --- |" * (len(columns) + 1)]
        for name, row in self.rows().items():
            lines.append(f"| {name} | {' | '.join(row.get(column, '') for column in columns)} |")
        return "\n".join(lines) + "\n"


def check_of(suite, built, runtime, refusals, table):
    sample = built.sample
    row = f"{sample.name}.{runtime}"
    log = f"{GROUP}.{row}"

    def run(program, arguments, prefix=(), changes=None):
        env = {"LD_LIBRARY_PATH": library_path(suite) or None} | (changes or {})
        return suite.command(
            log,
            [*prefix, program, *arguments],
            env=env,
            timeout=RUN_SECONDS,
            cwd=built.folder,
            most_output=MOST_OUTPUT,
        )

    def under(program, level, bare):
        """How many calls slipstream saw in runs that were the bare ones again."""
        found = 0
        for number, arguments in enumerate(sample.runs):
            summary = built.folder / f"{runtime}.{level.name}.{number}.json"
            prefix = suite.run_prefix("--quiet", "--summary", summary)
            result = run(program, arguments, prefix, level.environment())
            if wrong := difference(sample, [bare[number]], [result]):
                raise Failed(f"{level.name}: bare and under slipstream differ: {wrong}")
            seen = levels.read_seen(summary)
            if not seen and (runtime == SHARED or level.sees_driver):
                raise Failed(f"{level.name}: slipstream saw no call, so the comparison shows nothing")
            found += seen
        return found

    def check(data):
        if len(suite.results.get("machine", {}).get("gpus", [])) < sample.gpus:
            table.set(row, "bare", f"needs {sample.gpus} GPUs")
            raise Skipped(f"needs {sample.gpus} GPUs")
        try:
            program = built.program(runtime)
        except Skipped:
            table.set(row, "bare", "not built")
            raise
        bare, again = ([run(program, arguments) for arguments in sample.runs] for _ in range(2))
        for result in bare:
            if result.status == WAIVED and not result.timed_out:
                table.set(row, "bare", "waived")
                raise Skipped(f"the sample says that it cannot run here: {harness.last_line(result.stdout)}")
            if result.status != 0 or result.timed_out:
                table.set(row, "bare", "fails")
                why = harness.last_line(result.stderr) or harness.last_line(result.stdout)
                raise Skipped(f"does not work here without slipstream either, exit status {result.status}: {why}")
        if not any(result.stdout for result in bare):
            raise Failed("bare, it printed nothing: the comparison shows nothing")
        if wrong := difference(sample, bare, again):
            table.set(row, "bare", "differs")
            raise Failed(f"two bare runs differ, so a figure of this sample is not known as one: {wrong}")
        table.set(row, "bare", "ok")
        data["levels"] = outcome = {}
        same, skipped, wrong = [], [], []
        for level in levels.LEVELS:
            if reason := refusals.reason(level):
                outcome[level.name] = f"skipped: {reason}"
                skipped.append(level.name)
                table.set(row, level.name, "skipped")
                continue
            try:
                seen = under(program, level, bare)
            except Failed as problem:
                outcome[level.name] = f"failed: {problem}"
                wrong.append(str(problem))
                table.set(row, level.name, "**differs**")
                continue
            outcome[level.name] = {"calls_seen": seen}
            same.append(f"{level.name} ({seen} seen)")
            table.set(row, level.name, f"same, {seen} calls")
        if wrong:
            raise Failed("; ".join(wrong))
        left_out = f"; not in this build: {', '.join(skipped)}" if skipped else ""
        return f"as bare: {', '.join(same)}{left_out}"

    return check


def checks(suite):
    """(the samples, side by side; the table behind them)."""
    if not suite.samples:

        def nothing(_data):
            raise Skipped(HOW)

        return [(GROUP, nothing)], []
    root = pathlib.Path(suite.samples).resolve()
    if not (root / "Common" / "helper_cuda.h").is_file():

        def not_there(_data):
            raise Failed(f"{root} has no Common/helper_cuda.h; {HOW}")

        return [(GROUP, not_there)], []
    options = architectures([gpu["compute_cap"] for gpu in machine.nvidia_smi(["compute_cap"])])
    refusals, table = levels.Refusals(suite, GROUP), Table()
    found = []
    for sample in SAMPLES:
        built = Built(suite, root, sample, options)
        found += [
            (f"{GROUP}.{sample.name}.{runtime}", needs_gpu(suite, check_of(suite, built, runtime, refusals, table)))
            for runtime in sample.runtimes
        ]

    def show(data):
        data["rows"] = rows = table.rows()
        (suite.logs / f"{GROUP}.table.md").write_text(table.markdown(), encoding="utf-8")
        if not rows:
            raise Failed("no sample ran")
        return f"{len(rows)} rows, in {GROUP}.table.md of the logs"

    return found, [(f"{GROUP}.table", needs_gpu(suite, show))]
