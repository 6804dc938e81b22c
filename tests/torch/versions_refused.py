"""What slipstream leaves alone, and the sentence that says so: each is made here, and the sentence read from the output."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from versions_package import of_build

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIMEOUT_S = 120
# A program that an older glibc loads, whatever glibc it is linked with: it needs the library and no function of it.
WITHOUT_VERSIONS = ("-nostartfiles", "-Wl,-e,main,--no-as-needed")
MACHINE_AT, AARCH64 = 18, b"\xb7\x00"  # e_machine of an ELF file, EM_AARCH64


def compiled(folder, *options):
    program = folder / "program"
    program.unlink(missing_ok=True)
    subprocess.run(["cc", "-x", "c", "-", "-o", program, *options], input="int main(void) { return 0; }", text=True, check=True)
    return program


def output(command, **variables):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_"))} | variables
    return subprocess.run([str(word) for word in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT_S).stdout


def obstacle(text, program):
    """Doctor's sentence about the program, without its path; None where it has none."""
    match = re.search(rf"^ *obstacle +({re.escape(str(program))}.*)$", text, re.MULTILINE)
    return re.sub(r"/\S+/(?=[^/\s])", "", match[1].replace(f"{program}: ", "").replace(str(program), "PROGRAM")) if match else None


def engines(text):
    """What the summary says of the engine for copies, and why it left copies alone."""
    off = re.search(r"^ *transfer: (off: .*)$", text, re.MULTILINE)
    declined = re.search(r"^ *declined .*: (because .*)$", text, re.MULTILINE)
    return off[1] if off else declined[1] if declined else None


def programs(options, folder):
    """(what, sentence) of programs that do not load the library."""
    def asked(program):
        return obstacle(output([options.build / "slipstream", "doctor", "--", program]), program)

    yield "a program for musl", asked(compiled(folder, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"))
    if options.old_loader:
        loader = pathlib.Path(options.old_loader).resolve()
        yield "a program with an older glibc", asked(compiled(
            folder, f"-Wl,--dynamic-linker={loader}", f"-Wl,--disable-new-dtags,-rpath,{loader.parent}", *WITHOUT_VERSIONS))
    yield "a program that is linked statically", asked(compiled(folder, "-static"))
    program = compiled(folder)
    with program.open("r+b") as file:
        file.seek(MACHINE_AT)
        file.write(AARCH64)
    yield "a program for aarch64", asked(program)


def build_for_aarch64(folder):
    """What CMake says to a build on such a machine, in a few words."""
    text = output(["cmake", "-S", ROOT, "-B", folder / "cmake", "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"])
    match = re.search(r"CMake Error at CMakeLists\.txt.*\n +(\S.*)$", text, re.MULTILINE)
    return match[1] if match else None


def runtimes(options):
    """(what, sentence) of what the engines leave alone."""
    def ran(runtime, **variables):
        program = [sys.executable, "-B", HERE / "python_lines.py", runtime]
        return engines(output([options.build / "slipstream", "run", "--", *program], LD_LIBRARY_PATH=str(options.build / "sim"),
                              **variables))

    sim = options.build / "sim"
    yield "a CUDA runtime with functions that slipstream does not know", ran(sim / "newer/libcudart.so.13")
    # A driver that does not tell its version counts as an older one.
    yield "a driver older than CUDA 12.5", ran(sim / "libcudart.so.13", SIMCUDA_FAIL="own:cuDriverGetVersion:1@1+")


def rows(options):
    folder = options.work / "refused"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = [(what, "`slipstream doctor -- PROGRAM`", says) for what, says in programs(options, folder)]
    found += [(what, "the summary", says) for what, says in runtimes(options)]
    found.append(("a build on aarch64", "CMake", build_for_aarch64(folder)))
    for what, _, says in found:
        print(f"{what}: {says}", flush=True)
    return [{"what": what, "who": who, "says": says, "wrong": [] if says else [f"{what}: nothing says so"], **of_build(options.build)}
            for what, who, says in found]
