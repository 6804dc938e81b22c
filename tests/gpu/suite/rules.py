"""`slipstream advise` on recorded trainings in each of which one rule has something to say (tests/gpu/conditions).

Each is in the condition that a rule is about, whatever that costs: the group advice has those whose cost is measured. A script is
called as its rule is, and `# shown: RULE` stands behind the lines of which the rule must name one; without any the rule names no
line. The traces are kept in the results (`rules-SCRIPT.spool.gz`, of two ranks `rules-SCRIPT.0.spool.gz` and `.1.`), so that
what was said can be asked again without a GPU.
"""

from . import recorded
from .harness import GPU_TESTS, Failed, Skipped, gpus, needs_gpu
from .recorded import marks, places, shown

GROUP = "rules"
SCRIPTS = GPU_TESTS / "conditions"
HELPERS = {"loop"}
# By torchrun, with two.
RANKS = {"exposed_communication", "stragglers"}
TWO_GPUS = RANKS | {"data_parallel"}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
TIMEOUT = 25
REHEARSED = {
    "blocking_copies": "--features 8 --width 16 --classes 10 --batch 4",
    "built_on_the_host": "--rows 8 --width 16",
    "cpu_oversubscribed": "--width 32 --layers 1 --batch 4 --threads 2",
    "cudnn_heuristics": "--size 16 --batch 2 --width 4 --layers 1",
    "data_parallel": "--width 16 --layers 1 --batch 4",
    "exposed_communication": "--width 16 --layers 1 --batch 4",
    "exposed_copies": "--columns 10 --width 16 --batch 4",
    "fragmentation": "--batch 2 --width 4 --largest 44",
    "idle_sms": "--samples 1024 --batch 2",
    "malloc_in_steady_state": "--width 16 --batch 4",
    "near_memory_limit": "--width 16 --batch 4",
    "odd_sizes": "--words 11 --width 16 --batch 8",
    "pageable_copies": "--size 64 --batch 2 --width 4",
    "rows_of_an_embedding": "--articles 100 --width 8 --batch 4",
    "small_shared_memory": "--width 32 --batch 4",
    "stragglers": "--width 16 --layers 1 --batch 4 --entries 10",
    "too_many_workers": "--samples 1600 --batch 2 --width 16 --layers 1 --workers 1",
    "zero_grad_memsets": "--width 16 --layers 2 --batch 4",
}


def scripts(folder=SCRIPTS):
    return sorted(path for path in folder.glob("*.py") if path.stem not in HELPERS)


def condition(script):
    """(the rule that the script is about, the lines of which it names one; none if it names no line)."""
    found = marks(script, "shown")
    names = sorted({name for _, name in found}) or [script.stem.replace("_", "-")]
    if len(names) > 1:
        raise Failed(f"{script.name} shows {' and '.join(names)}")
    return names[0], [number for number, _ in found]


def line_of(finding, lines, script):
    """The first of the lines that it names; None: it names none of them."""
    return next((line for line in lines if (script.name, line) in places(finding)), None)


def judged(findings, script):
    """({rule, line} of what was found, what is wrong); the line is None where the rule names none; wrong, None: nothing."""
    rule, lines = condition(script)
    said = {"rule": rule, "line": None}
    if not findings["steps"]:
        return said, "no steps were found"
    finding = next((one for one in findings["advice"] if one["rule"] == rule), None)
    if finding is None:
        why = next((one["why"] for one in findings["cannot_be_told"] if one["rule"] == rule), "there is nothing to say")
        return said, f"{rule} is not found: {why}"
    said["line"] = line_of(finding, lines, script)
    if lines and said["line"] is None:
        return said, f"{rule} without a line that shows it: {sorted(places(finding), key=str)}"
    return said, None


def check_of(suite, script):
    log = f"{GROUP}.{script.stem}"

    def check(data):
        if not suite.rehearsal and script.stem in TWO_GPUS and gpus(suite) < 2:
            raise Skipped("needs two GPUs")
        options = ["--device", "cpu", "--steps", "2", *REHEARSED[script.stem].split()] if suite.rehearsal else []
        launcher = TORCHRUN if script.stem in RANKS else ()
        run = recorded.record(suite, log, script, options, launcher, TIMEOUT)
        if suite.rehearsal:
            return "a rehearsal: the script runs, and there is no trace"
        data["findings"] = findings = recorded.advise(suite, run, log)
        data["said"], problem = judged(findings, script)
        if problem:
            raise Failed(f"{problem}; {shown(findings)}")
        return shown(findings)

    return check


def checks(suite):
    found = [(f"{GROUP}.{script.stem}", check_of(suite, script)) for script in scripts()]
    return [(name, check if suite.rehearsal else needs_gpu(suite, check)) for name, check in found]
