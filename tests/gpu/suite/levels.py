"""The ways to run a program under slipstream that a group compares with the bare one: one row each.

A row is policy keys. What this build's `slipstream policy check` refuses is skipped, with what it said, so a row may
stand here before every build knows it.
"""

import dataclasses
import re
import threading

from . import harness


@dataclasses.dataclass(frozen=True)
class Level:
    name: str
    keys: tuple = ()  # of (table, key, value); every value is text
    # Calls are seen in a program that has no shared CUDA runtime.
    sees_driver: bool = False

    def environment(self):
        return {f"SLIPSTREAM_{table}_{key}".upper(): value for table, key, value in self.keys}

    def policy_text(self):
        lines = ["version = 1"]
        for table in dict.fromkeys(table for table, _, _ in self.keys):
            lines += ["", f"[{table}]"]
            lines += [f'{key} = "{value}"' for of, key, value in self.keys if of == table]
        return "\n".join(lines) + "\n"


RUNTIME = Level("runtime")
DRIVER = Level("driver", (("intercept", "level", "driver"),), sees_driver=True)
# A later mode of the allocator is one more row.
LEVELS = (
    RUNTIME,
    Level("allocator_off", (("allocator", "mode", "off"),)),
    Level("transfer_off", (("transfer", "h2d", "off"), ("transfer", "d2h", "off"))),
    DRIVER,
    Level("expandable", (("allocator", "mode", "expandable"),)),
)


class Refusals:
    """Which rows this build does not know, asked once each. Threading: any."""

    def __init__(self, suite, log):
        self.suite = suite
        self.log = log
        self._lock = threading.Lock()
        self._said = {}

    def reason(self, level):
        """None: the row can be used. Else what `slipstream policy check` said."""
        with self._lock:
            if level.name not in self._said:
                self._said[level.name] = self._ask(level)
            return self._said[level.name]

    def _ask(self, level):
        policy = self.suite.policy(f"level.{level.name}", level.policy_text())
        command = [self.suite.slipstream, "policy", "check", policy]
        result = self.suite.command(f"{self.log}.levels", command, timeout=30)
        if result.status == 0 and not result.timed_out:
            return None
        said = (result.stdout + result.stderr).decode(errors="replace").strip()
        # Where in the file it stands is nobody's business: the suite wrote it.
        return (
            re.sub(r"^\S*:\d+:\d+: ", "", said).splitlines()[0][:200]
            if said
            else f"policy check left with {result.status}"
        )


# A static runtime looks hundreds of functions up before it calls one: no use of CUDA, so it shows nothing.
LOOK_UPS = ("cuGetProcAddress", "cudaGetDriverEntryPoint")


def seen_calls(summary):
    """How many calls slipstream counted, look-ups aside, over all processes of a summary."""
    functions = summary["totals"]["functions"]
    return sum(function["calls"] for function in functions if not function["name"].startswith(LOOK_UPS))


def read_seen(path):
    return seen_calls(harness.read_json(path, "summary"))
