"""Measures what torch reaches on this machine; a script, run by path in the training's own Python.

    python peaks_child.py version                     the installed torch's version
    python peaks_child.py measure THREADS COPY_BYTES  the peaks, as one line of JSON

It needs no hotlap, and is the one file of `hotlap.core` that imports torch. A peak is a maximum, so
each figure is the best of all sizes and repeats, on random data (zeros can run faster than work).

The CPU's products run one thread a core, each with its own product timed in CPU time: threads that
share one product wait for the slowest, so a single neighbour made that figure 50 times too low.
Copies share the memory bus, so they are timed by the wall, in pieces short enough that on a busy
machine too some of them are undisturbed.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    del sys.path[0]  # else `import errors` in some package would find the file beside this one

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Call = Callable[[], object]
Clock = Callable[[Call], float]

CPU_DTYPES = ("float32", "float64", "bfloat16", "float16")
CUDA_DTYPES = ("float32", "tf32", "float64", "bfloat16", "float16")
SIZES = {"cpu": (256, 512, 1024), "cuda": (1024, 2048, 4096, 8192)}  # rows of a square
LONGEST = {"cpu": 0.06, "cuda": 0.02}  # seconds a product may take: shorter ones already fill it
BUDGET = {"gemm": 0.05, "copy": 0.1, "h2d": 0.2}  # seconds of repeats
PIECES = {"cpu": (8, 128), "cuda": (1,)}  # of the memory to copy, one at a time
H2D_BYTES = 2**28
BURST = 4  # CUDA launches between two events, so that launching hides behind running


def main(arguments: list[str]) -> None:
    """Answer one request on stdout."""
    if arguments[0] == "version":
        from importlib.metadata import version

        print(version("torch"))
        return
    print(json.dumps(measure(*(int(text) for text in arguments[1:]))))


def measure(threads: int, copy_bytes: int) -> dict[str, object]:
    """Peaks of the CPU (on so many threads, copying so many bytes) and of the current GPU."""
    import torch

    devices = {"cpu": cpu_peaks(threads, copy_bytes)}
    if torch.cuda.is_available():
        devices["cuda"] = cuda_peaks()
    return {"torch": str(torch.__version__), "devices": devices}


def cpu_peaks(threads: int, copy_bytes: int) -> dict[str, object]:
    """FLOP/s by dtype; bytes/s of a copy, the best of two moments and of what one core can do."""
    before = cpu_copy_rate(threads, copy_bytes, wall_clock)
    gemm = gemms("cpu", CPU_DTYPES, core_clock, threads)
    after = cpu_copy_rate(threads, copy_bytes, wall_clock)
    alone = cpu_copy_rate(1, min(copy_bytes, 2**26), core_clock)
    return {"gemm": gemm, "copy": max(before, after, alone)}


def cpu_copy_rate(threads: int, size: int, clock: Clock) -> float:
    """Bytes/s of a copy by so many threads (set each time: `race` leaves torch with one)."""
    import torch

    torch.set_num_threads(threads)
    return copy_rate("cpu", size, clock)


def cuda_peaks() -> dict[str, object]:
    """FLOP/s by dtype; bytes/s of a copy on the device and of copies to it."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return {
        "gemm": gemms("cuda", CUDA_DTYPES, cuda_clock, lanes=1),
        "copy": copy_rate("cuda", min(2**30, free // 8), cuda_clock),
        "h2d_pageable": h2d_rate(H2D_BYTES, pinned=False),
        "h2d_pinned": h2d_rate(H2D_BYTES, pinned=True),
    }


# clocks: seconds that one call takes


def core_clock(call: Call) -> float:
    """Seconds of CPU time of one call that stays in its thread."""
    start = thread_time()
    call()
    return thread_time() - start


def wall_clock(call: Call) -> float:
    """Seconds of one call that returns when its work is done."""
    start = perf_counter()
    call()
    return perf_counter() - start


def cuda_clock(call: Call) -> float:
    """Seconds of one call on the GPU: the mean of a burst between two events."""
    import torch

    event: Any = torch.cuda.Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    start.record()
    for _ in range(BURST):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / BURST


def fastest(call: Call, clock: Clock, budget: float) -> float:
    """Least seconds of one call, after a warm-up, in `budget` seconds of repeats (at least 3)."""
    clock(call)
    stop = perf_counter() + budget
    times: list[float] = []
    while len(times) < 3 or perf_counter() < stop:
        times.append(clock(call))
    return min(times)


# matrix products


def gemms(device: str, dtypes: tuple[str, ...], clock: Clock, lanes: int) -> dict[str, float]:
    """FLOP/s of so many products at once, by dtype name, for the dtypes the device multiplies."""
    names = [name for name in dtypes if multiplies(device, name)]
    rates = {name: gemm_rate(device, name, clock, lanes) for name in names}
    return {name: rate for name, rate in rates.items() if rate}


def multiplies(device: str, name: str) -> bool:
    """Whether a dtype is worth trying; tf32 exists from compute capability 8.0 on."""
    import torch

    return name != "tf32" or torch.cuda.get_device_capability(device) >= (8, 0)


def gemm_rate(device: str, name: str, clock: Clock, lanes: int) -> float:
    """Best FLOP/s (2 n^3 a product) over growing squares, or 0 where the dtype is unsupported."""
    import torch

    dtype = getattr(torch, "float32" if name == "tf32" else name)
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    best = 0.0
    for size in SIZES[device]:
        try:
            times = race(products(device, dtype, size, lanes), clock)
        except torch.cuda.OutOfMemoryError:  # a peak without the large sizes would be a lie
            raise
        except RuntimeError:
            break
        best = max(best, sum(2 * size**3 / seconds for seconds in times))
        if 8 * min(times) > LONGEST[device]:  # the next size has 8 times the work
            break
    return best


def products(device: str, dtype: torch.dtype, size: int, lanes: int) -> list[Call]:
    """Return products of two random squares, each into memory of its own."""
    import torch

    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return [partial(torch.mm, left, right, out=torch.empty_like(left)) for _ in range(lanes)]


def race(calls: list[Call], clock: Clock) -> list[float]:
    """Least seconds of each call, all running at once, one thread each."""
    import torch

    time = partial(fastest, clock=clock, budget=BUDGET["gemm"])
    with ThreadPoolExecutor(len(calls), initializer=partial(torch.set_num_threads, 1)) as pool:
        return list(pool.map(time, calls))


# copies


def copy_rate(device: str, size: int, clock: Clock) -> float:
    """Best bytes/s, read and written both counted, of copying within a device.

    Piece after piece of `size` bytes is copied: by the time one comes round again, the others have
    driven it out of the caches.
    """
    import torch

    source = random_bytes(device, size)
    target = torch.empty_like(source).copy_(source)
    rates = []
    for count in PIECES[device]:
        pairs = zip(target.chunk(count), source.chunk(count), strict=True)
        turn = in_turn([partial(to.copy_, piece) for to, piece in pairs])
        rates.append(2 * int(source.nbytes) / count / fastest(turn, clock, BUDGET["copy"]))
    return max(rates)


def in_turn(calls: list[Call]) -> Call:
    """Return a call that makes the next of these each time, round and round."""
    turns = cycle(calls)

    def turn() -> None:
        next(turns)()

    return turn


def h2d_rate(size: int, *, pinned: bool) -> float:
    """Bytes/s, each counted once, of copying `size` bytes from host memory to the GPU."""
    import torch

    source = random_bytes("cpu", size)
    source = source.pin_memory() if pinned else source
    target = torch.empty_like(source, device="cuda")
    seconds = fastest(partial(target.copy_, source, non_blocking=pinned), cuda_clock, BUDGET["h2d"])
    return int(source.nbytes) / seconds


def random_bytes(device: str, size: int) -> torch.Tensor:
    """At least 8 MiB of float32 noise, one MiB repeated: quick to make, and no page is shared."""
    import torch

    return torch.randn(2**18, device=device).repeat(8 * max(1, size // 2**23))


if __name__ == "__main__":
    main(sys.argv[1:])
