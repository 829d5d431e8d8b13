"""Work of a step most of whose result is thrown away, such as logits of positions no loss reads.

A *row* of a tensor is what lies along its last dimension; of what is computed of each row, such as
its mean, an element is a row, and of what a convolution or a pool makes, a sample of the batch. An
operator is *row-wise* if each row of its result follows from the same row of its input, or from
the same rows, if its rows are longer or shorter. Of what an operator made, the rows are used that
are read by way of a view or an index, that a mask does not multiply by zero and no loss ignores; or
all, as far as what a row-wise operator made of them is used. Sets of rows that may differ are added
up, so that no less is called used than is. What no operator reads may be read elsewhere, and counts
as used.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.core.protocol import UnusedRows
from hotlap.seam.probe.repeats import DETACH, LITTLE, Place, in_both, saved_by_autograd
from hotlap.seam.where import Lines

ROW_WISE = {
    "aten.mm": (0,), "aten.addmm": (1,), "aten.native_layer_norm": (0,), "aten._softmax": (0,),
    "aten._log_softmax": (0,), "aten.native_dropout": (0,), "aten.add": (0, 1),
    "aten.sub": (0, 1), "aten.mul": (0, 1), "aten.div": (0, 1), "aten.mean": (0,),
    "aten.sum": (0,), "aten.logsumexp": (0,), "aten.amax": (0,), "aten.linalg_vector_norm": (0,),
    "aten.gather": (0,), "aten.nll_loss_forward": (0,), "aten.mse_loss": (0, 1),
}  # fmt: skip
"""Operators that may be row-wise, with the arguments whose rows they take."""
BY_SAMPLE = {
    "aten.convolution", "aten.native_group_norm", "aten.native_batch_norm",
    *(f"aten.{form}_pool{dims}d" for form in ("avg", "_adaptive_avg") for dims in (1, 2, 3)),
    *(f"aten.{form}max_pool{dims}d{indices}" for form in ("", "adaptive_") for dims in (2, 3)
      for indices in ("", "_with_indices")),
    *(f"aten.upsample_{form}{dims}d" for form in ("nearest", "linear", "bilinear", "bicubic")
      for dims in (1, 2, 3)),
}  # fmt: skip
"""Operators whose rows are samples: what lies along all dimensions but the first."""
BY_ELEMENT = {
    f"aten.{name}" for name in (
        "gelu", "relu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "clone", "_to_copy", "pow",
        "rsqrt", "exp", "log", "neg", "abs", "add", "sub", "mul", "div", "hardtanh", "hardswish",
        "softplus", "mish", "clamp", "clamp_min", "clamp_max", "sqrt", "square", "reciprocal",
        "sin", "cos",
    )
}  # fmt: skip
"""Those of which each element follows from the same element: a diagonal from a diagonal."""
ROW_WISE |= dict.fromkeys(BY_SAMPLE | (BY_ELEMENT - ROW_WISE.keys()), (0,))
IN_PLACE = {f"{name}_" for name in ROW_WISE}
PICKS = frozenset({"aten.index", "aten.index_select", "aten.gather", "aten.embedding"})
"""Operators that take rows out of their first argument."""
PRODUCTS = frozenset({"aten.mm", "aten.addmm"})
OF_DIAGONAL = frozenset({"aten.diagonal_copy", "aten.trace"})
MOST_USED = 0.5
"""Part of its rows above which an operator's work is not called thrown away."""
MOST_NEEDED = 0.1
"""Part of a line's time in operators that need all rows, or whose results are used, above which it
is not to blame."""

ByAddress = Mapping[int, Sequence[torch.Tensor]]
Rows = Mapping[Hashable, float]
"""Sets of rows, by what stands for each, as parts of all rows; `ALL` stands for all of them,
`DIAGONAL` for the one element of each row that lies on the diagonal of a square matrix."""
ALL, DIAGONAL = (), ("diagonal",)
MOST_MASKED = 1 << 22
"""Elements of a mask above which its values are not looked at."""


@dataclass(eq=False)
class Result:
    """What an operator made: `size` elements in `rows` rows.

    `ordered`: they lie one behind the other. `samples`: its rows are those of a batch. `used_by`:
    the sets of rows that were read. `through`: what row-wise operators made of all rows. `picked`:
    the lines that took rows out first. `by_element`: its operator is one of `BY_ELEMENT`. `memory`:
    while it is referred to, no other gets its address.
    """

    size: int
    rows: int
    ordered: bool
    samples: bool
    row_wise: bool
    by_element: bool
    memory: StorageWeakRef
    used_by: dict[Hashable, float] = field(default_factory=dict)
    through: list["Result"] = field(default_factory=list)
    picked: Lines = ()

    @property
    def width(self) -> int:
        """How many elements a row has."""
        return self.size // max(1, self.rows)

    def part(self, tensor: torch.Tensor) -> float:
        """The part of its rows that a view of it, or a copy of some rows, has."""
        if self._is_diagonal(tensor):
            return 1.0 / self.width
        whole_rows = self.size and self._along(tensor) is not None
        return min(1.0, tensor.numel() / self.size) if whole_rows else 1.0

    def read(self, tensor: torch.Tensor) -> None:
        """An operator has read a view of it."""
        along = self._along(tensor)
        if self._is_diagonal(tensor):
            self.used_by[DIAGONAL] = 1.0 / self.width
            return
        if not self.ordered or along is None or self.part(tensor) == 1.0:
            self.used_by[ALL] = 1.0
            return
        steps = tuple((size, step // self.width) for size, step in along if size > 1)
        self.used_by["view", steps, tensor.storage_offset() // self.width] = self.part(tensor)

    def _along(self, tensor: torch.Tensor) -> list[tuple[int, int]] | None:
        """Sizes and strides over rows of a view that has whole ones, also where it divides them."""
        dims, row = list(zip(tensor.shape, tensor.stride(), strict=True)), 1
        while row < self.width and dims and (dims[-1][1] == row or dims[-1][0] == 1):
            row *= dims.pop()[0]
        return dims if row == self.width else None

    def _is_diagonal(self, tensor: torch.Tensor) -> bool:
        """Whether a view of square matrices is their diagonals."""
        last = tensor.stride()[-1:] == (self.width + 1,) and tensor.shape[-1] == self.width
        return last and self.ordered and self.width > 1 and tensor.numel() == self.rows

    def pick(self, rows: Hashable, part: float, lines: Lines) -> None:
        """Some rows were read on these lines."""
        self.used_by[ALL if part == 1.0 else rows] = part
        self.cut(part, lines)

    def cut(self, part: float, lines: Lines) -> None:
        """On these lines other rows were left out."""
        if part < 1.0 and not self.picked:
            self.picked = lines

    def used(self, later: Mapping["Result", Rows]) -> Rows:
        """The rows that are used; `later` are those of what was made afterwards.

        Shorter rows are counted as if each came from another row of this one.
        """
        found = dict(self.used_by)
        for made in self.through:
            same = made.rows == self.rows
            if DIAGONAL in later[made] and not (made.by_element and same):
                found[ALL] = 1.0
            elif same:
                found |= later[made]
            else:
                more = max(1.0, made.rows / self.rows)
                parts = {rows: part * more for rows, part in later[made].items()}
                found |= {
                    (made.rows, rows) if part < 1.0 else ALL: min(1.0, part)
                    for rows, part in parts.items()
                }
        return found or {ALL: 1.0}


class Ran(Protocol):
    """An operator that ran, called by an instruction of a frame; `result`: new memory it made.

    `idle`: it makes a view.
    """

    lines: Lines
    func: OpOverload[..., object]
    call: tuple[int, int]
    seconds: float
    idle: bool
    differentiated: bool
    result: Result | None


@dataclass(frozen=True)
class _Operator:
    """An operator that ran; `by_row` are the arguments whose rows it takes one by one.

    `fresh`: what it made in new memory, `made` the record of that.
    """

    name: str
    args: Sequence[object]
    lines: Lines
    by_row: Sequence[object]
    fresh: torch.Tensor | None
    made: Result | None


class Uses:
    """Follows through a step what is read of the results of operators."""

    def __init__(self) -> None:
        self._made: dict[int, Result] = {}
        self._before: Ran | None = None

    def note(
        self,
        run: Ran,
        args: Sequence[object],
        given: ByAddress,
        results: ByAddress,
    ) -> None:
        """An operator ran, with these tensors by the address of their memory.

        What it made on a device is not followed: there, no time of an operator is known.
        """
        name = str(run.func._overloadpacket)
        at_fresh = next((at for at in results if at not in given), None)
        fresh = None if at_fresh is None else results[at_fresh][0]
        by_row = _beside(args) if name == "aten.cat" else _taken_by_row(name, args)
        made = None
        if fresh is not None and fresh.device.type == "cpu":
            made = self._record(name, fresh, by_row, given)
        operator = _Operator(name, args, run.lines, by_row, fresh, made)
        for at, tensors in given.items():
            source = self._made.get(at)
            if source is not None and at not in results:
                for tensor in tensors:
                    _read(source, tensor, operator)
            elif source is not None and not self._saves(run, source):
                _pass_on(source, run, results[at])
        if at_fresh is not None and made is not None:
            self._made[at_fresh] = made
        run.result, self._before = made, run

    def _record(
        self, name: str, fresh: torch.Tensor, by_row: Sequence[object], given: ByAddress
    ) -> Result:
        """The record of what an operator made anew."""
        samples, rows = name in BY_SAMPLE, fresh.shape[:-1].numel()
        for at, tensors in given.items():
            source = self._made.get(at)
            if source is not None and any(one is tensor for one in by_row for tensor in tensors):
                reduced = fresh.numel() == source.rows
                same = source.width == 1 and fresh.numel() == source.size
                rows = fresh.numel() if reduced or same else rows
                batch = source.samples and fresh.shape[:1].numel() == source.rows
                samples = samples or (batch and name not in PRODUCTS)
        rows = fresh.shape[:1].numel() if samples else max(1, rows)
        memory = StorageWeakRef(fresh.untyped_storage())  # type: ignore[no-untyped-call]
        return Result(
            fresh.numel(), rows, fresh.is_contiguous(), samples, bool(by_row), name in BY_ELEMENT,
            memory,
        )  # fmt: skip

    def _saves(self, run: Ran, source: Result) -> bool:
        """Whether autograd saves what the operator before has made: in the same call."""
        before = self._before
        return bool(before and before.result is source and saved_by_autograd(run, before))


def _taken_by_row(name: str, args: Sequence[object]) -> list[object]:
    """The arguments whose rows an operator takes one by one."""
    taken = [args[at] for at in ROW_WISE.get(name, ()) if at < len(args)]
    dims = args[1] if len(args) > 1 else None
    last = [-1, taken[0].dim() - 1] if taken and isinstance(taken[0], torch.Tensor) else []
    match name:
        case "aten._softmax" | "aten._log_softmax":
            apart = dims in last
        case "aten.native_layer_norm":
            apart = isinstance(dims, list) and len(dims) == 1
        case "aten.native_batch_norm":
            apart = args[5] is False  # by running statistics
        case "aten.linalg_vector_norm":
            apart = len(args) > 2 and _are_last(args[2], taken)
        case "aten.mean" | "aten.sum" | "aten.logsumexp" | "aten.amax":
            apart = _are_last(dims, taken)
        case "aten.gather":
            apart = dims in last and getattr(args[2], "shape", ())[-1:] == (1,)
        case "aten.mse_loss":
            apart = [*args[2:]] == [0]  # each element for itself
        case _:
            apart = True
    return taken if apart else []


def _beside(args: Sequence[object]) -> list[object]:
    """Tensors that are concatenated row by row, or sample by sample: not along the first axis."""
    match args:
        case [[torch.Tensor() as first, *others], int(dim)] if dim % max(1, first.dim()) > 0:
            return [first, *others]
    return []


def _are_last(dims: object, taken: Sequence[object]) -> bool:
    """Whether these are the last dimensions of a tensor, not all of them."""
    if not (isinstance(dims, list) and dims and taken and isinstance(taken[0], torch.Tensor)):
        return False
    first = taken[0].dim() - len(dims)
    return first > 0 and {dim % taken[0].dim() for dim in dims} == {*range(first, taken[0].dim())}


def _read(source: Result, tensor: torch.Tensor, operator: _Operator) -> None:
    """An operator read a tensor in the memory of `source`."""
    made = operator.made
    whole = tensor.numel() == source.size and tensor.is_contiguous()
    square = whole and tensor.shape[-2:] == (source.width, source.width)
    kept = _kept(source, tensor, operator) if whole else None
    if kept is not None:
        source.pick(*_masked(kept), operator.lines)
    elif operator.name in OF_DIAGONAL and square:
        source.pick(DIAGONAL, 1.0 / source.width, operator.lines)
    elif made and (whole or _spread(source, tensor)) and _takes(source, tensor, operator):
        source.through.append(made)
    elif operator.fresh is not None and operator.name in PICKS and tensor is operator.args[0]:
        source.pick(*_picked_rows(source, operator.fresh, operator.args), operator.lines)
    else:
        source.read(tensor)


def _spread(source: Result, tensor: torch.Tensor) -> bool:
    """Whether it is one figure of each row, expanded over the row."""
    if source.width > 1 or not tensor.dim() or tensor.stride(-1):
        return False
    once = tensor.select(-1, 0)
    return once.numel() == source.size and once.is_contiguous()


def _takes(source: Result, tensor: torch.Tensor, operator: _Operator) -> bool:
    """Whether rows of the result follow from groups of rows of a tensor, or the other way."""
    few, many = sorted((source.rows, operator.made.rows if operator.made else 1))
    return many % few == 0 and any(tensor is value for value in operator.by_row)


def _kept(source: Result, tensor: torch.Tensor, operator: _Operator) -> torch.Tensor | None:
    """The rows that an operator does not multiply by zero, replace or ignore; None: maybe all.

    A parameter of zeros has a gradient that depends on all rows. The zeros of what is computed are
    taken to come from a choice (top k, ReLU), which drops their gradients.
    """
    mask, keeps = _mask(tensor, operator)
    if not isinstance(mask, torch.Tensor) or (mask.requires_grad and mask.is_leaf):
        return None
    if not _has_one_of_each(mask, tensor, source):
        return None
    kept = mask.ne(0) if keeps else mask.eq(0)
    return None if bool(kept.all()) else kept


def _mask(tensor: torch.Tensor, operator: _Operator) -> tuple[object, bool]:
    """What an operator masks a tensor with, and whether it keeps what is not zero, or is."""
    match operator.name, operator.args:
        case "aten.mul", [one, other]:
            return other if tensor is one else one, True
        case "aten.where", [mask, one, _]:
            return mask, tensor is one
        case "aten.masked_fill", [_, mask, *_]:
            return mask, False
        case "aten.nll_loss_forward", [_, torch.Tensor() as target, _, _, int(ignored)]:
            return target.ne(ignored).unsqueeze(-1), True
    return None, True


def _has_one_of_each(mask: torch.Tensor, tensor: torch.Tensor, source: Result) -> bool:
    """Whether a mask of a tensor has one element for each row."""
    along = source.width == 1 or mask.shape[-1:] == (1,)
    if source.samples:
        along = mask.dim() == tensor.dim() and len(mask) == source.rows
    return along and mask.numel() == source.rows <= MOST_MASKED


def _masked(kept: torch.Tensor) -> tuple[Hashable, float]:
    """What stands for the rows that a mask keeps, and their part of all."""
    return ("mask", _digest(kept)), float(kept.double().mean())


def _picked_rows(
    source: Result, rows: torch.Tensor, args: Sequence[object]
) -> tuple[Hashable, float]:
    """What stands for the rows that an operator has copied, and their part of all."""
    if source.samples and not _are_samples(rows, args[0]):
        return ALL, 1.0
    given = [value for value in args[1:] if not isinstance(value, (list, tuple))]
    given += [one for value in args[1:] if isinstance(value, (list, tuple)) for one in value]
    masks = [one for one in given if isinstance(one, torch.Tensor)]
    if len(masks) == 1 and masks[0].dtype == torch.bool and masks[0].numel() == source.rows:
        return _masked(masks[0])
    which = tuple(_digest(one) if isinstance(one, torch.Tensor) else one for one in given)
    return ("index", which), source.part(rows)


def _are_samples(rows: torch.Tensor, batch: object) -> bool:
    """Whether some rows are of the shape of the batch's samples."""
    sample = batch.shape[1:] if isinstance(batch, torch.Tensor) else None
    return rows.shape[rows.dim() - len(sample or ()) :] == sample


def _digest(values: torch.Tensor) -> int:
    return hash(values.detach().contiguous().numpy().tobytes())


def _pass_on(source: Result, run: Ran, results: Iterable[torch.Tensor]) -> None:
    """An operator made a view of its input, or wrote to it."""
    writes = run.func._schema.is_mutable and str(run.func._overloadpacket) not in IN_PLACE
    detaches = run.func is DETACH  # what NumPy reads, no operator shows
    for result in results:
        if writes or detaches:
            source.read(result)
        else:
            source.cut(source.part(result), run.lines)


@dataclass
class _Line:
    """What a line's operators took: `whole`, of which `wasted` was for rows that are not used.

    `needed`: what operators took that need all rows, or whose results are used; `largest`: elements
    of such a result. `costliest`: of the others the one that took longest, with the part of its
    rows that is used.
    """

    whole: float = 0.0
    wasted: float = 0.0
    needed: float = 0.0
    largest: int = 0
    costliest: tuple[Ran, float] | None = None

    def add(self, run: Ran, used: float) -> None:
        """Count an operator."""
        if run.idle:
            return
        self.whole += run.seconds
        if run.result is None or not run.result.row_wise or used > MOST_USED:
            self.needed += run.seconds
            self.largest = max(self.largest, run.result.size if run.result else 0)
            return
        self.wasted += (1.0 - used) * run.seconds
        if self.costliest is None or run.seconds > self.costliest[0].seconds:
            self.costliest = run, used

    @property
    def blamed(self) -> tuple[Ran, float] | None:
        """The costliest operator, where rows can be left out wherever the line is called from.

        A result as large as its own that is used may be that of another layer, on the same line.
        """
        if self.costliest is None or self.needed > MOST_NEEDED * self.whole:
            return None
        result = self.costliest[0].result
        return self.costliest if result is None or self.largest < result.size else None


def unused_rows(runs: Sequence[Ran], before: Sequence[Ran]) -> list[UnusedRows]:
    """The lines of the user's that compute rows most of which are not used, in both steps."""
    return in_both(_unused(runs), _unused(before))


def _unused(runs: Sequence[Ran]) -> Iterator[UnusedRows]:
    """The lines of one step.

    A line is not to blame where it also computes what is used; then the one that calls it is, if
    all that it calls is for such rows: of a model that is run twice the call in vain.
    """
    lines: dict[Place, _Line] = defaultdict(_Line)
    used: dict[Result, Rows] = {}
    for run in reversed(runs):
        part = 1.0
        if run.result:
            used[run.result] = run.result.used(used)
            part = min(1.0, sum(used[run.result].values()))
        for place in dict.fromkeys(run.lines):
            lines[place].add(run, part)
    total = sum(run.seconds for run in runs)
    blamed = {place for place, spent in lines.items() if spent.blamed}
    first = (next((place for place in run.lines if place in blamed), None) for run in runs)
    for place in dict.fromkeys(filter(None, first)):
        spent, (code, line) = lines[place], place
        if spent.blamed and spent.wasted >= LITTLE * total:
            run, part = spent.blamed
            path, at = _picked(run.result)
            diagonal = run.result is not None and DIAGONAL in used[run.result]
            yield UnusedRows(
                code.co_filename, line, part, spent.wasted / total, path, at, run.differentiated,
                diagonal,
            )  # fmt: skip


def _picked(result: Result | None) -> tuple[str, int]:
    """Where rows of a result, or of what was made of all its rows, are taken out."""
    while result is not None and not result.picked:
        result = next(iter(result.through), None)
    if result is None:
        return "", 0
    (code, line), *_ = result.picked
    return code.co_filename, line
