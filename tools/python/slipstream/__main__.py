"""python -m slipstream: becomes the command that was installed with this package."""

import os
import pathlib
import signal
import sys
from importlib.metadata import PackageNotFoundError, files


def _places():
    """Where the command may be: where the installer says that it put it, and beside the package (pip install --target)."""
    try:
        listed = files("slipstream") or []
    except PackageNotFoundError:
        listed = []
    yield from (pathlib.Path(file.locate()) for file in listed if file.parts[-2:] == ("bin", "slipstream"))
    yield pathlib.Path(__file__).resolve().parents[1] / "bin" / "slipstream"


def main():
    tried = []
    for place in _places():
        if os.access(place, os.X_OK):
            # Python ignores these, and what is ignored stays so in the program that follows.
            for name in ("SIGPIPE", "SIGXFSZ"):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            os.execv(place, ["slipstream", *sys.argv[1:]])
        tried.append(str(place))
    sys.exit("slipstream: the command of this package is not there; looked for:\n  " + "\n  ".join(tried))


if __name__ == "__main__":
    main()
