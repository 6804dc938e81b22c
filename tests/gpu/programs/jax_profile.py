"""jax_profile.py OUT.json: a JAX program that profiles some of its own steps with JAX's profiler, which looks libcupti up.

OUT has what the profile saw of the device: how many kernels, and how many names of kernels. Exit status 1: JAX has no GPU.
"""

import collections
import glob
import gzip
import json
import os
import sys
import tempfile

# Read when JAX starts: the same kernels in every process.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

STEPS = 20


@jax.jit
def step(x):
    return jnp.tanh(x @ x) + jnp.cumsum(x, axis=-1) * 1e-3


def events_of(folder):
    paths = glob.glob(os.path.join(folder, "**", "*.trace.json.gz"), recursive=True)
    if len(paths) != 1:
        sys.exit(f"JAX's profiler left {len(paths)} traces, not one")
    with gzip.open(paths[0], "rt", encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def main():
    if jax.default_backend() != "gpu":
        sys.exit(f"JAX runs on {jax.default_backend()}")
    x = jnp.ones((256, 256), "float32") * 0.01
    for _ in range(STEPS):
        x = step(x)
    x.block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(STEPS):
                x = step(x)
            x.block_until_ready()
        events = events_of(folder)
    for _ in range(STEPS):
        x = step(x)
    x.block_until_ready()
    devices = {e["pid"] for e in events if e.get("name") == "process_name" and "GPU" in e["args"]["name"]}
    streams = {
        (e["pid"], e["tid"])
        for e in events
        if e.get("name") == "thread_name" and e["pid"] in devices and e["args"]["name"].startswith("Stream")
    }
    names = collections.Counter(e["name"] for e in events if e.get("ph") == "X" and (e["pid"], e["tid"]) in streams)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"kernels": sum(names.values()), "names": dict(sorted(names.items())), "sum": float(x.sum()).hex()}, file, indent=1)


if __name__ == "__main__":
    main()
