"""How the kernels are compiled."""

import ctypes
from pathlib import Path

from hotlap.common import compiled

SOURCES = tuple(Path(__file__).parent / name for name in ("layerwise.c", "step.h"))
SPLIT = 1 << 18
"""Elements from which all threads take a tensor together."""
FLAGS = ("-march=native", "-fno-math-errno", "-fno-trapping-math", f"-DSPLIT={SPLIT}L")
THREADED, ALONE = "-fopenmp", "-fopenmp-simd"


def library() -> ctypes.CDLL | None:
    """Return the compiled kernels; None where they are not wanted, or cannot be compiled."""
    return compiled.library(*SOURCES, flags=FLAGS, either=(THREADED, ALONE))
