"""The operator that is checked: its file, its reference and the arguments it is called with."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload
from torch.autograd.function import BackwardCFunction, FunctionCtx

HALVES = (torch.bfloat16, torch.float16)


class SubjectError(Exception):
    """The file cannot be checked; the message says what it lacks."""


@dataclass
class Subject:
    """An operator and what it is held against.

    `arguments(rows, columns, dtype, generator)` draws the tensors of one call. `differentiable`:
    gradients are compared. `tolerance`: units in the last place allowed on top of what the
    reference itself loses in the same dtype.
    """

    name: str
    kernel: Callable[..., Tensor]
    reference: Callable[..., Tensor]
    arguments: Callable[..., Sequence[Tensor]]
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)
    differentiable: bool = True
    tolerance: float = 4.0
    device: str = "cpu"
    operator: OpOverload[..., object] | None = None

    def draw(
        self, rows: int, columns: int, dtype: torch.dtype, seed: int = 0, scale: float = 1.0
    ) -> list[Tensor]:
        """Arguments of one call; other seeds give other values."""
        generator = torch.Generator().manual_seed(1_000_003 * seed + rows + 7919 * columns)
        drawn = self.arguments(rows, columns, torch.float64, generator)
        return [
            (t * scale).to(dtype).to(self.device) if t.is_floating_point() else t.to(self.device)
            for t in drawn
        ]


def load(where: str) -> Subject:
    """Load `FILE[:NAME]`.

    Raises:
        SubjectError: the file, the operator or its reference is missing.
    """
    path, _, name = where.rpartition(":") if where.rpartition(":")[0] else (where, "", "")
    name = name or "kernel"
    file = Path(path)
    if not file.is_file():
        raise SubjectError(f"there is no file {path}")
    specification = importlib.util.spec_from_file_location(file.stem, file)
    if specification is None or specification.loader is None:
        raise SubjectError(f"{path} is not a Python file; load C++ and CUDA sources from one")
    module = importlib.util.module_from_spec(specification)
    sys.modules[file.stem] = module
    sys.path.insert(0, str(file.parent.resolve()))
    specification.loader.exec_module(module)
    for needed in (name, "reference"):
        if not hasattr(module, needed):
            raise SubjectError(
                f"{path} defines no {needed!r}: it needs `reference` (plain PyTorch, works in "
                "float64) and the operator, called `kernel` or named as FILE:NAME"
            )
    return from_module(module, name)


def from_module(module: ModuleType, name: str = "kernel") -> Subject:
    """Read the names that a file may define; see docs/kernels.md."""
    found, reference = getattr(module, name), module.reference
    device = getattr(module, "DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
    return Subject(
        name=name,
        kernel=_callable(found),
        reference=reference,
        arguments=getattr(module, "inputs", None) or _same_shape(reference),
        dtypes=tuple(getattr(module, "DTYPES", Subject.dtypes)),
        differentiable=bool(getattr(module, "DIFFERENTIABLE", True)),
        tolerance=float(getattr(module, "TOLERANCE_ULP", Subject.tolerance)),
        device=device,
        operator=_registered(found),
    )


def _callable(found: object) -> Callable[..., Tensor]:
    """A function as it is, `apply` of an autograd.Function, or a pair (forward, backward)."""
    if isinstance(found, type) and issubclass(found, torch.autograd.Function):
        return found.apply
    if isinstance(found, tuple) and len(found) == 2:
        return _pair(*found)
    if not callable(found):
        raise SubjectError(
            "the operator must be a function, a torch.autograd.Function or a pair "
            f"(forward, backward), not {type(found).__name__}"
        )
    return found


def _pair(forward: Callable[..., Tensor], backward: Callable[..., object]) -> Callable[..., Tensor]:
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx: FunctionCtx, *inputs: Tensor) -> Tensor:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: BackwardCFunction, grad: Tensor) -> object:
            return backward(grad, *ctx.saved_tensors)

    return Pair.apply


def _registered(found: object) -> OpOverload[..., object] | None:
    """The operator of torch.library, if it is one: `opcheck` takes no other."""
    if isinstance(found, CustomOpDef):
        return found._opoverload
    if isinstance(found, torch._ops.OpOverloadPacket):
        return found.default
    return found if isinstance(found, OpOverload) else None


def _same_shape(reference: Callable[..., Tensor]) -> Callable[..., Sequence[Tensor]]:
    """One matrix for each argument of the reference that has no default."""
    try:
        parameters = inspect.signature(reference).parameters.values()
        count = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    except ValueError:  # a function of torch's own, written in C
        count = 1

    def inputs(
        rows: int, columns: int, dtype: torch.dtype, generator: torch.Generator
    ) -> list[Tensor]:
        return [torch.randn(rows, columns, dtype=dtype, generator=generator) for _ in range(count)]

    return inputs
