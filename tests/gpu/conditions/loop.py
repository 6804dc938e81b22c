"""The options of the scripts of ../faulty, without a repair."""

import functools
import pathlib
import runpy

_FAULTY = pathlib.Path(__file__).resolve().parents[1] / "faulty" / "loop.py"
options = functools.partial(runpy.run_path(str(_FAULTY))["options"], repairs=False)
