"""Facts about the script, as the techniques' `needs` ask for them, and the places to point at.

Facts are gathered where they first show; the hot path only pays for looking into a set.
"""

import os
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from types import CodeType, FrameType

import torch
from torch.optim import Optimizer

from hotlap.core.move import Keyword
from hotlap.core.registry import technique
from hotlap.seam.moves import permits
from hotlap.seam.process import rank_and_world
from hotlap.seam.where import CALLERS, Lines, place, short, users_lines

TRIES = 16
EMPTY: frozenset[tuple[CodeType, int]] = frozenset()


class Facts:
    """`values` are the facts, `places` maps a kind of place to `file:line`.

    `asked_in_train_mode`: a model was called without gradients while in training mode.
    """

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.places: dict[str, str] = {}
        self._tries: dict[str, int] = {}
        self.settled: set[str] = set()
        self._evaluation: tuple[Lines, bool] | None = None
        self.asked_in_train_mode = False

    def note(self, name: str, value: object = True) -> None:
        """A fact was seen; a true one is not taken back."""
        if value or name not in self.values:
            self.values[name] = value

    def point(self, kind: str) -> None:
        """Remember the user's line that led here as the place of `kind`, the first time."""
        if kind in self.settled:
            return
        found = place()
        tries = self._tries[kind] = self._tries.get(kind, 0) + 1
        if found:
            self.places[kind] = found
        if found or tries >= TRIES:
            self.settled.add(kind)

    def look_at_evaluation(self, frame: FrameType, *, graded: bool) -> None:
        """A forward looks like an evaluation's; `confirm_evaluation` says whether it was one."""
        if found := users_lines(frame, CALLERS):
            self._evaluation = (found, graded)

    def forget_graded(self) -> None:
        """A forward that was looked at with gradients was no evaluation's."""
        if self._evaluation is not None and self._evaluation[1]:
            self._evaluation = None

    def confirm_evaluation(
        self, unused_at: Lines | None = None, trained_at: AbstractSet[tuple[CodeType, int]] = EMPTY
    ) -> None:
        """The step held an evaluation: the forward looked at last was part of it.

        `unused_at`: the lines that led to a forward in train mode, with gradients, that no backward
        used; `trained_at`: those that led to training forwards. What both go through (a helper that
        calls the model) is not the evaluation's place. `evaluated` is where the training asks for
        it: another line of a function that trains too, or the call of a trainer that does both.
        """
        if unused_at is not None:
            self._evaluation = (unused_at, True)
            self.note("eval_in_train_mode")
        if self._evaluation is not None and "evaluation" not in self.settled:
            lines, graded = self._evaluation
            own = next((one for one in lines if one not in trained_at), lines[0])
            self.places["evaluation"] = _named(own)
            self.places["evaluated"] = _named(_asks(lines, trained_at) or own)
            self.note("eval_with_grad", graded)
            self.note("evaluation")
            self.settled.add("evaluation")

    def made_double(self, kind: str) -> None:
        """Something was made float64 outside of the steps; `kind` names the fact and the place."""
        self.note(kind)
        self.point(kind)

    def copied(self, before: torch.Tensor, after: torch.Tensor, *, waits: bool) -> None:
        """A tensor was copied or converted in a step; looks at the first ones only."""
        seen = self._tries["copies"] = self._tries.get("copies", 0) + 1
        if seen >= 256:
            self.settled.add("copies")
        self.point("copy")
        if doubled(before, after):
            self.note("float64_copies")
            self.point("float64")
        if after.is_cuda and not before.is_cuda:
            self.note("h2d_blocking", waits)
            self.note("pinned" if before.is_pinned() else "pageable")
            self.point("h2d")


def _named(line: tuple[CodeType, int]) -> str:
    code, number = line
    return f"{short(code.co_filename)}:{number}"


def _asks(
    lines: Lines, trained_at: AbstractSet[tuple[CodeType, int]]
) -> tuple[CodeType, int] | None:
    """The innermost line that leads to an evaluation in a function that leads to training too."""
    training = {code for code, _ in trained_at}
    shared = [one for one in lines if one[0] in training]
    return next((one for one in shared if one not in trained_at), shared[0] if shared else None)


def doubled(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether a conversion made it float64."""
    return after.dtype == torch.float64 and before.dtype != torch.float64


def global_facts() -> dict[str, object]:
    """Torch's own settings at the moment."""
    cudnn = torch.backends.cudnn
    return {
        "fp32_matmul_full": _matmul_full(),
        "anomaly": torch.is_anomaly_enabled(),
        "autograd_profiler": torch.autograd._profiler_enabled(),  # type: ignore[attr-defined]
        "cudnn_benchmark_on": bool(cudnn.benchmark),
        "cudnn_deterministic": bool(cudnn.deterministic),
        "distributed": torch.distributed.is_available() and torch.distributed.is_initialized(),
        "threads": torch.get_num_threads(),
        "one_thread_fits": _one_thread_fits(),
        "interop_threads": torch.get_num_interop_threads(),
        "compiler": _compiler(),
        "fast_fp8": _capability() >= (8, 9),
        "fast_half": fast_half(),
        "fast_int8": _capability() >= (8, 0),
        "fragmented": _fragmented(),
        "alloc_conf": any(name in os.environ for name in ALLOCATOR),
    }


def _one_thread_fits() -> bool:
    """Whether each rank has one thread, and two would be more than there are cores."""
    _, world = rank_and_world()
    return torch.get_num_threads() == 1 and 2 * world > len(os.sched_getaffinity(0))


def contended(waited: float, *, cuda: bool) -> dict[str, object]:
    """Whether torch's threads spin where cores are short.

    `waited`: what they waited for a core, as a part of the time in which they were ready to run.
    """
    spin = os.environ.get("OMP_WAIT_POLICY", "").lower() != "passive"
    several = torch.get_num_threads() > 1 and not cuda
    found = several and spin and waited >= MIN_POOL_WAITED
    return {"threads_waited": waited, "contended_threads": found}


def _matmul_full() -> bool:
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # the script mixes torch's old and new settings
        return False


FRAGMENTED_RATIO = 1.3


def _fragmented() -> bool:
    """Whether the CUDA allocator reserved far more than tensors ever took.

    A caching allocator that fits well reserves 1.15 to 1.2 times what is live.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    taken = torch.cuda.max_memory_allocated()
    return taken > 0 and torch.cuda.max_memory_reserved() > FRAGMENTED_RATIO * taken


MIN_POOL_WAITED = 0.2
"""Part of the time in which threads were ready to run from which waits for a core matter."""
ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def fast_half() -> bool:
    """Whether 16-bit matrix products have hardware of their own: a GPU, AMX or AVX512-BF16."""
    cpu: object = torch.cpu
    tests = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return torch.cuda.is_available() or any(getattr(cpu, test, bool)() for test in tests)


def _capability() -> tuple[int, int]:
    """Return the compute capability of the current CUDA device; (0, 0) without one."""
    return torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0)


def _compiler() -> bool:
    """Whether torch.compile would find what it needs to generate code."""
    import importlib.util
    import shutil

    if torch.cuda.is_available():
        return importlib.util.find_spec("triton") is not None
    names = (os.environ.get("CXX", ""), "g++", "c++", "clang++")
    return any(name and shutil.which(name) for name in names)


def optimizer_facts(
    optimizers: list[Optimizer], models: Iterable[torch.nn.Module]
) -> dict[str, object]:
    """Whether the optimizers run their fused implementation, where it takes their gradients.

    No fused kernel takes sparse gradients, as `nn.Embedding(sparse=True)` makes them.
    """
    sparse = {
        id(parameter)
        for model in models
        for layer in model.modules()
        if getattr(layer, "sparse", False) is True
        for parameter in layer.parameters(recurse=False)
    }
    able = [
        o for o in optimizers
        if "fused" in o.defaults and _may_be_fused(o) and not _any_sparse(o, sparse)
    ]  # fmt: skip
    return {
        "optimizer_unfused": any(not g.get("fused") for o in able for g in o.param_groups),
        "optimizers": len(optimizers),
        "optimizer_names": sorted({type(o).__name__ for o in optimizers}),
    }


def idle_groups(optimizers: Iterable[Optimizer]) -> dict[int, int]:
    """The groups whose learning rate is 0, by identity, with how many parameters they train."""
    return {
        id(group): sum(p.numel() for p in group["params"] if p.requires_grad)
        for optimizer in optimizers
        for group in optimizer.param_groups
        if isinstance(rate := group.get("lr"), int | float) and rate == 0
    }


def zero_rate(optimizers: Iterable[Optimizer], before: Collection[int]) -> float:
    """The part of the parameters whose learning rate is 0, and was when they were first optimized.

    0 where that is so of all: a schedule may begin and end with it.
    """
    optimizers = list(optimizers)
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    total = sum(p.numel() for group in groups for p in group["params"] if p.requires_grad)
    still = sum(n for group, n in idle_groups(optimizers).items() if group in before)
    return still / total if still < total else 0.0


def _may_be_fused(optimizer: Optimizer) -> bool:
    """Whether `fused_optimizer` would have changed the call that made it."""
    arguments = {**optimizer.defaults, "self": optimizer}
    moves = technique("fused_optimizer").moves
    return all(permits(move, arguments) for move in moves if isinstance(move, Keyword))


def _any_sparse(optimizer: Optimizer, known: set[int]) -> bool:
    return any(
        id(parameter) in known or (parameter.grad is not None and parameter.grad.is_sparse)
        for group in optimizer.param_groups
        for parameter in group["params"]
    )
