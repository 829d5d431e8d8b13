"""Work of a step most of whose result is thrown away, such as logits of positions no loss reads.

A *row* of a tensor is what lies along its last dimension. An operator is *row-wise* if each row of
its result follows from the same row of its input. Of what an operator made, a part is used: the
rows that are read by way of a view or an index, or all, as far as the result of the row-wise
operator that reads them is used. Where several read, their parts are added up, so that no less is
called used than is. What no operator reads may be read elsewhere, and counts as used.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.core.protocol import UnusedRows
from hotlap.seam.probe.repeats import LITTLE, Place
from hotlap.seam.where import Lines

ROW_WISE = {
    "aten.mm": (0,), "aten.addmm": (1,), "aten.native_layer_norm": (0,), "aten._softmax": (0,),
    "aten._log_softmax": (0,), "aten.gelu": (0,), "aten.relu": (0,), "aten.silu": (0,),
    "aten.tanh": (0,), "aten.sigmoid": (0,), "aten.leaky_relu": (0,), "aten.elu": (0,),
    "aten.native_dropout": (0,), "aten.clone": (0,), "aten._to_copy": (0,), "aten.pow": (0,),
    "aten.rsqrt": (0,), "aten.exp": (0,), "aten.neg": (0,), "aten.mean": (0,),
    "aten.add": (0, 1), "aten.sub": (0, 1), "aten.mul": (0, 1), "aten.div": (0, 1),
}  # fmt: skip
"""Operators that may be row-wise, with the arguments whose rows they take."""
IN_PLACE = {f"{name}_" for name in ROW_WISE}
PICKS = frozenset({"aten.index", "aten.index_select", "aten.gather"})
"""Operators that take rows out of their first argument."""
MOST_USED = 0.5
"""Part of its rows above which an operator's work is not called thrown away."""
LEAST_PART = 0.6
"""Part of a line's time in operators that is thrown away, below which the line is not to blame:
several layers may share it, of which only the last one's rows are not needed."""
MOST_OTHERS = 0.1
"""Part of a line's time in operators that need all rows, above which none can be left out."""

ByAddress = Mapping[int, Sequence[torch.Tensor]]


@dataclass(eq=False)
class Result:
    """What an operator made: `size` elements in rows of `width`, `apart` from one to the next.

    `parts`: of its rows, what is read of each region. `through`: what row-wise operators made of
    all of them. `picked`: the lines that took rows out first. `memory`: while it is referred to, no
    other gets its address.
    """

    size: int
    width: int
    apart: int
    row_wise: bool
    memory: StorageWeakRef
    parts: dict[Hashable, float] = field(default_factory=dict)
    through: list["Result"] = field(default_factory=list)
    picked: Lines = ()

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.size // max(1, self.width)

    def holds(self, tensor: torch.Tensor) -> float:
        """The part of its rows that a view of it, or a copy of some rows, has."""
        whole = tensor.dim() > 0 and tensor.shape[-1] == self.width > 1
        return min(1.0, tensor.numel() / self.size) if whole and self.size else 1.0

    @classmethod
    def of(cls, tensor: torch.Tensor, *, row_wise: bool) -> "Result":
        """The record of new memory."""
        width, apart = (tensor.shape[-1], tensor.stride(-1)) if tensor.dim() else (1, 1)
        memory = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        return cls(tensor.numel(), width, apart, row_wise, memory)

    def read(self, tensor: torch.Tensor) -> None:
        """An operator has read a view of it."""
        part = self.holds(tensor) if tensor.dim() and tensor.stride(-1) == self.apart else 1.0
        region = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        self.parts[region if part < 1.0 else ()] = part

    def copied(self, rows: torch.Tensor, lines: Lines) -> None:
        """An operator has copied some of its rows."""
        part = self.holds(rows)
        self.parts[len(self.parts)] = part
        self.pick(part, lines)

    def pick(self, part: float, lines: Lines) -> None:
        """Rows were taken out on these lines."""
        if part < 1.0 and not self.picked:
            self.picked = lines

    def used(self, later: Mapping["Result", float]) -> float:
        """The part of its rows that is used; `later` are those of what was made afterwards."""
        if not self.parts and not self.through:
            return 1.0
        return min(1.0, sum(self.parts.values()) + sum(later[made] for made in self.through))


class Ran(Protocol):
    """An operator that ran, called by an instruction of a frame; `result`: new memory it made.

    `idle`: it makes a view.
    """

    lines: Lines
    call: tuple[int, int]
    seconds: float
    idle: bool
    differentiated: bool
    result: Result | None


class Uses:
    """Follows through a step what is read of the results of operators."""

    def __init__(self) -> None:
        self._made: dict[int, Result] = {}
        self._before: Ran | None = None

    def note(
        self,
        run: Ran,
        func: OpOverload[..., object],
        args: Sequence[object],
        given: ByAddress,
        results: ByAddress,
    ) -> None:
        """An operator ran, with these tensors by the address of their memory."""
        name = str(func._overloadpacket)
        fresh = [(at, tensors[0]) for at, tensors in results.items() if at not in given]
        rows = _rows(name, args)
        made = Result.of(fresh[0][1], row_wise=bool(rows)) if fresh else None
        for at, tensors in given.items():
            source = self._made.get(at)
            if source is None:
                continue
            if at in results:
                if not self._saves(run, func, source):
                    _pass_on(source, run.lines, func, results[at])
            elif fresh and name in PICKS and tensors[0] is args[0]:
                source.copied(fresh[0][1], run.lines)
            else:
                _read(source, tensors, rows, made)
        if made:
            self._made[fresh[0][0]] = made
        run.result, self._before = made, run

    def _saves(self, run: Ran, func: OpOverload[..., object], source: Result) -> bool:
        """Whether autograd saves what the operator before has made: in the same call."""
        before = self._before if func is torch.ops.aten.detach.default else None
        return before is not None and before.result is source and before.call == run.call


def _rows(name: str, args: Sequence[object]) -> list[object]:
    """The arguments whose rows an operator takes one by one."""
    taken = [args[at] for at in ROW_WISE.get(name, ()) if at < len(args)]
    match name, args:
        case ("aten._softmax" | "aten._log_softmax", [torch.Tensor() as tensor, int(dim), *_]):
            return taken if dim in {-1, tensor.dim() - 1} else []
        case "aten.native_layer_norm", [_, [_, _, *_], *_]:  # over more than the last dimension
            return []
    return taken


def _read(
    source: Result, tensors: Iterable[torch.Tensor], rows: Iterable[object], made: Result | None
) -> None:
    """An operator read these tensors in the memory of `source`, and made `made` of some rows."""
    for tensor in tensors:
        whole = tensor.numel() == source.size and tensor.is_contiguous()
        by_row = made is not None and source.rows == made.rows and whole
        if made is not None and by_row and any(tensor is one for one in rows):
            source.through.append(made)
        else:
            source.read(tensor)


def _pass_on(
    source: Result, lines: Lines, func: OpOverload[..., object], results: Iterable[torch.Tensor]
) -> None:
    """An operator made a view of its input, or wrote to it."""
    writes = func._schema.is_mutable and str(func._overloadpacket) not in IN_PLACE
    for result in results:
        if writes or func is torch.ops.aten.detach.default:  # what NumPy reads, no operator shows
            source.read(result)
        else:
            source.pick(source.holds(result), lines)


@dataclass
class _Line:
    """What a line's operators took: `wasted` for rows that are not used, `others` for all rows.

    `costliest`: of the former, the one that took longest, with the part of its rows that is used.
    """

    whole: float = 0.0
    wasted: float = 0.0
    others: float = 0.0
    costliest: tuple[Ran, float] | None = None

    @property
    def blamed(self) -> bool:
        """Whether rows can be left out on this line, and most of its work with them."""
        much = self.wasted >= LEAST_PART * self.whole
        return much and self.others <= MOST_OTHERS * self.whole

    def add(self, run: Ran, used: float) -> None:
        """Count an operator."""
        if run.idle:
            return
        self.whole += run.seconds
        if run.result is None or not run.result.row_wise:
            self.others += run.seconds
        elif used <= MOST_USED:
            self.wasted += (1.0 - used) * run.seconds
            if self.costliest is None or run.seconds > self.costliest[0].seconds:
                self.costliest = run, used


def unused_rows(runs: Sequence[Ran], before: Sequence[Ran]) -> list[UnusedRows]:
    """The lines of the user's that compute rows most of which are not used, in both steps."""
    there = {(one.path, one.line) for one in _unused(before)}
    return [one for one in _unused(runs) if (one.path, one.line) in there]


def _unused(runs: Sequence[Ran]) -> Iterator[UnusedRows]:
    lines: dict[Place, _Line] = defaultdict(_Line)
    used: dict[Result, float] = {}
    for run in reversed(runs):
        part = run.result.used(used) if run.result else 1.0
        if run.result:
            used[run.result] = part
        if run.lines:
            lines[run.lines[0]].add(run, part)
    total = sum(run.seconds for run in runs)
    for (code, line), spent in lines.items():
        if spent.costliest is not None and spent.blamed and spent.wasted >= LITTLE * total:
            run, part = spent.costliest
            path, at = _picked(run.result)
            share = spent.wasted / total
            yield UnusedRows(code.co_filename, line, part, share, path, at, run.differentiated)


def _picked(result: Result | None) -> tuple[str, int]:
    """Where rows of a result, or of what was made of all its rows, are taken out."""
    while result is not None and not result.picked:
        result = next(iter(result.through), None)
    if result is None:
        return "", 0
    (code, line), *_ = result.picked
    return code.co_filename, line
