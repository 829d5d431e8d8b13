"""Loop invariants: work of a step whose result is the same at every step.

In three steps each operator of the training thread gets a *signature*: a hash of its name, its
plain arguments and the signatures of the tensors that it reads. A tensor from before the step is
known by its identity and version, one that the step made by the operator that made it. An operator
is invariant if it has the same signature on the same lines in all of them, draws no random numbers,
nothing is differentiated through it, and two checksums of its result agree. What is made to be
written into does not count. Where something was found, three steps at the end are compared as well.
"""

import sys
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import FrameType

import torch
from torch._ops import OpOverload
from torch.autograd import forward_ad
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from hotlap.common.apart import Apart
from hotlap.common.plain import PLAIN as PLAIN_TENSORS
from hotlap.core.protocol import Avoidable, Invariant
from hotlap.seam.fourier import long_kernels
from hotlap.seam.probe.checksum import Checksum, Checksums, agree
from hotlap.seam.probe.copies import Copies, copied_work
from hotlap.seam.probe.diagnosis import Diagnosis, Followed
from hotlap.seam.probe.discarded import Reads, confirmed, unused_results
from hotlap.seam.probe.grown import Grown, grown_lines
from hotlap.seam.probe.line_work import (
    Backward,
    Behind,
    backward_by_line,
    operators_by_line,
    own_operators,
    replaceable,
    take_least,
)
from hotlap.seam.probe.matrices import Matrices
from hotlap.seam.probe.pieces import Piece, Pieces, called_one_by_one
from hotlap.seam.probe.products import Chain, Products, summed_pairs
from hotlap.seam.probe.repeats import (
    DETACH,
    LITTLE,
    PLAIN,
    Place,
    Twins,
    address,
    marked_lines,
    parametrized_work,
    repeated_lines,
    standing_for,
)
from hotlap.seam.probe.transforms import slow_length
from hotlap.seam.probe.unused import Result, Uses, unused_rows
from hotlap.seam.probe.zeros import zeros_for_each
from hotlap.seam.rows import picks_rows
from hotlap.seam.where import Lines, modules, users_lines

FEW = 16
"""Elements up to which a tensor of the CPU is compared by its values."""
_FILLING = ("zeros", "ones", "full", "empty", "empty_strided")
FILLS = {f"aten.{form}" for name in _FILLING for form in (name, f"{name}_like", f"new_{name}")}
"""Operators whose result, more often than not, is there to be written into, also by NumPy."""
MOST = 5000
"""Operators of a step that are followed; of those to come only lines and times are noted: to follow
one takes far longer than to run a small one, and the profile has a budget."""
FOLLOWED = LATER = 3
"""Steps that are compared after the warm-up, and at the run's end."""
DEEPEST = 32
INDEX, CONVOLUTION = torch.ops.aten.index.Tensor, torch.ops.aten.convolution.default
CALLS_MODE = frozenset({"torch._compile", "torch._dynamo.eval_frame"})
DIFFERENTIATES = "torch._functorch.eager_transforms"
PARAMETRIZES = "torch.nn.utils.parametrize"


class _VariesError(Exception):
    """What an operator reads is not known to be the same at every step."""


@dataclass(eq=False)
class _Run:
    """An operator that ran: the user's lines, the innermost first, `func` and its seconds.

    `call`: the instruction of a frame that ran it. `followed`: whether the rest is known. `name`
    tells it from the others of its step: lines, signature, and how often both had come. `checksums`
    of its result, None where they are not known. `idle`: it makes a view, or memory that holds one
    number, so that there is nothing to save. `before`: of each memory that it makes a view of, or
    writes to, the operator that did so last. `twin`, `differentiated` and `parametrized` are for
    what a step does twice: see `repeats`; `result` for what it does in vain: see `unused`; `copies`
    for what it does for copies: see `copies`; `known`: see `grown`; `sparse`: see `zeros`;
    `slow_length`: see `transforms`; `matrix_copies`: see `matrices`; `pairs`: see `products`;
    `piece`: see `pieces`; `replaceable`: see `line_work`; `kept`, `made` and `reads`: see
    `discarded`.
    """

    lines: Lines
    func: OpOverload[..., object]
    call: tuple[int, int]
    followed: bool = True
    signature: int | None = None
    name: Hashable = None
    seconds: float = 0.0
    checksums: Checksums | None = None
    idle: bool = False
    replaceable: str = ""
    writes: bool = False
    twin: Hashable = None
    differentiated: bool = False
    parametrized: bool = False
    result: Result | None = None
    copies: float = 0.0
    known: float = 0.0
    sparse: int = 0
    slow_length: int = 0
    matrix_copies: int = 0
    pairs: Chain | None = None
    piece: Piece | None = None
    kept: bool = False
    made: list[StorageWeakRef] = field(default_factory=list)
    reads: list["_Run"] = field(default_factory=list)
    before: list["_Run"] = field(default_factory=list)


class Invariants(Diagnosis):
    """Follows steps along the other diagnoses.

    `value` is a dictionary: `invariants` are the lines with invariant work, `in_vain` those with
    other work that need not be done, by its kind, `unused` those of whose results little is used,
    `pairs` those that sum up an element for each pair, `by_line` what ran from each line, `own` the
    operators of the lines themselves, `backward` the lines by their part of the backward pass,
    `ran` the names of all operators, `index_select` and `fft_convolution` what these techniques
    would replace.
    """

    name = "invariants"

    def __init__(self, rec: Followed) -> None:
        super().__init__(rec)
        self._followed = _Signatures()
        self._steps: list[list[_Run]] = []
        self._behind: list[list[Behind]] = []
        self._discarded: list[list[Avoidable]] = []
        self._count = 0
        self._found: list[Invariant] = []
        self._began = self._lasted = 0.0

    def begin(self) -> None:
        """Follow a step: the first, or the one by which what was found is confirmed."""
        self.enter(self._followed)
        self._followed.off = False
        self._began = time.perf_counter()

    def between(self) -> None:
        """Follow the next step, until it is enough of them."""
        if self._followed.off:
            self.leave()
            return
        now = time.perf_counter()
        self._began, self._lasted = now, now - self._began
        self._take()
        if self._count < FOLLOWED:
            named = (run.name for run in self._steps[-1] if run.signature is not None)
            self._followed.expected = set(named)
        else:
            self.end()
            self._judge()

    def _take(self) -> None:
        """Take what ran in the step that has ended; of the first steps the last two suffice."""
        self._discarded.append(self._followed.discarded())
        runs, behind = self._followed.restart()
        self._steps.append(runs)
        self._behind.append(behind)
        self._count += 1
        if self._count == FOLLOWED:
            del self._steps[:-2], self._behind[:-2]

    @property
    def uncertain(self) -> bool:
        """Whether something was found, and later steps could still contradict it."""
        return bool(self._found) and self._count < FOLLOWED + LATER

    def confirm(self) -> None:
        """A later step is over: what it contradicts was the same by chance, or for a while."""
        self._take()
        self._judge()

    def _judge(self) -> None:
        before, runs, *later = self._steps
        _, behind, *_ = self._behind
        take_least(self._steps)
        take_least(self._behind)
        with _disable_current_modes():  # the program may have one on
            found = invariant_lines(runs, before, *later)
        enough = len(later) == LATER
        self._found = [
            replace(one, step=self._lasted, confirmed=one.confirmed and enough) for one in found
        ]
        self.value = {
            "invariants": self._found,
            "in_vain": {
                "repeated_in_step": repeated_lines(runs),
                "parametrized_weights": parametrized_work(runs),
                "copied_work": copied_work(runs, before),
                "grown_work": grown_lines(runs, before),
                "unused_results": confirmed(self._discarded),
                "sparse_product": marked_lines(runs, before, "sparse"),
                "fft_length": marked_lines(runs, before, "slow_length"),
                "called_one_by_one": called_one_by_one(runs, before),
                "picked_matrices": marked_lines(runs, before, "matrix_copies"),
            },
            "unused": unused_rows(runs, before), "pairs": list(summed_pairs(runs)),
            "by_line": operators_by_line(runs, behind), "own": own_operators(runs),
            "backward": backward_by_line(behind),
            "ran": {str(run.func._overloadpacket) for run in runs},
            "index_select": replaceable("index_select", runs, behind),
            "fft_convolution": replaceable("fft_convolution", runs, behind),
        }  # fmt: skip
        if not self.uncertain:
            self.end()
            self._steps, self._behind, self._followed = [], [], _Signatures()

    def end(self) -> None:
        """Follow no further step."""
        self._followed.off = True
        self.leave()


class _Signatures(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operator; of backward passes only for which lines they work."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.off = True
        self.expected: set[Hashable] = set()
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._numbers = 0
        self._checksum = Checksum()
        self._apart = Apart()
        self._grown = Grown()
        self._forget()

    def discarded(self) -> list[Avoidable]:
        """The lines with results that nothing has used in the step that ends now."""
        return [] if self._missed else list(unused_results(self._runs, self._backward.reached))

    def restart(self) -> tuple[list[_Run], list[Behind]]:
        """A step is over: what ran in it, outside of its backward passes and in them."""
        runs, behind = self._runs, self._backward.ran
        for run in runs:
            run.made, run.reads = [], []
            run.result = None if self._missed else run.result
        self._grown.restart()
        self._forget()
        return runs, behind

    def _forget(self) -> None:
        self._runs: list[_Run] = []
        self._backward = Backward()
        self._came: Counter[Hashable] = Counter()
        self._made: dict[int, tuple[weakref.ref[torch.Tensor], int | None]] = {}
        self._last: dict[int, _Run] = {}
        self._varying: set[int] = set()
        self._twins = Twins(self._number)
        self._uses = Uses()
        self._copies = Copies()
        self._products = Products()
        self._matrices = Matrices()
        self._pieces = Pieces()
        self._reads = Reads()
        self._missed = False  # an operator whose reads are not known

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one operator, and note it."""
        kwargs = kwargs or {}
        plain = isinstance(func, OpOverload)  # not torch.cond, nor flex_attention
        if self.off or not plain:
            self._missed |= not plain
            result = func(*args, **kwargs)
            if plain:
                self._apart.note(func, result)
            return result
        if torch._C._current_graph_task_id() != -1:
            return self._backward.run(func, args, kwargs)
        frame = _caller(sys._getframe(1))
        run = _Run(users_lines(frame, DEEPEST), func, (id(frame), frame.f_lasti))
        run.replaceable = _replaced_by(func, args)
        self._backward.precedes(run)
        run.followed = len(self._runs) < MOST
        if run.followed:
            self._identify(run, frame, args, kwargs)
        began = time.perf_counter()
        result = func(*args, **kwargs)
        run.seconds = time.perf_counter() - began
        self._apart.note(func, result)
        self._runs.append(run)
        try:
            if run.followed:
                self._note(run, frame, args, kwargs, result)
            else:
                self._missed = True
        except Exception:  # a tensor that is odd: the program goes on
            self._missed = True
        return result

    def _identify(
        self, run: _Run, frame: FrameType, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Find what stands for an operator, before it runs."""
        func = run.func
        run.idle = getattr(func, "is_view", False) or str(func._overloadpacket) in FILLS
        around = modules(frame)
        run.parametrized = PARAMETRIZES in around
        with suppress(Exception):  # _VariesError, or a tensor that is odd: the program goes on
            run.signature = None if _differentiates(around) else self._signature(func, args, kwargs)
            self._came[run.lines, run.signature] += 1
            run.name = (run.lines, run.signature, self._came[run.lines, run.signature])
        run.twin = self._twins.of(func, args, kwargs)

    def _signature(self, func: OpOverload[..., object], args: object, kwargs: object) -> int | None:
        """The operator's signature; None where its result may differ at the next step."""
        if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
            return None
        read = _tensors((args, kwargs))
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in read):
            return None
        if func is DETACH:
            return hash(self._of(read[0]))
        return hash((func, self._key(args), self._key(kwargs)))

    def _key(self, value: object) -> Hashable:
        """What stands for an argument in a signature."""
        if isinstance(value, torch.Tensor):
            return self._of(value)
        if isinstance(value, dict):
            return tuple((name, self._key(each)) for name, each in value.items())
        if isinstance(value, (list, tuple)):
            return tuple(self._key(each) for each in value)
        if not isinstance(value, PLAIN):  # a storage, whose bytes would be read one by one
            raise _VariesError
        return type(value), repr(value)  # -1 and -2 have the same hash

    def _of(self, tensor: torch.Tensor) -> Hashable:
        """What stands for a tensor."""
        made = self._made.get(id(tensor))
        if made is not None and made[0]() is tensor:
            if made[1] is None or address(tensor) in self._varying:
                raise _VariesError
            return made[1]
        if type(tensor) not in PLAIN_TENSORS:  # to read it may communicate
            raise _VariesError
        if tensor.device.type == "cpu" and tensor.numel() <= FEW:
            return tensor.dtype, tensor.shape, str(tensor.tolist())
        return self._number(tensor), tensor._version

    def _number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor that was there before the step; no other gets the same.

        A parameter goes by its address: `swap_tensors` refuses one that has weak references.
        """
        if isinstance(tensor, torch.nn.Parameter):
            return id(tensor)
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            self._numbers += 1
            known = self._known[id(tensor)] = (weakref.ref(tensor), self._numbers)
        return known[1]

    def _note(
        self,
        run: _Run,
        caller: FrameType,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        result: object,
    ) -> None:
        """Remember what the operator has made and written to."""
        func = run.func
        written = _tensors(list(_written(func, args, kwargs)))
        for tensor in written:
            self._write(tensor, run)
            self._twins.wrote(tensor)
        given = _tensors((args, kwargs))
        run.differentiated = torch.is_grad_enabled() and any(one.requires_grad for one in given)
        given, results = _strided(given), _strided(_tensors(result))
        self._twins.made(results, run.twin)
        there, given_back = _by_address(given), _by_address(results)
        self._uses.note(run, args, there, given_back)
        self._reads.note(run, there, given_back, written)
        wrote = {*map(address, _strided(written)), *(given_back.keys() - there.keys())}
        self._pieces.note(run, caller, args, there, wrote, len(self._backward.ran))
        if not run.idle:
            run.copies = self._copies.of(func, given, results)
            run.known = self._grown.part_known(run.lines, func, results)
            run.sparse, run.slow_length = zeros_for_each(func, args), slow_length(func, args)
            self._products.note(run, func, given, results)
            self._matrices.note(run, func, given, results)
        for tensor in results:
            if not any(tensor is one for one in written):
                self._make(tensor, run, fresh=address(tensor) not in there)
        if run.name in self.expected:
            view = getattr(func, "is_view", False)
            made = () if view else [one for one in results if one.numel()]
            run.checksums = tuple(sum_ for one in made for sum_ in self._checksum.of(one))

    def _make(self, tensor: torch.Tensor, run: _Run, *, fresh: bool) -> None:
        at = address(tensor)
        if fresh:
            self._last.pop(at, None)
            self._varying.discard(at)
        self._made[id(tensor)] = (weakref.ref(tensor), run.signature)
        self._touch(at, run)

    def _write(self, tensor: torch.Tensor, run: _Run) -> None:
        made, at = self._made.get(id(tensor)), address(tensor)
        if made is None or made[0]() is not tensor:
            self._last.pop(at, None)  # of memory that is freed by now
        run.writes = True
        self._touch(at, run)
        if run.signature is None:
            self._varying.add(at)

    def _touch(self, at: int, run: _Run) -> None:
        last = self._last.get(at)
        if last is not None and last is not run:
            run.before.append(last)
        self._last[at] = run


def _caller(frame: FrameType) -> FrameType:
    """The frame that called an operator, behind those in which torch calls the mode."""
    while frame.f_globals.get("__name__") in CALLS_MODE and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _differentiates(around: Sequence[str]) -> bool:
    """Whether an operator is differentiated though its tensors do not say so: by torch.func.

    `around`: the modules whose functions call it.
    """
    return forward_ad._current_level >= 0 or DIFFERENTIATES in around


def _written(
    func: OpOverload[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> Iterator[object]:
    """The arguments that an operator writes to."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            by_name = kwargs.get(argument.name)
            yield args[position] if position < len(args) else by_name


def _replaced_by(func: OpOverload[..., object], args: tuple[object, ...]) -> str:
    """The technique that would replace an operator; empty if none would."""
    match args:
        case (torch.Tensor() as tensor, [index]) if func is INDEX and picks_rows(tensor, index):
            return "index_select"
        case _ if func is CONVOLUTION and long_kernels(args):
            return "fft_convolution"
    return ""


def _strided(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Those with memory of their own: a sparse tensor has parts that have."""
    return [one for one in tensors if one.layout is torch.strided]


def _tensors(values: object) -> list[torch.Tensor]:
    """The tensors among values, looking into the containers that operators take and give."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in _tensors(value)]
    return []


def _by_address(tensors: list[torch.Tensor]) -> dict[int, list[torch.Tensor]]:
    found: dict[int, list[torch.Tensor]] = defaultdict(list)
    for tensor in tensors:
        found[address(tensor)].append(tensor)
    return dict(found)


def invariant_lines(*steps: list[_Run]) -> list[Invariant]:
    """The lines of the user's with work that the step before did as well, and each later one.

    `steps`: the one that is looked at, the one before it, and later ones. A line all of whose
    operators are invariant stands for all that it calls.
    """
    runs, before, *later = ([run for run in step if run.func is not DETACH] for step in steps)
    same = set(_same(runs, before))
    seen_again: set[_Run] = set()
    for step in later:
        again, lines = set(_same(runs, step)), {run.lines for run in step}
        same = {run for run in same if run in again or run.lines not in lines}
        seen_again |= again
    invariant = _with_unfollowed(runs, set(_kept(runs, same)))
    mixed = {place for run in runs if run not in invariant for place in run.lines}
    chosen: dict[Place, float] = defaultdict(float)
    confirmed: set[Place] = set()
    for run in invariant:
        if run.lines:
            place = standing_for(run.lines, mixed)
            chosen[place] += 0.0 if run.idle else run.seconds
            confirmed.update((place,) if run in seen_again else ())
    least = LITTLE * sum(run.seconds for run in runs)
    found = [
        replace(_told(block, chosen, in_part=block[0] in mixed), confirmed=set(block) <= confirmed)
        for block in _blocks(chosen, mixed)
    ]
    return [one for one in found if one.seconds >= least]


def _with_unfollowed(runs: list[_Run], invariant: set[_Run]) -> set[_Run]:
    """The invariant operators, and those not followed from lines whose others all are."""
    varying = {run.lines for run in runs if run.followed and run not in invariant}
    lines = {run.lines for run in invariant} - varying
    return invariant | {run for run in runs if not run.followed and run.lines in lines}


def _same(runs: list[_Run], others: list[_Run]) -> Iterator[_Run]:
    """The operators of a step that had the same signature, place and result in another step."""
    then = {run.name: run for run in others if run.signature is not None}
    return (run for run in runs if (other := then.get(run.name)) and _alike(run, other))


def _kept(runs: list[_Run], same: set[_Run]) -> Iterator[_Run]:
    """The same operators but for those in whose memory others come to lie."""
    lost: set[_Run] = set()
    for run in reversed(runs):
        if run in lost or (run.writes and run not in same):
            lost.update(run.before)
        elif run in same:
            yield run


def _alike(one: _Run, other: _Run) -> bool:
    return one.checksums is not None and agree(one.checksums, other.checksums)


def _blocks(chosen: dict[Place, float], mixed: set[Place]) -> list[list[Place]]:
    """The lines with invariant work, together where no other work lies on or between them."""
    blocks: list[list[Place]] = []
    open_to = None  # the function whose lines may join the last block
    for place in sorted({*chosen, *mixed}, key=lambda p: (p[0].co_filename, id(p[0]), p[1])):
        if place in mixed or open_to is not place[0]:
            blocks += [[place]] if place in chosen else []
        else:
            blocks[-1].append(place)
        open_to = None if place in mixed else place[0]
    return blocks


def _told(block: list[Place], seconds: dict[Place, float], *, in_part: bool) -> Invariant:
    code, costliest = max(block, key=lambda place: seconds[place])
    whole = sum(seconds[place] for place in block)
    place = (code.co_filename, costliest, block[0][1], block[-1][1])
    return Invariant(*place, whole, in_part=in_part)
