"""What readelf and nm say of a library, as values."""

import dataclasses
import os
import re
import subprocess


def _output(*command):
    # Another language would translate the words that are looked for.
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A row of the dynamic symbol table. `version` is empty for a symbol without one."""

    name: str
    version: str
    kind: str
    binding: str
    defined: bool


def dynamic_symbols(library):
    symbols = []
    for line in _output("readelf", "--dyn-syms", "-W", library).splitlines():
        fields = line.split()
        if len(fields) >= 8 and re.fullmatch(r"\d+:", fields[0]) and fields[0] != "0:":
            name, _, version = fields[7].partition("@")
            symbols.append(Symbol(name, version.lstrip("@"), fields[3], fields[4], fields[6] != "UND"))
    return symbols


def defines_versions(library):
    """A named node in the version script makes a .gnu.version_d section; an anonymous one does not."""
    return "Version definition section" in _output("readelf", "-V", "-W", library)


def dynamic_section(library):
    """[(tag, text)], such as ("NEEDED", "libc.so.6")."""
    entries = []
    for line in _output("readelf", "-d", "-W", library).splitlines():
        match = re.match(r"\s*0x[0-9a-f]+ \((\w+)\)\s*(.*)", line)
        if match:
            bracketed = re.search(r"\[(.*)\]", match.group(2))
            entries.append((match.group(1), bracketed.group(1) if bracketed else match.group(2).strip()))
    return entries


def stack_flags(library):
    """The flags of the GNU_STACK segment, such as "RW"; None where there is no such segment."""
    match = re.search(r"^\s*GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+?)\s+(?:0x|0$)", _output("readelf", "-l", "-W", library), re.MULTILINE)
    return match.group(1).replace(" ", "") if match else None


def thread_local_bytes(library):
    """Of the segment that every thread has a copy of, with its padding; 0 where there is none."""
    match = re.search(r"^\s*TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)", _output("readelf", "-l", "-W", library), re.MULTILINE)
    return int(match.group(1), 16) if match else 0


def initializers(library):
    """Names of the functions that the loader runs when it loads the library, in order; "0x..." for one without a name."""
    sections = _output("readelf", "-S", "-W", library)
    found = []
    names = {}
    for line in _output("nm", library).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "tTwW":
            names.setdefault(int(fields[0], 16), fields[2])
    relocations = {}
    for line in _output("readelf", "-r", "-W", library).splitlines():
        match = re.match(r"([0-9a-f]{12,16})\s+[0-9a-f]+\s+R_\w+_RELATIV\w*\s+([0-9a-f]+)\s*$", line)
        if match:
            relocations[int(match.group(1), 16)] = int(match.group(2), 16)
    for match in re.finditer(r"\]\s+\.(preinit_array|init_array|ctors)\s+\S+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", sections):
        start, size = int(match.group(2), 16), int(match.group(3), 16)
        for address in range(start, start + size, 8):
            if address not in relocations:
                raise SystemExit(f"{library}: the entry of .{match.group(1)} at {address:#x} has no relative relocation")
            target = relocations[address]
            found.append(names.get(target, f"{target:#x}"))
    return found


def initializers_of_archive(archive):
    """Names of the functions that the objects in a static library would run at load."""
    return set(re.findall(r" [tT] (_GLOBAL__sub_I_\S+|__cpu_indicator_init|frame_dummy)$", _output("nm", archive), re.MULTILINE))
