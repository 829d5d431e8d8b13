"""Run a script on a heap that was shaken at random: `python benchmarks/shaken.py SCRIPT`.

How a program's buffers lie to one another decides how often they fight for the same lines of a
cache. That is nearly the same in each run of one program, and another in any other program though
it does the same work: some percent that say nothing of either (Mytkowicz, Diwan, Hauswirth and
Sweeney, "Producing Wrong Data Without Doing Anything Obviously Wrong!", ASPLOS 2009). So blocks of
random sizes are left between the script's own: with each module that is built, and after each of
the first optimizer steps. The mean over several runs is then that over layouts.
"""

import random
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

SHAKEN = __file__
HEAP = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""Environment that fixes what glibc would adapt to what a process happens to free first."""
STEPS = 40
LARGEST = 2**15
draw = random.Random()  # the script's own generators are left as they are
left: list[bytearray] = []


def leave() -> None:
    """Leave one more block; not a tensor, since a compiler may be tracing."""
    left.append(bytearray(draw.randrange(64, LARGEST, 64)))


def main(script: Path) -> None:
    """Run the script as Python would."""
    build = torch.nn.Module.__init__

    def __init__(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        leave()
        build(module, *args, **kwargs)

    torch.nn.Module.__init__ = __init__  # type: ignore[method-assign]
    steps = iter(range(STEPS))
    register_optimizer_step_post_hook(lambda *_: leave() if next(steps, None) is not None else None)
    sys.path[0] = str(script.parent)
    sys.argv = sys.argv[1:]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
