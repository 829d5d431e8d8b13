"""Time an operator against its reference, eager and compiled, in turns."""

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hotlap.kernels.check.subject import Subject

GRID = ((64, 64), (512, 1024), (2000, 3000))
ROUNDS = 15
LONGEST = 6.0  # seconds for one shape


def race(subject: Subject, *, compiled: bool) -> list[dict[str, object]]:
    """For each shape and direction the seconds of a call, and the ratios of pairs of calls.

    `bytes` are those of inputs and outputs, each counted once: what must be moved at least. `flops`
    are those of matrix products in the reference.
    """
    rows = []
    reference: dict[str, Callable[..., Tensor]] = {"eager": subject.reference}
    if compiled:
        reference["compile"] = torch.compile(subject.reference, dynamic=False)
    for shape in GRID:
        given = subject.draw(*shape, subject.dtypes[0])
        for backward in (False, True) if subject.differentiable else (False,):
            functions = {"kernel": subject.kernel, **reference}
            calls = {n: _call(f, given, backward=backward) for n, f in functions.items()}
            times = _in_turns(calls, subject.device)
            rows.append(_row(subject, given, times, backward=backward))
    return rows


def _call(
    function: Callable[..., Tensor], given: Sequence[Tensor], *, backward: bool
) -> Callable[[], object]:
    if not backward:

        def forward() -> object:
            with torch.no_grad():
                return function(*given)

        return forward
    leaves = [t.detach().requires_grad_() if t.is_floating_point() else t for t in given]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    grad = torch.randn_like(function(*leaves))
    return lambda: torch.autograd.grad(function(*leaves), wanted, grad, allow_unused=True)


def _in_turns(calls: dict[str, Callable[[], object]], device: str) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    begun = time.perf_counter()
    for turn in range(ROUNDS):
        names = list(calls) if turn % 2 else list(reversed(calls))
        for name in names:
            started = time.perf_counter()
            calls[name]()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - started)
        if turn >= 4 and time.perf_counter() - begun > LONGEST:
            break
    return times


def _row(
    subject: Subject, given: Sequence[Tensor], times: dict[str, list[float]], *, backward: bool
) -> dict[str, object]:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        out = subject.reference(*given)
    moved = sum(t.nbytes for t in given) + out.nbytes
    ratios = {
        name: statistics.median(o / k for o, k in zip(found, times["kernel"], strict=True))
        for name, found in times.items()
        if name != "kernel"
    }
    return {
        "shape": list(given[0].shape),
        "dtype": str(given[0].dtype).removeprefix("torch."),
        "direction": "forward and backward" if backward else "forward",
        "seconds": {name: statistics.median(found) for name, found in times.items()},
        "speedup_over": ratios,
        "pairs": len(times["kernel"]),
        "bytes": moved * (2 if backward else 1),
        "flops": counter.get_total_flops() * (3 if backward else 1),
    }
