"""Forward passes of two models, raced in interleaved pairs on one set of threads."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

LEAST_SECONDS = 0.004  # of one timing, so that the clock and a call's own cost do not count
PAIRS = 30
LEAST_PAIRS = 9
LIMIT_SECONDS = 6.0  # of one race, unless LEAST_PAIRS take longer


@dataclass(frozen=True)
class Latency:
    """How many times faster the second model is: the median of pairs, and its 95 % interval."""

    gain: float
    low: float
    high: float
    seconds: float


def race(
    base: nn.Module, other: nn.Module, inputs: Sequence[object], *, pairs: int = PAIRS
) -> Latency:
    """Time both by turns, in evaluation mode and without gradients.

    The interval is that of the median by order statistics (no assumption on the noise). `seconds`
    is the least time of one pass of `other`.
    """
    base, other = base.eval(), other.eval()
    with torch.no_grad():
        calls = max(1, round(LEAST_SECONDS / max(_timed(base, inputs, 2), 1e-9)))
        _timed(other, inputs, 2)
        ratios, times = [], []
        stop = time.perf_counter() + LIMIT_SECONDS
        for turn in range(pairs):
            order = (base, other) if turn % 2 else (other, base)
            seconds = {id(model): _timed(model, inputs, calls) for model in order}
            ratios.append(seconds[id(base)] / seconds[id(other)])
            times.append(seconds[id(other)])
            if len(ratios) >= LEAST_PAIRS and time.perf_counter() > stop:
                break
    ratios.sort()
    pairs = len(ratios)
    reach = round(0.98 * pairs**0.5)  # 1.96 sqrt(n) / 2 places on either side of the median
    low, high = max(0, pairs // 2 - reach), min(pairs - 1, (pairs - 1) // 2 + reach)
    return Latency(statistics.median(ratios), ratios[low], ratios[high], min(times))


def _timed(model: nn.Module, inputs: Sequence[object], calls: int) -> float:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        model(*inputs)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / calls
