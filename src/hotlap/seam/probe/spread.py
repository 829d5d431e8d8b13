"""How a model is spread over ranks or devices: facts about DDP, and what DataParallel costs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from time import perf_counter

from torch.nn import DataParallel, Module
from torch.nn.parallel import DistributedDataParallel

from hotlap.seam.ddp import parallel_models
from hotlap.seam.patch import replaced
from hotlap.seam.probe.facts import Facts
from hotlap.seam.probe.waits import sample_rate

SPREADING = ("scatter", "replicate", "parallel_apply", "gather")
FIRST_BUCKET = 1 << 20


class Spread:
    """Seconds that DataParallel has spent by now in each of its four parts, and in how many calls.

    They are the training thread's: what runs on devices in the meantime is not waited for.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls = 0

    def add(self, name: str, seconds: float) -> None:
        """One part of one call is over."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.calls += name == SPREADING[-1]

    def per_call(self) -> dict[str, float]:
        """Seconds a forward pass; empty where DataParallel had nothing to spread."""
        return {name: spent / self.calls for name, spent in self.seconds.items() if self.calls}


@contextmanager
def spreading(spread: Spread, facts: Facts) -> Iterator[None]:
    """Watch what the profile is to know of DDP and DataParallel."""
    with ExitStack() as stack:
        stack.enter_context(
            replaced(DistributedDataParallel, "no_sync", lambda f: _noting(facts, f, "ddp_no_sync"))
        )
        stack.enter_context(
            replaced(DistributedDataParallel, "__init__", lambda f: _placed(facts, f))
        )
        for name in SPREADING:
            stack.enter_context(replaced(DataParallel, name, lambda f: _timed(spread, f)))
        yield


def _noting(facts: Facts, original: Callable[..., object], fact: str) -> object:
    @wraps(original)
    def call(*args: object, **kwargs: object) -> object:
        facts.note(fact)
        return original(*args, **kwargs)

    return call


def _placed(facts: Facts, original: Callable[..., object]) -> object:
    @wraps(original)
    def __init__(  # noqa: N807
        self: DistributedDataParallel, *args: object, **kwargs: object
    ) -> None:
        facts.point("ddp")
        original(self, *args, **kwargs)
        self._set_ddp_runtime_logging_sample_rate(sample_rate(self))  # type: ignore[no-untyped-call]

    return __init__


def _timed(spread: Spread, original: Callable[..., object]) -> object:
    @wraps(original)
    def part(*args: object, **kwargs: object) -> object:
        begin = perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            spread.add(original.__name__, perf_counter() - begin)

    return part


def ddp_facts(roots: list[Module]) -> dict[str, object]:
    """What the DDP models are like; only that there are none, where there are none."""
    models = list(dict.fromkeys(model for root in roots for model in parallel_models(root)))
    if not models:
        return {"ddp": False}
    logs = [model._get_ddp_logging_data() for model in models]  # type: ignore[no-untyped-call]
    return {
        "ddp": True,
        "several_ranks": any(model.process_group.size() > 1 for model in models),
        "ddp_copies_gradients": any(not m.gradient_as_bucket_view for m in models),
        "ddp_searches_unused": any(m.find_unused_parameters for m in models),
        "ddp_unused": any(log.get("unused_parameter_size", 0) for log in logs),
        "ddp_sends_buffers": any(m.broadcast_buffers and m.modules_buffers for m in models),
        "ddp_not_static": any(not m.static_graph for m in models),
        "ddp_hooked": any(m._comm_hooks for m in models),
        "ddp_many_gradients": any(_gradient_bytes(m) > FIRST_BUCKET for m in models),
        "ddp_reducing": max(map(_reducing, logs)),
    }


def _reducing(log: Mapping[str, float]) -> float:
    """The share of a backward pass in which only the reduction of gradients is left to wait for.

    By DDP's own clock, of the passes that it logs; 0 where it logged none.
    """
    computed, reduced, both = (
        log.get(f"avg_backward_{part}_time", 0)
        for part in ("compute", "comm", "compute_comm_overlap")
    )
    waited = max(0.0, reduced - both)
    return waited / (computed + waited) if computed else 0.0


def _gradient_bytes(model: Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
