"""The checks of an operator. Each returns the failures that it found, as text."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

from hotlap.kernels.check.memory import Watched, guarded
from hotlap.kernels.check.subject import HALVES, Subject

SHAPES = ((1, 1), (3, 7), (5, 127), (4, 128), (2, 1031), (64, 1024), (7, 4099), (0, 8), (257, 33))
"""Rows and columns: one element, primes, powers of two and their neighbours, no rows."""
LONG = (3, 8192)
"""A row that is long enough for a sum in 16 bits to lose most of it."""
REPEATS = 12
NARROW, WRONG = 1e-12, 1e-5
"""Relative errors of float64 input: beyond the first it is computed in fewer bits, beyond the
second it is wrong."""


@dataclass(frozen=True)
class Outcome:
    """One check: whether it passed, what it saw, or why it was skipped."""

    check: str
    passed: bool
    detail: str = ""
    skipped: bool = False

    def row(self) -> dict[str, object]:
        """As JSON holds it."""
        return asdict(self)


def examine(subject: Subject) -> Iterator[tuple[str, Callable[[], Outcome]]]:
    """Yield each check's name and the check, so that a crash can be ascribed to one.

    The memory bounds come first: an operator that leaves them is not called again.
    """
    failed: set[str] = set()
    for name, check in CHECKS.items():
        yield name, partial(_run, name, check, subject, failed)
        if "memory bounds" in failed:
            return


def _run(
    name: str, check: Callable[[Subject], Iterator[str]], subject: Subject, failed: set[str]
) -> Outcome:
    outcome = _outcome(name, check, subject)
    if not outcome.passed:
        failed.add(name)
    return outcome


def _outcome(name: str, check: Callable[[Subject], Iterator[str]], subject: Subject) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failure = next(check(subject), "")
    except Skipped as reason:
        return Outcome(name, True, str(reason), skipped=True)
    except Exception as error:
        line = str(error).strip().partition("\n")[0]
        return Outcome(name, False, f"raised {type(error).__name__}: {line}")
    return Outcome(name, not failure, failure)


class Skipped(Exception):  # noqa: N818  # not an error
    """The check does not apply, and why."""


# Comparing with float64


def wide(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same values in float64."""
    return [t.double() if t.is_floating_point() else t for t in tensors]


def difference(subject: Subject, given: Sequence[Tensor], found: Tensor) -> str:
    """How a value differs from the reference by more than its dtype explains; empty if not."""
    exact = subject.reference(*wide(given))
    plain = subject.reference(*_at_least_single(given))
    return _judged(found, exact, plain, subject.tolerance, given[0].dtype)


def _at_least_single(tensors: Sequence[Tensor]) -> list[Tensor]:
    """16-bit operators must accumulate in float32: they are held against the float32 formula."""
    return [t.float() if t.dtype in HALVES else t for t in tensors]


def _judged(
    found: Tensor,
    exact: Tensor,
    plain: Tensor,
    tolerance: float,
    dtype: torch.dtype,
    spare: float = 0.0,
) -> str:
    if found.shape != exact.shape:
        return f"shape {tuple(found.shape)}, must be {tuple(exact.shape)}"
    if found.dtype != dtype:
        return f"dtype {found.dtype}, must be {dtype}"
    if not found.numel():
        return ""
    limit, found, plain = torch.finfo(dtype), found.double(), plain.double()
    ordinary = torch.isfinite(exact) & torch.isfinite(plain) & (exact.abs() < limit.max)
    lost = ~torch.isfinite(found) & ordinary
    gained = (torch.isfinite(found) | (found.isinf() & exact.isnan())) & (
        exact.isnan() & plain.isnan()
    )
    if lost.any() or gained.any():
        where = (lost | gained).nonzero()[0].tolist()
        return f"{found[tuple(where)]:g} at {where}, must be {exact[tuple(where)]:g}"
    error = torch.where(ordinary, (found - exact).abs(), 0)
    own = torch.where(ordinary, (plain - exact).abs(), 0).max() + spare
    size = torch.where(ordinary, exact.abs(), 0)
    row = size.amax(-1, keepdim=True) if size.ndim else size
    allowed = limit.eps * (tolerance * size + 0.5 * row) + 2 * own + limit.tiny
    excess = error / allowed
    if excess.max() <= 1:
        return ""
    where = list(map(int, torch.unravel_index(excess.argmax(), excess.shape)))
    at = tuple(where)
    return f"{found[at]:.6g} at {where}, must be {exact[at]:.6g}"


def called(subject: Subject, given: Sequence[Tensor]) -> Tensor:
    """The operator's output, apart from autograd."""
    with torch.no_grad():
        return subject.kernel(*given)


def _about(given: Sequence[Tensor]) -> str:
    return f"{tuple(given[0].shape)} {str(given[0].dtype).removeprefix('torch.')}"


# The checks


def values(subject: Subject) -> Iterator[str]:
    """Random values, on shapes of one element, primes, powers of two and no rows."""
    for dtype in subject.dtypes:
        for index, shape in enumerate(SHAPES):
            given = subject.draw(*shape, dtype, seed=index)
            if wrong := difference(subject, given, called(subject, given)):
                yield f"{_about(given)}: {wrong}"


def accumulation(subject: Subject) -> Iterator[str]:
    """Long rows of values of one sign in 16 bits, which only a wider sum adds up."""
    halves = [dtype for dtype in subject.dtypes if dtype in HALVES]
    if not halves:
        raise Skipped("no 16-bit dtype in DTYPES")
    for dtype in halves:
        given = subject.draw(*LONG, dtype)
        given = [t.abs() if t.is_floating_point() else t for t in given]
        if wrong := difference(subject, given, called(subject, given)):
            yield f"{_about(given)}: {wrong}"


def edge_values(subject: Subject) -> Iterator[str]:
    """Zeros, constants, subnormal, tiny and large values, NaN and infinities."""
    nan, inf = float("nan"), float("inf")
    for dtype in subject.dtypes:
        for scale in (0.0, 1e-40, 1e-6, 1e-3, 30.0, 1e4):
            given = subject.draw(6, 67, dtype, scale=scale)
            given[1:] = subject.draw(6, 67, dtype)[1:]
            if wrong := difference(subject, given, called(subject, given)):
                yield f"values of about {scale:g}, {_about(given)}: {wrong}"
        for value in (nan, inf, -inf):
            given = subject.draw(6, 67, dtype)
            given[0][2, 5] = given[0][4, 66] = value
            if wrong := difference(subject, given, called(subject, given)):
                yield f"{value} in the input, {_about(given)}: {wrong}"


def layouts(subject: Subject) -> Iterator[str]:
    """Transposed, strided, expanded and offset inputs."""
    for dtype in subject.dtypes:
        for name, change in LAYOUTS.items():
            drawn = subject.draw(12, 34, dtype)
            given = [change(t) if t.ndim == 2 else t for t in drawn]
            if wrong := difference(subject, given, called(subject, given)):
                yield f"{name} input, {_about(given)}: {wrong}"


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda t: t.mT.contiguous().mT,
    "strided": lambda t: torch.stack((t, -t), -1)[..., 0],
    "offset": lambda t: torch.cat((t[:1] + 1, t))[1:],
    "huge-stride": lambda t: t.new_zeros(t.shape[0], t.shape[1] * 300)[:, ::300].copy_(t),
    "expanded": lambda t: t[:1].expand_as(t),
}


def gradients(subject: Subject) -> Iterator[str]:
    """Gradients against float64, also for an expanded and a transposed incoming gradient."""
    if not subject.differentiable:
        raise Skipped("DIFFERENTIABLE = False")
    for dtype in subject.dtypes:
        for rows, columns in ((5, 127), (8, 64)):
            for name, incoming in INCOMING.items():
                given = subject.draw(rows, columns, dtype)
                if wrong := _gradient_difference(subject, given, incoming):
                    yield f"{name} incoming gradient, {_about(given)}: {wrong}"


INCOMING: dict[str, Callable[[Tensor], Tensor]] = {
    "random": lambda out: torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape),
    "expanded": lambda out: out.new_ones(()).expand(out.shape),
    "transposed": lambda out: (
        torch.linspace(-2, 1, out.numel(), dtype=out.dtype)
        .view(out.shape[::-1])
        .permute(*reversed(range(out.ndim)))
    ),
}


def _gradient_difference(
    subject: Subject, given: Sequence[Tensor], incoming: Callable[[Tensor], Tensor]
) -> str:
    def graded(
        tensors: Sequence[Tensor], function: Callable[..., Tensor], nudge: float = 0.0
    ) -> list[Tensor]:
        leaves = [
            t.detach().clone().requires_grad_() if t.is_floating_point() else t for t in tensors
        ]
        out = function(*leaves)
        if not out.requires_grad:
            raise ValueError("the output has no gradient; set DIFFERENTIABLE = False if meant")
        grad = incoming(torch.empty(out.shape, dtype=given[0].dtype)).to(out)
        if nudge:
            signs = torch.arange(grad.numel(), device=grad.device) % 2 * 2 - 1
            grad = grad * (1 + nudge * signs.view(grad.shape))
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return list(torch.autograd.grad(out, wanted, grad, materialize_grads=True))

    exact = graded(wide(given), subject.reference)
    plain = graded(_at_least_single(given), subject.reference)
    found = graded(given, subject.kernel)
    # A backward may start from a rounded output, and where the terms of a sum cancel, a rounding
    # in each of them is all that is left.
    near = (
        graded(given, subject.reference),
        graded(wide(given), subject.reference, torch.finfo(given[0].dtype).eps),
    )
    for index, (mine, right, wider) in enumerate(zip(found, exact, plain, strict=True)):
        spare = max(_largest(grads[index].double() - right) for grads in near)
        if wrong := _judged(mine, right, wider, subject.tolerance, given[0].dtype, spare):
            return f"of argument {index}: {wrong}"
    return ""


def _largest(tensor: Tensor) -> float:
    return tensor.abs().nan_to_num().max().item() if tensor.numel() else 0.0


def float64_gradients(subject: Subject) -> Iterator[str]:
    """torch.autograd.gradcheck and gradgradcheck in float64, where the operator takes it."""
    if not subject.differentiable:
        raise Skipped("DIFFERENTIABLE = False")
    given = subject.draw(3, 5, torch.float64)
    try:
        found = called(subject, given)
    except Exception as error:
        raise Skipped(f"the operator does not take float64 ({type(error).__name__})") from None
    exact = subject.reference(*given)
    off = _largest(found - exact) / max(_largest(exact), torch.finfo(torch.float64).tiny)
    if off > WRONG:
        yield f"values in float64 are off by {off:.1g}"
    if off > NARROW:
        raise Skipped(f"float64 input is computed in fewer bits (relative error {off:.1g})")
    given = [t.requires_grad_() if t.is_floating_point() else t for t in given]
    try:
        gradcheck(subject.kernel, given, atol=1e-5)
    except GradcheckError as error:
        yield str(error).partition("\n")[0]
    if not _twice_differentiable(subject, given):
        return
    try:
        gradgradcheck(subject.kernel, given, atol=1e-4)
    except GradcheckError as error:
        seen = str(error).partition("\n")[0].rstrip(" ,:")
        yield (
            f"second derivative: {seen}; put torch.autograd.function.once_differentiable on "
            "backward, or compute again there what forward saved"
        )


def _twice_differentiable(subject: Subject, given: Sequence[Tensor]) -> bool:
    """Whether the operator offers a second derivative; to refuse one is an honest answer."""
    out = subject.kernel(*given)
    incoming = torch.ones_like(out).requires_grad_()
    wanted = [t for t in given if t.requires_grad]
    found = torch.autograd.grad(out, wanted, incoming, create_graph=True, allow_unused=True)
    graded = [g.sum() for g in found if g is not None and g.requires_grad]
    if not graded:
        return False
    try:  # a gradient is linear in the incoming one: no path to it means `once_differentiable`
        (again,) = torch.autograd.grad(graded, incoming, allow_unused=True)
    except RuntimeError:
        return False
    return again is not None


def repeated(subject: Subject) -> Iterator[str]:
    """The same input gives the same bits, whatever the number of threads."""
    threads = torch.get_num_threads()
    for dtype in subject.dtypes:
        given = subject.draw(64, 1031, dtype)
        first = called(subject, given)
        try:
            for turn in range(REPEATS):
                torch.set_num_threads(1 + turn % max(threads, 2))
                if not _same(first, called(subject, given)):
                    yield f"{_about(given)}: call {turn + 2} gave other bits"
        finally:
            torch.set_num_threads(threads)


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def state_between_calls(subject: Subject) -> Iterator[str]:
    """Values changed in place, in the same memory, change the result."""
    for dtype in subject.dtypes:
        given, other = subject.draw(9, 65, dtype), subject.draw(9, 65, dtype, seed=1)
        called(subject, given)
        called(subject, given)
        for change in ("one value", "all values"):
            if change == "one value":
                given[0][-1, -1] += 3
            else:
                for mine, new in zip(given, other, strict=True):
                    mine.copy_(new)
            if wrong := difference(subject, given, called(subject, given)):
                yield f"{change} changed in place, {_about(given)}: {wrong}"


def uninitialised(subject: Subject) -> Iterator[str]:
    """`torch.empty` returns poison: results must not depend on it."""
    for dtype in subject.dtypes:
        for shape in ((5, 127), (64, 1024)):
            for poison in (float("nan"), 3.0):
                given = subject.draw(*shape, dtype)
                with Watched(poison):
                    found = called(subject, given)
                if wrong := difference(subject, given, found):
                    yield f"memory holding {poison}, {_about(given)}: {wrong}"


def bounds(subject: Subject) -> Iterator[str]:
    """Nothing is written beside an output; inputs border on pages that cannot be touched."""
    cases = [subject.draw(*shape, dtype) for dtype in subject.dtypes for shape in BORDERED]
    for given in cases:
        with Watched(0.0) as watched:
            called(subject, given)
        if watched.overrun():
            yield f"{_about(given)}: wrote outside of its output"
    for given in cases if subject.device == "cpu" else ():
        for behind in (True, False):
            with ExitStack() as stack:
                near = [stack.enter_context(guarded(t, behind=behind)) for t in given]
                with Watched(0.0):
                    called(subject, near)
                del near


BORDERED = ((1, 1), (3, 7), (5, 127), (16, 64), (2, 1031))


def inputs_unchanged(subject: Subject) -> Iterator[str]:
    """Inputs keep their values, and the output is memory of its own."""
    for dtype in subject.dtypes:
        given = subject.draw(9, 65, dtype)
        before = [t.clone() for t in given]
        found = called(subject, given)
        for index, (now, then) in enumerate(zip(given, before, strict=True)):
            if not _same(now, then):
                yield f"argument {index} was changed"
            if found.untyped_storage().data_ptr() == now.untyped_storage().data_ptr():
                yield f"the output is memory of argument {index}"


def opcheck(subject: Subject) -> Iterator[str]:
    """torch.library.opcheck, for an operator that is registered there."""
    if subject.operator is None:
        raise Skipped("not registered through torch.library")
    given = [
        t.requires_grad_(subject.differentiable) if t.is_floating_point() else t
        for t in subject.draw(4, 6, torch.float32)
    ]
    results = torch.library.opcheck(subject.operator, tuple(given), raise_exception=False)
    for name, result in results.items():
        if result != "SUCCESS":
            yield f"{name}: {str(result).strip().partition(chr(10))[0]}"


CHECKS: dict[str, Callable[[Subject], Iterator[str]]] = {
    "memory bounds": bounds,
    "values": values,
    "edge values": edge_values,
    "layouts": layouts,
    "16-bit accumulation": accumulation,
    "gradients": gradients,
    "gradcheck": float64_gradients,
    "deterministic": repeated,
    "state between calls": state_between_calls,
    "uninitialised memory": uninitialised,
    "inputs unchanged": inputs_unchanged,
    "opcheck": opcheck,
}
