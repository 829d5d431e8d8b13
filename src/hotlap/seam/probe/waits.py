"""What the training thread waits for other ranks in DistributedDataParallel, a step.

DDP itself logs the all-reduces of its backward passes: by the clock on a CPU, by device events on
a GPU. Its broadcast of buffers, at the beginning of a forward pass, is timed here.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from time import perf_counter
from typing import NamedTuple

import torch
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import _disable_current_modes

from hotlap.common.processes import children
from hotlap.seam.ddp import parallel_models
from hotlap.seam.gate import schedstat
from hotlap.seam.probe.compiling import untraced

ALWAYS_LOGGED = 10
"""Iterations that DDP logs at the beginning, whatever its sample rate."""
ON_DEVICE = 20
"""DDP's sample rate on a GPU: to log a step there is to wait for it."""
NANO = 1e-9


class Logged(NamedTuple):
    """DDP's log of a model by now: iterations, how many of them were timed, and nanoseconds.

    `exposed` is the sum over the timed ones.
    """

    iterations: int
    timed: int
    exposed: float


def sample_rate(model: DistributedDataParallel) -> int:
    """Every so many iterations are logged."""
    return 1 if model.device_type == "cpu" else ON_DEVICE


def logged(model: DistributedDataParallel) -> Logged:
    """What DDP has logged of a model; its averages become sums again."""
    log = model._get_ddp_logging_data()  # type: ignore[no-untyped-call]
    iterations, rate = int(log.get("iteration", 0)), sample_rate(model)
    later = max(0, iterations // rate - ALWAYS_LOGGED // rate)
    timed = min(iterations, ALWAYS_LOGGED) + later if rate > 1 else iterations
    reduced = log.get("avg_backward_comm_time", 0)
    exposed = max(0, reduced - log.get("avg_backward_compute_comm_overlap_time", 0))
    return Logged(iterations, timed, exposed * timed)


class Waits:
    """Waits in the timed steps, which `step` counts; `clocked` are further ones, without detail.

    DDP logs an iteration as the next one begins. So the log as it is after the first timed step
    ends with the step before, and from there to the end lie as many iterations as timed steps,
    less one.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._spent = self._before_timing = 0.0
        self._before: dict[DistributedDataParallel, Logged] = {}
        self._threads: dict[str, int] = {}

    def spend(self, seconds: float) -> None:
        """A broadcast of buffers is over."""
        self._spent += seconds

    def step(self, roots: Iterable[Module]) -> None:
        """A timed step is over."""
        if not self._steps:
            self._before_timing = self._spent
            self._before = {model: logged(model) for model in _models(roots)}
            self._threads = run_delays(os.getpid(), *children(os.getpid()))
        self._steps += 1

    def restart(self) -> None:
        """The steps so far do not count."""
        self._steps = 0

    def in_buffers(self, clocked: int) -> float:
        """Seconds a step in DDP's broadcasts of buffers."""
        steps = self._steps - 1 + clocked
        return (self._spent - self._before_timing) / steps if steps > 0 else 0.0

    def for_core(self, clocked: int) -> float:
        """Seconds a step that the thread waits for a core which waits longest."""
        steps = self._steps - 1 + clocked
        now = run_delays(os.getpid(), *children(os.getpid())).items()
        waited = [delay - self._threads.get(name, 0) for name, delay in now]
        return NANO * max(0, *waited) / steps if steps > 0 else 0.0

    def exposed(self, roots: Iterable[Module], world: int, clocked: int) -> float | None:
        """Seconds a step that backward passes wait for all-reduces with nothing to overlap them.

        None: no DDP model logged any, or one is reduced over some of the ranks only.
        """
        steps, models = self._steps - 1 + clocked, _models(roots)
        if steps < 1 or any(model.process_group.size() != world for model in models):
            return None
        found = [_a_step(self._before.get(model), logged(model), steps) for model in models]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known) if known else None


def run_delays(*processes: int) -> dict[str, int]:
    """Nanoseconds that each thread of these processes has waited for a core."""
    found = {}
    for process in processes:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                with suppress(OSError, ValueError, IndexError):
                    found[thread] = schedstat(f"/proc/{process}/task/{thread}")[1]
    return found


def _models(roots: Iterable[Module]) -> list[DistributedDataParallel]:
    return list(dict.fromkeys(model for root in roots for model in parallel_models(root)))


def _a_step(before: Logged | None, now: Logged, steps: int) -> float | None:
    """Seconds a step between two states of the log; None where nothing was timed between them.

    A step reduces a whole number of times. On a GPU the iterations between the states are known to
    `ON_DEVICE` alone, so that their number a step is rounded.
    """
    begun = before or Logged(0, 0, 0.0)
    if now.timed <= begun.timed:
        return None
    passes = max(1, round((now.iterations - begun.iterations) / steps))
    return NANO * passes * max(0.0, now.exposed - begun.exposed) / (now.timed - begun.timed)


@contextmanager
def buffers_timed(waits: Waits) -> Iterator[None]:
    """Time DDP's broadcasts of buffers; on a GPU they only start here.

    What they copy is the same at every step, and no work of the program's: diagnoses do not see it.
    """

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def sync_buffers(*args: object, **kwargs: object) -> object:
            if not torch.is_grad_enabled():  # an evaluation's
                return original(*args, **kwargs)
            begin = perf_counter()
            try:
                with _disable_current_modes():
                    return original(*args, **kwargs)
            finally:
                waits.spend(perf_counter() - begin)

        return sync_buffers

    with untraced(DistributedDataParallel, "_sync_buffers", make):
        yield
