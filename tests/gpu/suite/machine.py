"""What the results were measured on, and whether there is anything to measure."""

import datetime
import json
import os
import pathlib
import platform
import subprocess

from . import harness

GPU_PROBE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
ok = cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
raise SystemExit(0 if ok and count.value > 0 else 1)
"""

TORCH_PROBE = """
import importlib.util, importlib.metadata, json, pathlib
import torch
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
spec = importlib.util.find_spec("nvidia")
roots = spec.submodule_search_locations if spec else []
cupti = [str(path) for root in roots for path in pathlib.Path(root).glob("*/lib/libcupti.so.1[0-9]")]
print(json.dumps({
    "gpus": [{"name": gpu.name, "memory_bytes": gpu.total_memory, "multiprocessors": gpu.multi_processor_count}
             for gpu in gpus],
    "cuda_available": torch.cuda.is_available(),
    "libcupti": cupti[0] if cupti else None,
    "versions": {"torch": torch.__version__, "cuda": torch.version.cuda,
                 "cudnn": torch.backends.cudnn.version() if torch.cuda.is_available() else None,
                 "nccl": ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else None,
                 "torchvision": version("torchvision"), "numpy": version("numpy"), "triton": version("triton"),
                 "cupy": version("cupy-cuda13x") or version("cupy-cuda12x") or version("cupy")},
}))
"""


def has_gpu(python):
    """Asks the driver in a process of its own, so that the suite itself holds nothing on the device."""
    return subprocess.run([python, "-c", GPU_PROBE], capture_output=True, timeout=60, check=False).returncode == 0


def probe_torch(python):
    """What PyTorch says of itself and the device; None when it cannot be imported."""
    done = subprocess.run(
        [python, "-c", TORCH_PROBE],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=harness.clean_environment(),
    )
    if done.returncode != 0:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def commit_of(build, given):
    """--commit, else the file that the build wrote, else git; a build travels to machines where there is no git."""
    if given:
        return given
    try:
        return (pathlib.Path(build) / "COMMIT").read_text(encoding="utf-8").strip()
    except OSError:
        pass
    try:
        done = subprocess.run(
            ["git", "-C", str(harness.REPOSITORY), "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout.strip() or "unknown"
    except OSError:
        return "unknown"


def nvidia_smi(fields, what="gpu"):
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    return [
        dict(zip(fields, (part.strip() for part in line.split(","))))
        for line in done.stdout.splitlines()
        if line.strip()
    ]


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def operating_system():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def describe(python, torch):
    drivers = nvidia_smi(["driver_version"])
    gpus = nvidia_smi(["name", "memory.total", "clocks.max.sm", "pcie.link.gen.max", "power.limit"])
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": {
            "gpus": torch["gpus"],
            "driver": drivers[0]["driver_version"] if drivers else None,
            "nvidia_smi": gpus,
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "system": operating_system(),
        },
        "versions": {
            "python": subprocess.run(
                [python, "-c", "import platform; print(platform.python_version())"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            ).stdout.strip(),
            **torch["versions"],
        },
    }
