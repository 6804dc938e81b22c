"""cuda_first.py PROGRAM.py [ARGUMENTS]: initializes the CUDA driver, then runs the program as if it were started alone.

The driver loads the library named by CUDA_INJECTION64_PATH inside cuInit. Were cuInit left to the program's first
runtime call, calls made before that one would go uncounted; this way the counter is there before the first. cuInit is a
driver call: it is in nobody's count.
"""

import ctypes
import os
import runpy
import sys


def main():
    result = ctypes.CDLL("libcuda.so.1").cuInit(0)
    if result != 0:
        sys.exit(f"cuInit failed: CUDA error {result}")
    counter = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        # What is called from here on is called by static destructors.
        counter.CuptiCountMark()


if __name__ == "__main__":
    main()
