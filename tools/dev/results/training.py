"""Tables of whole programs: throughput, step time, what recording costs, what the preload adds to a start."""

from .markdown import RATIO_COLUMNS, interval, milliseconds, of_variant, ratio_cells, significant, titled

STEP_VARIANTS = {
    "off": "every engine and counter off",
    "default": "default policy (calls counted and timed)",
    "record": "default policy, recorded with Python lines (`--record`)",
    "control": "bare against bare (what the method can tell apart)",
}
PROFILER_VARIANTS = {
    "profilers.record": "slipstream, every call recorded (`--record`)",
    "profilers.record_devices": 'the same with what the device did (`tracer.device = "cupti"`)',
    "profilers.after_devices": "the same once the device is recorded no longer (`tracer.device_for`)",
    "profilers.cupti_kinds": "CUPTI alone, with the kinds of records that slipstream asks for",
    "profilers.cupti_all": "CUPTI alone, with slipstream's callbacks too, and its records read",
    "profilers.torch_cuda": "torch.profiler, device alone",
    "profilers.torch_cpu_cuda": "torch.profiler, host and device",
    "profilers.torch_stacks": "torch.profiler, host and device, with stacks",
    "profilers.control": "bare against bare (what the method can tell apart)",
}
STEADY_VARIANTS = {
    "steady.slipstream": "slipstream / bare",
    "steady.control": "bare against bare (what the method can tell apart)",
}
THROUGHPUT_HEADER = (
    "bare",
    "slipstream",
    "tuned by hand",
    "slipstream / bare (95 % interval)",
    "slipstream / tuned by hand (95 % interval)",
    "pairs",
)


def throughput(results):
    rows = []
    for gain in of_variant(results, "throughput.slipstream"):
        tuned, rest = (
            next(b for b in of_variant(results, f"throughput.{variant}") if b["name"] == gain["name"])
            for variant in ("hand_tuned", "slipstream_to_hand_tuned")
        )
        summary = gain["summary"]
        rows.append(
            (
                gain["name"],
                f"{summary['a_median']:.0f}",
                f"{summary['b_median']:.0f}",
                f"{tuned['summary']['b_median']:.0f}",
                f"**{summary['ratio_median']:.3f}** ({interval(summary)})",
                f"{rest['summary']['ratio_median']:.3f} ({interval(rest['summary'])})",
                summary["pairs"],
            )
        )
    return titled(
        "Training throughput of a plain script, samples/s: the same script bare, under slipstream, and tuned by hand "
        "(`pin_memory=True`, `non_blocking=True`) without it; 8 loader workers, batch 128, autocast, 224 x 224 images",
        ("model", *THROUGHPUT_HEADER),
        rows,
    )


def workloads(results):
    of_tuned, of_rest = (
        {benchmark["name"]: benchmark["summary"] for benchmark in of_variant(results, f"workload.{variant}")}
        for variant in ("hand_tuned", "slipstream_to_hand_tuned")
    )
    rows = []
    for gain in of_variant(results, "workload.slipstream"):
        name, summary = gain["name"], gain["summary"]
        tuned, rest = of_tuned.get(name), of_rest.get(name)
        rows.append(
            (
                name,
                significant(summary["a_median"]),
                significant(summary["b_median"]),
                significant(tuned["b_median"]) if tuned else "-",
                f"{summary['ratio_median']:.3f} ({interval(summary)})",
                f"{rest['ratio_median']:.3f} ({interval(rest)})" if rest else "-",
                summary["pairs"],
            )
        )
    text = titled(
        "Training throughput in samples/s (`tests/gpu/train_transfer.py`, `train_lm.py`): the plain script bare and under "
        "slipstream, and tuned by hand without it. `on_device` has nothing to tune: the same program twice. "
        '`checkpoint_no_d2h` is `checkpoint` with `transfer.d2h = "off"`, and `two_cores_*` run on two cores',
        ("workload", *THROUGHPUT_HEADER),
        rows,
    )
    means = [check["data"] for check in results["checks"] if check.get("data", {}).get("geometric_mean")]
    if text and means:
        text += (
            f"\n\nSlipstream / tuned by hand over {len(means[0]['ratios'])} workloads, geometric mean: "
            f"{means[0]['geometric_mean']:.3f}."
        )
    return text


def host_memory(results):
    found = [benchmark for benchmark in of_variant(results, "workload.slipstream") if "peak_resident" in benchmark]
    return titled(
        "The most host memory that each had resident, GiB; the loader's processes not counted",
        ("program", "bare", "slipstream", "tuned by hand"),
        [
            (
                benchmark["name"],
                *(
                    f"{benchmark['peak_resident'][variant] / 2**30:.2f}" if variant in benchmark["peak_resident"] else "-"
                    for variant in ("bare", "slipstream", "hand_tuned")
                ),
            )
            for benchmark in found
        ],
    )


def accounts(results):
    columns = ("step", "kernels", "copies_alone", "idle", "host_moving", "host_waiting")
    rows = [
        (check["name"].split(".")[1], variant.replace("_", " "), *(f"{parts[column]:.2f}" for column in columns))
        for check in results["checks"]
        for variant, parts in check.get("data", {}).get("milliseconds_a_step", {}).items()
        if not isinstance(parts, str)
    ]
    header = (
        "workload",
        "variant",
        "step",
        "kernels",
        "copies beside no kernel",
        "device idle",
        "host moving data",
        "host in synchronizations",
    )
    return titled(
        "Where a step's time goes, ms, in ten steps under `torch.profiler` (which slows down what the host limits): the step is kernels, "
        "copies beside no kernel, and an idle device; beside it, what the host's thread does",
        header,
        rows,
    )


def examples(results):
    rows = [
        (benchmark["name"], *ratio_cells(benchmark["summary"])) for benchmark in of_variant(results, "step.slipstream")
    ]
    return titled(
        "Step time of other ways to write a training loop (`tests/gpu/train_patterns.py`), slipstream / bare",
        ("example", "bare, ms a step", *RATIO_COLUMNS),
        rows,
    )


def compared_table(results, variants, title, column="compared with bare", name_of=lambda benchmark: benchmark["name"]):
    rows = [
        (name_of(benchmark), variants[benchmark["variant"]], *ratio_cells(benchmark["summary"], 4))
        for benchmark in results["benchmarks"]
        if benchmark["variant"] in variants
    ]
    return titled(title, ("workload", column, "bare, ms a step", *RATIO_COLUMNS), rows)


def step_time(results):
    return compared_table(
        results,
        STEP_VARIANTS,
        "Time of a training step, slipstream / bare (medians of pairs of blocks taken in turn, 95 % bootstrap interval)",
        name_of=lambda benchmark: benchmark["name"] + ("" if benchmark["asserted"] else " (reported only)"),
    )


def steady(results):
    return compared_table(
        results,
        STEADY_VARIANTS,
        "Time of a training step in several sets of processes (medians of pairs of blocks taken in turn, 95 % bootstrap "
        "interval over sets and pairs)",
        column="compared",
    )


def profilers(results):
    return compared_table(
        results,
        PROFILER_VARIANTS,
        "Time of a step of ResNet-50 with a batch of 16, with a recorder / bare (medians of pairs of blocks taken in turn, 95 % "
        "bootstrap interval; a profile begins and ends outside the timed steps)",
        column="recorder",
    )


def start_up(results):
    for benchmark in of_variant(results, "preload"):
        low, high = benchmark["difference_low"], benchmark["difference_high"]
        return (
            f"The preload adds {milliseconds(benchmark['summary']['difference_median'])} ms to the start of `true` "
            f"(95 % interval {milliseconds(low)} to {milliseconds(high)} ms, "
            f"{benchmark['summary']['pairs']} pairs)."
        )
    return None


THROUGHPUT_TABLES = (
    (workloads, tuple(f"workload.{name}" for name in ("slipstream", "hand_tuned", "slipstream_to_hand_tuned"))),
    (host_memory, ()),
    (accounts, ()),
    (throughput, tuple(f"throughput.{name}" for name in ("slipstream", "hand_tuned", "slipstream_to_hand_tuned"))),
    (examples, ("step.slipstream",)),
)
STEP_TABLES = (
    (step_time, tuple(STEP_VARIANTS)),
    (steady, tuple(STEADY_VARIANTS)),
    (profilers, tuple(PROFILER_VARIANTS)),
    (start_up, ("preload",)),
)
