"""How every check reports: what it looked at, then what is wrong. Exit status 0 fine, 1 wrong, 77 cannot be checked here."""

import sys

CANNOT_CHECK = 77  # SKIP_RETURN_CODE of the tests in tests/checks


def finish(check, looked_at, problems):
    """`looked_at` is a list; a check that looked at nothing has proved nothing and fails."""
    if not looked_at:
        problems = [*problems, "there was nothing to look at"]
    for problem in problems:
        print(f"{check}: {problem}")
    print(f"{check}: {len(looked_at)} looked at, {len(problems)} wrong")
    sys.exit(1 if problems else 0)


def cannot_check(check, reason):
    print(f"{check}: {reason}")
    sys.exit(CANNOT_CHECK)
