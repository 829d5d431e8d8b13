"""Other random numbers for a script that seeds itself: every seed it sets is moved by a stride.

Without this, several runs of a script with `torch.manual_seed(0)` would be one run, repeated.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType

from hotlap.seam.hook import when_imported
from hotlap.seam.patch import replaced

STRIDE = 1_000_003
"""Far apart, so that seeds that a script derives from its own (seed + rank) stay distinct."""


@contextmanager
def reseeding(run: int) -> Iterator[None]:
    """Move the seeds of run 1, 2, ... by so many strides; run 0 is the script as it is."""
    if not run:
        yield
        return
    import torch

    def moved(original: Callable[..., object]) -> object:
        @wraps(original)
        def seed(*args: object, **kwargs: object) -> object:
            *before, value = args or (None,)
            if isinstance(value, int):
                args = (*before, (value + run * STRIDE) % 2**32)
            return original(*args, **kwargs)

        return seed

    with ExitStack() as stack:
        for owner, name in (
            (torch, "manual_seed"),
            (torch.cuda, "manual_seed_all"),
            (random, "seed"),
        ):
            stack.enter_context(replaced(owner, name, moved))

        def numpy_too(numpy: ModuleType) -> None:
            stack.enter_context(replaced(numpy.random, "seed", moved))

        when_imported("numpy", numpy_too)
        yield
