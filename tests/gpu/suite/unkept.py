"""What is not kept as it is without slipstream (S79): each case shows it, and that the key which ends it does."""

from . import harness, sanitizer
from .harness import Failed, Skipped

WAIT = {"SLIPSTREAM_TRANSFER_SKIP_SYNCHRONIZE": "false"}
WAIT_IN_FREE = {"SLIPSTREAM_ALLOCATOR_FREE_SYNCHRONIZES": "true"}
DEVICE, HOST = b"from the device\n", b"from the host\n"
UNSAID = b"failed with error 719, which no call has returned since"

RIGHT, WRONG = (0, b"right\n"), (0, b"wrong\n")
# Case: what it is without slipstream, what else it may be with it, and the variables with which it is as without.
CASES = {
    "printf": ((0, DEVICE + HOST), (0, HOST + DEVICE), WAIT),
    "printf_sized": ((0, DEVICE + HOST), None, {}),
    "pinned_read": (RIGHT, WRONG, WAIT),
    "pinned_write": (RIGHT, WRONG, WAIT),
    "pinned_write_free": (RIGHT, WRONG, WAIT_IN_FREE),
    "last_error": ((1, b""), (0, b""), WAIT),
    "new_thread": (RIGHT, WRONG, WAIT),
}


class Unkept(sanitizer.Program):
    rehearses = True

    def __init__(self, suite):
        super().__init__(suite, "unkept", "unkept", trial=("pinned_read",))
        if suite.rehearsal:
            # Nothing runs there that nobody waits for.
            self.env = {"LD_LIBRARY_PATH": str(suite.build / "sim"), "SIMCUDA_SEED": "0", "SIMCUDA_DEVICES": "1"}

    def observed(self, case, prefix=(), env=None):
        result = self.run(prefix, [case], env=env)
        if result.timed_out:
            raise Failed("did not end in time")
        return (result.status, result.stdout), result.stderr


def check(suite, program, case):
    bare, other, key = CASES[case]
    # Of so few copies all may be over before staging memory is there.
    now = {"SLIPSTREAM_TRANSFER_START": "now"}

    def run(data):
        prefix = suite.run_prefix("--quiet")
        seen, _ = program.observed(case)
        if seen != bare:
            raise Failed(f"bare, it ended with {seen}, not {bare}: the case shows nothing here")
        seen, said = program.observed(case, prefix, now)
        data["differs"] = seen != bare
        if seen not in (bare, other):
            raise Failed(f"it ended with {seen}: neither as bare nor as the list says")
        if case == "last_error" and seen == other and UNSAID not in said:
            raise Failed(f"nobody was told: {harness.last_line(said)!r}")
        kept, _ = program.observed(case, prefix, now | key)
        if kept != bare:
            raise Failed(f"with {key} it ended with {kept}, not {bare}")
        if other is None:
            return "as without slipstream"
        name = " ".join(f"{variable}={value}" for variable, value in key.items())
        return f"{'differs' if data['differs'] else 'as without slipstream this time'}; with {name} it does not"

    return run


def checks(suite):
    program = Unkept(suite)
    return [(f"unkept.{case}", check(suite, program, case)) for case in CASES]
