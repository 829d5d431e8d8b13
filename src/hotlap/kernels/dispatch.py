"""Which implementation of an operator runs: measured once for each device, dtype and size."""

import json
import logging
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import Tensor

from hotlap.common.disk import cache_dir

log = logging.getLogger("hotlap.kernels")
VARIABLE = "HOTLAP_IMPLEMENTATIONS"
"""Pins implementations from outside: `gelu=torch,softmax=native`, or `*=torch` for all."""
ROUNDS = 15
FEWEST_ROUNDS = 5
LONGEST_SECONDS = 1.0
"""That one measurement may take, once it has its fewest rounds."""
MARGIN = 1.03
"""Torch's own is kept unless another is this many times as fast, by the median of pairs,"""
WINS = 0.8
"""and faster in this share of the pairs: background load distorts single ones."""

_pinned: dict[str, str] = {}
_known: dict[str, "Dispatcher[object]"] = {}
Result_co = TypeVar("Result_co", covariant=True)  # a tensor, or several


@dataclass(frozen=True)
class Implementation(Generic[Result_co]):
    """One way to compute an operator; `serves` takes the same arguments as `function`."""

    function: Callable[..., Result_co]
    serves: Callable[..., bool] = lambda *_: True


class Dispatcher(Generic[Result_co]):
    """Calls the fastest implementation that takes the arguments.

    Args:
        name: of the operator, such as `gelu` or `gelu_backward`.
        implementations: by name. The first, torch's own operations, must take anything.
    """

    def __init__(self, name: str, implementations: Mapping[str, Implementation[Result_co]]) -> None:
        self.name = name
        self.implementations = dict(implementations)
        self._chosen: dict[str, str] = {}
        _known[name] = self

    def __call__(self, *arguments: object) -> Result_co:
        """Run the operator."""
        return self.implementations[self.choice(*arguments)].function(*arguments)

    def choice(self, *arguments: object) -> str:
        """Return the name of the implementation that these arguments are given to."""
        able = self.able(*arguments)
        pinned = pinned_name(self.name)
        if pinned in able:
            return pinned
        if len(able) == 1 or pinned:
            return able[0]
        key = bucket(self.name, arguments)
        if self._chosen.get(key) not in able:
            self._chosen[key] = remembered(key, able) or self._measured(key, able, arguments)
        return self._chosen[key]

    def able(self, *arguments: object) -> list[str]:
        """Return the names of the implementations that take the arguments."""
        return [n for n, found in self.implementations.items() if found.serves(*arguments)]

    def _measured(self, key: str, able: list[str], arguments: tuple[object, ...]) -> str:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return able[0]  # nothing can be timed inside a CUDA graph
        functions = {n: self.implementations[n].function for n in able}
        calls = {n: partial(f, *arguments) for n, f in functions.items()}
        return choose(key, calls, next(a for a in arguments if isinstance(a, Tensor)))


def choose(key: str, calls: Mapping[str, Callable[[], object]], tensor: Tensor) -> str:
    """Measure calls that do the same, log and store the name of the one to use.

    The first is the fall-back: another must be faster by `MARGIN`, and in most pairs of calls.
    """
    times = measure(calls, on_gpu=tensor.is_cuda)
    base, *others = calls
    ratios = {name: _ratios(times[base], times[name]) for name in others}
    speedups = {name: statistics.median(found) for name, found in ratios.items()}
    steady = [n for n in others if sum(r > 1 for r in ratios[n]) >= WINS * len(ratios[n])]
    best = max(steady, key=speedups.__getitem__, default=base)
    chosen = best if speedups.get(best, 0.0) >= MARGIN else base
    shown = ", ".join(f"{name} {speedup:.2f}x" for name, speedup in speedups.items())
    log.debug("%s: %s is used (against %s: %s)", key, chosen, base, shown)
    _write(key, chosen)
    return chosen


def _ratios(base: list[float], other: list[float]) -> list[float]:
    return [slow / fast for slow, fast in zip(base, other, strict=True)]


def measure(calls: Mapping[str, Callable[[], object]], *, on_gpu: bool) -> dict[str, list[float]]:
    """Seconds of each call in rounds; the order turns round each time."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    begun = time.perf_counter()
    for round_number in range(ROUNDS + 1):
        for name in list(calls) if round_number % 2 else reversed(list(calls)):
            started = time.perf_counter()
            calls[name]()
            if on_gpu:
                torch.cuda.synchronize()
            if round_number:  # the first compiles and fills caches
                times[name].append(time.perf_counter() - started)
        if round_number >= FEWEST_ROUNDS and time.perf_counter() - begun > LONGEST_SECONDS:
            break
    return times


def pin(operator: str, implementation: str | None) -> None:
    """Always use one implementation of an operator where it serves; None: choose by measurement.

    Args:
        operator: such as `gelu`; its backward follows. `*` stands for all.
        implementation: `torch`, `native` or `triton`; where it does not take the arguments,
            torch's own operations run.

    Raises:
        ValueError: there is no such operator or implementation.
    """
    names = {name for d in _known.values() for name in d.implementations}
    if operator != "*" and operator not in _known:
        raise ValueError(f"no operator is called {operator!r}; there are {', '.join(_forwards())}")
    if implementation is not None and implementation not in names:
        raise ValueError(f"no implementation {implementation!r}; there are {sorted(names)}")
    if implementation is None:
        _pinned.pop(operator, None)
    else:
        _pinned[operator] = implementation


@contextmanager
def pinned(operator: str, implementation: str) -> Iterator[None]:
    """`pin` for as long as the block runs."""
    before = _pinned.get(operator)
    pin(operator, implementation)
    try:
        yield
    finally:
        pin(operator, before)


def pinned_name(operator: str) -> str:
    """Return the implementation that an operator is pinned to; empty where it is measured."""
    forward = operator.removesuffix("_backward")
    asked = {**_from_environment(os.environ.get(VARIABLE, "")), **_pinned}
    return next((asked[name] for name in (operator, forward, "*") if name in asked), "")


def operators() -> dict[str, tuple[str, ...]]:
    """Return the operators and the names of their implementations."""
    return {name: tuple(_known[name].implementations) for name in _forwards()}


def _forwards() -> list[str]:
    return sorted(name for name in _known if not name.endswith("_backward"))


def _from_environment(text: str) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in text.split(",") if entry.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def bucket(name: str, arguments: tuple[object, ...]) -> str:
    """The operator, device, dtype, the power of two above its size and its row's, its options."""
    first = next(a for a in arguments if isinstance(a, Tensor))
    columns = first.shape[-1] if first.ndim else 1
    options = [str(a) for a in arguments if isinstance(a, str | bool)]
    given = "".join("x" if isinstance(a, Tensor) else "." for a in arguments)
    sizes = f"{first.numel().bit_length()}/{int(columns).bit_length()}"
    return " ".join((name, str(first.device), str(first.dtype), sizes, given, *options))


# What was measured outlasts the process, beside the compiled kernels.


@cache
def _place() -> Path:
    sources = sorted(Path(__file__).parent.glob("*.[pch]*"))
    parts = [platform.machine(), _processor(), torch.__version__, str(torch.get_num_threads())]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    digest = sha256(" ".join(parts).encode())
    for source in sources:
        if source.is_file():
            digest.update(source.read_bytes())
    return cache_dir() / "kernels" / f"choices-{digest.hexdigest()[:16]}.json"


def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith("model name")), "")
    return platform.processor()


def _read() -> dict[str, str]:
    with suppress(OSError, RuntimeError, ValueError):
        found = json.loads(_place().read_text())
        return found if isinstance(found, dict) else {}
    return {}


def remembered(key: str, able: Collection[str]) -> str:
    """Return what was chosen for this key in an earlier process; empty if nothing was."""
    name = str(_read().get(key, ""))
    return name if name in able else ""


def _write(key: str, name: str) -> None:
    """Add a choice. Two processes that write at once lose one, which is measured again."""
    with suppress(OSError, RuntimeError):
        place = _place()
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
            json.dump({**_read(), key: name}, file)
        Path(file.name).replace(place)
