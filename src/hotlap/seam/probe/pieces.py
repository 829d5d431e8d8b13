"""Layers that a step calls many times, though none of the inputs depends on an earlier result.

Samples, frames or time steps that pass a layer one by one, a decoder that is called inside the loop
over time, a recurrent layer that is given one time step at a time: one call on all inputs gives the
same. An operator with a weight is a *piece* if it is differentiated; it is *apart* if its input
does not depend on what the same operator made of the same weight before, on the same lines and
without a backward pass in between. A recurrent layer's call is one piece, with its first product as
the operator. What one call on all inputs would save is measured.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import FrameType
from typing import Protocol

import torch
from torch import nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from hotlap.common.threads import one_thread
from hotlap.core.protocol import Avoidable
from hotlap.seam.probe.copies import computing
from hotlap.seam.probe.repeats import DETACH, LITTLE, address, vain_lines
from hotlap.seam.where import Lines

FEWEST = 8
"""Calls in a step from which one call on all inputs is tried."""
LEAST_PART = 0.1
"""Part of a call's time that one call would save, and of a line's, below which it is not named."""
MOST = 1 << 26
"""Elements of all inputs above which the one call is not tried: 256 MiB."""
TIMES = 3
"""Measurements of which the fastest counts."""
WEIGHTED = {
    "aten.mm": (0, 1), "aten.addmm": (1, 2), "aten.convolution": (0, 1),
    "aten.mkldnn_rnn_layer": (0, 1),
}  # fmt: skip
"""Where operators have their input and their weight."""
READ = torch.ops.aten._local_scalar_dense.default
FROM_HOST = torch.ops.aten.lift_fresh.default
"""What makes a tensor of numbers of Python's, or of NumPy's."""

Saved = Callable[[int], float]
"""For so many calls, the part of their time that one call on all inputs saves."""


@dataclass(frozen=True, eq=False)
class Piece:
    """One of the calls of a layer that have the same `key`; `saved` measures once."""

    key: object
    apart: bool
    saved: Saved


class Ran(Protocol):
    """An operator that ran; `idle`: it makes a view; `kept`: it did more than give a result.

    `followed`: whether all but its lines and its seconds is known.
    """

    lines: Lines
    func: OpOverload[..., object]
    seconds: float
    followed: bool
    idle: bool
    kept: bool
    differentiated: bool
    piece: Piece | None


class Pieces:
    """Follows through a step which results depend on which earlier calls of layers."""

    def __init__(self) -> None:
        self._bits: dict[object, int] = {}
        self._behind: dict[int, int] = {}
        """Of memory that was made in the step: the bits of all that its content depends on."""
        self._read = 0
        self._calls: dict[int, Piece] = {}

    def note(
        self,
        run: Ran,
        caller: FrameType,
        args: Sequence[object],
        given: Collection[int],
        made: Collection[int],
        passes: int,
    ) -> None:
        """An operator ran, with tensors at addresses, and made, or wrote to, those at others.

        `passes` tells apart what lies before and after a backward pass.
        """
        behind = self._read
        for at in given:
            behind |= self._behind.get(at, 0)
        if run.func is READ or (run.func is DETACH and run.kept):
            self._read |= behind  # what Python or NumPy has read may come back in any way
        if run.func is FROM_HOST:  # it gives back what it is given
            made, behind = given, (1 << len(self._bits)) - 1
        if run.differentiated:
            behind |= self._called(run, caller, args, passes)
        self._behind |= dict.fromkeys(made, behind)

    def _called(self, run: Ran, caller: FrameType, args: Sequence[object], passes: int) -> int:
        """Mark an operator of a layer's call; gives the bit of its result."""
        layer = _recurrent(caller)
        if layer is not None:
            run.piece = self._calls.get(id(layer))
        places = WEIGHTED.get(str(run.func._overloadpacket))
        x, weight = (args[at] for at in places) if places else (None, None)
        if not (isinstance(x, torch.Tensor) and isinstance(weight, torch.Tensor)):
            return 0
        if x.device.type != "cpu":  # there a call returns before the work is done
            return 0
        if layer is not None and address(weight) != address(_first_weight(layer)):
            return 0
        key = run.func, address(weight), x.shape[1:], run.lines, passes
        bit = 1 << self._bits.setdefault(key, len(self._bits))
        before = self._read | self._behind.get(address(x), 0)
        apart = not before & bit and address(weight) not in self._behind
        if layer is not None:
            saved: Saved = partial(_steps_saved, layer, caller.f_locals["input"].shape)
            run.piece = self._calls[id(layer)] = Piece(key, apart, cache(saved))
        elif places:
            like = list(map(_like, args))
            saved = partial(_product_saved, run.func, like, places[0])
            run.piece = Piece(key, apart, cache(saved))
        return bit


def _recurrent(caller: FrameType) -> nn.RNNBase | None:
    """The recurrent layer whose forward pass calls an operator."""
    if caller.f_globals.get("__name__") != nn.RNNBase.__module__:
        return None
    layer = caller.f_locals.get("self")
    packed = caller.f_locals.get("batch_sizes") is not None
    known = isinstance(layer, (nn.LSTM, nn.GRU, nn.RNN)) and "input" in caller.f_locals
    return layer if known and not packed else None


def _first_weight(layer: nn.RNNBase) -> torch.Tensor:
    """What the input is multiplied by in the first layer."""
    weight = layer._flat_weights[0]
    assert isinstance(weight, torch.Tensor)
    return weight


@dataclass(frozen=True)
class _Like:
    """What a tensor is like: the tensor itself may be swapped for another, or freed."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype

    def made(self) -> torch.Tensor:
        """One of zeros; an expanded one has memory of its own."""
        if 0 in self.stride:
            return torch.zeros(self.shape, dtype=self.dtype)
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype).zero_()


def _like(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return _Like(value.shape, value.stride(), value.dtype)
    return value


def _product_saved(
    func: OpOverload[..., object], like: Sequence[object], at: int, calls: int
) -> float:
    """What one product saves; `at`: where its arguments have the input."""
    args = [one.made() if isinstance(one, _Like) else one for one in like]
    x = args[at]
    assert isinstance(x, torch.Tensor)
    if x.numel() * calls > MOST:
        return 0.0
    every = args.copy()
    every[at] = torch.zeros(calls * x.shape[0], *x.shape[1:], dtype=x.dtype)
    return 1.0 - _fastest(lambda: func(*every)) / (calls * _fastest(lambda: func(*args)))


def _steps_saved(layer: nn.RNNBase, shape: torch.Size, calls: int) -> float:
    """What a recurrent layer saves that gets all steps at once; `shape`: of the input of a call."""
    if shape.numel() * calls > MOST:
        return 0.0
    along = 1 if layer.batch_first and len(shape) > 2 else 0
    alike = _layer_like(layer)
    one = torch.ones(shape, dtype=_first_weight(layer).dtype)
    every = torch.cat([one] * calls, along)
    with torch.enable_grad():  # the graph of all calls is kept, as that of the one call is
        each = _fastest(lambda: [alike(one) for _ in range(calls)])
        return 1.0 - _fastest(lambda: alike(every)) / each


def _layer_like(layer: nn.RNNBase) -> nn.Module:
    """A layer of the same sizes, made without a draw, and without the hooks of the program's."""
    kind = next(kind for kind in (nn.LSTM, nn.GRU, nn.RNN) if isinstance(layer, kind))
    projected = {"proj_size": layer.proj_size} if kind is nn.LSTM else {}
    made = kind(
        layer.input_size, layer.hidden_size, num_layers=layer.num_layers, bias=layer.bias,
        batch_first=layer.batch_first, bidirectional=layer.bidirectional, device="meta",
        dtype=_first_weight(layer).dtype,
        **projected,
    ).to_empty(device="cpu")  # fmt: skip
    for weight in made.parameters():
        nn.init.zeros_(weight)  # what was there may be denormal, which is slow
    return made


def _fastest(call: Callable[[], object]) -> float:
    """Seconds of a call, by the clock of its thread: other programs may keep the cores busy."""
    seconds = []
    for _ in range(TIMES):
        began = time.thread_time()
        call()
        seconds.append(time.thread_time() - began)
    return min(seconds)


def called_one_by_one(runs: Sequence[Ran], before: Sequence[Ran]) -> list[Avoidable]:
    """The lines of the user's that call a layer piece by piece, in both steps."""
    apart = _apart(before)
    there = {run.lines for run in before if run.piece in apart}
    # Threads that share the work would spin where they wait for a core. One call on all inputs has
    # more for several threads to do: it saves no less with them.
    with _disable_current_modes(), torch.no_grad(), one_thread():
        return list(_lines(runs, _worth_it(runs, there)))


def _apart(runs: Sequence[Ran]) -> dict[Piece, int]:
    """The calls of which none depends on another of the same key, with the number of those."""
    calls: dict[object, set[Piece]] = defaultdict(set)
    for run in runs:
        if run.piece is not None:
            calls[run.piece.key].add(run.piece)
    return {
        piece: len(same)
        for same in calls.values()
        if len(same) >= FEWEST and all(piece.apart for piece in same)
        for piece in same
    }


def _worth_it(runs: Sequence[Ran], there: Container[Lines]) -> dict[Lines, dict[object, float]]:
    """By lines and key, the part that one call saves of the time of all, if it is worth a word."""
    apart, total = _apart(runs), sum(run.seconds for run in runs)
    spent: dict[tuple[Lines, object], float] = defaultdict(float)
    one: dict[tuple[Lines, object], Piece] = {}
    for run in runs:
        if run.piece in apart and run.piece is not None and run.lines in there:
            spent[run.lines, run.piece.key] += run.seconds
            one[run.lines, run.piece.key] = run.piece
    found: dict[Lines, dict[object, float]] = defaultdict(dict)
    for (lines, key), piece in one.items():
        saved = piece.saved(apart[piece]) if spent[lines, key] >= LITTLE * total else 0.0
        if saved >= LEAST_PART:
            found[lines][key] = saved
    return dict(found)


def _lines(
    runs: Sequence[Ran], saved: Mapping[Lines, Mapping[object, float]]
) -> Iterator[Avoidable]:
    calls, every, followed = _apart(runs), Counter[Lines](), Counter[Lines]()
    for run in runs:
        every[run.lines] += 1
        followed[run.lines] += run.followed

    def in_vain(run: Ran) -> float:
        keys = saved.get(run.lines, {})
        if run.piece is None:  # one that is not followed is as the others of its lines
            return 0.0 if run.followed or len(keys) != 1 else run.seconds * sum(keys.values())
        return run.seconds * keys.get(run.piece.key, 0.0)

    def times(run: Ran) -> int:
        known = calls[run.piece] if run.piece is not None else 0
        return round(known * every[run.lines] / max(1, followed[run.lines]))

    working = computing(runs)
    mixed = {place for run in working if not in_vain(run) for place in run.lines}
    total = sum(run.seconds for run in runs)
    return vain_lines(working, mixed, total, in_vain, times, LEAST_PART)
