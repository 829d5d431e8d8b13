"""Live tensors, counted as they come and go: on any device, the CPU included."""

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

from hotlap.common.nested import tensors
from hotlap.memory.owners import owned

TEMPORARIES = "optimizer temporaries"
_LIBRARY = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


@dataclass(frozen=True)
class Live:
    """A live tensor's memory: bytes, shape and type at first sight, and the line that made it.

    `where` is `file:line`, `backward` where no line of the user's was running, or the owner of what
    was there before.
    """

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    where: str


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors alive while its context is open, by phase and by owner.

    ```python
    with Meter(model, optimizer) as meter:
        with meter.phase("forward"):
            loss = criterion(model(x), y)
        with meter.phase("backward"):
            loss.backward()
        with meter.phase("step"):
            optimizer.step()
    print(meter.peaks["backward"])
    ```

    It sees every operation, which makes steps several times slower: for a few steps, never while
    timing. What a kernel takes and gives back within one operation is not seen.

    Attributes:
        peak: most bytes alive at once.
        peaks: of each phase, the bytes at its highest point by owner: `parameters`, `buffers`,
            `gradients`, `optimizer state`, `optimizer temporaries` (what an optimizer's step
            allocates beside its state), and `activations` for all others.
    """

    def __init__(self, model: nn.Module | None = None, optimizer: Optimizer | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self.peaks: dict[str, dict[str, int]] = {}
        self._model = model
        self._optimizer = optimizer
        self._alive: dict[int, Live] = {}
        self._watches: dict[int, weakref.ref[object]] = {}
        self._events: list[tuple[int, Live | None]] = []
        self._peak_at = 0
        self._now = 0
        self._phase = ""
        self._phase_peak = 0
        self._temporaries: set[int] = set()
        self._in_step = False
        self._hooks = ExitStack()

    def __enter__(self) -> "Meter":
        """Count what is there already, and watch for steps of optimizers."""
        for owner, theirs in self._owned():
            for tensor in theirs:
                self._add(tensor, owner)
        before = register_optimizer_step_pre_hook(partial(self._set_in_step, True))
        self._hooks.callback(before.remove)
        after = register_optimizer_step_post_hook(partial(self._set_in_step, False))
        self._hooks.callback(after.remove)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        """Stop counting."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._hooks.close()

    def _set_in_step(self, in_step: bool, *_: object) -> None:
        self._in_step = in_step

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Give a name to what is run in the context."""
        before = self._phase, self._phase_peak
        self._phase, self._phase_peak = name, sum(self.peaks.get(name, {}).values())
        self._higher()
        try:
            yield
        finally:
            self._phase, self._phase_peak = before

    def largest(self, number: int = 10, *, at_peak: bool = False) -> list[Live]:
        """The largest tensors alive now, or when the most bytes were; the largest first."""
        alive = self._then() if at_peak else self._alive
        return sorted(alive.values(), key=lambda live: -live.bytes)[:number]

    def _then(self) -> dict[int, Live]:
        """What was alive at the peak: all that came and went until then, once more."""
        alive: dict[int, Live] = {}
        for key, live in self._events[: self._peak_at]:
            if live is None:
                alive.pop(key, None)
            else:
                alive[key] = live
        return alive

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        results = func(*args, **(kwargs or {}))
        where = ""
        for tensor in tensors(results):
            if not self._is_known(tensor):
                where = where or _users_line(sys._getframe(1))
                self._add(tensor, where)
        return results

    def _owned(self) -> Iterator[tuple[str, Iterable[Tensor]]]:
        models = [] if self._model is None else [self._model]
        return owned(models, [] if self._optimizer is None else [self._optimizer])

    def _is_known(self, tensor: Tensor) -> bool:
        storage = _storage(tensor)
        return storage is None or storage._cdata in self._alive

    def _add(self, tensor: Tensor, where: str) -> None:
        storage = _storage(tensor)
        if storage is None or storage._cdata in self._alive:
            return
        key, size = storage._cdata, storage.nbytes()
        live = self._alive[key] = Live(size, tuple(tensor.shape), tensor.dtype, where)
        self._events.append((key, live))
        if self._in_step and not torch.is_grad_enabled():  # a closure's forward pass has gradients
            self._temporaries.add(key)
        self._watches[key] = weakref.ref(storage, lambda _: self._drop(key))
        self._now += size
        self._higher()

    def _drop(self, key: int) -> None:
        self._watches.pop(key, None)
        self._temporaries.discard(key)
        live = self._alive.pop(key, None)
        if live is not None:
            self._events.append((key, None))
            self._now -= live.bytes

    def _higher(self) -> None:
        if self._now > self.peak:
            self.peak, self._peak_at = self._now, len(self._events)
        if self._phase and self._now > self._phase_peak:
            self._phase_peak = self._now
            self.peaks[self._phase] = self._by_owner()

    def _by_owner(self) -> dict[str, int]:
        found: dict[str, int] = {}
        counted: set[int] = set()
        for owner, theirs in self._owned():
            keys = {s._cdata for t in theirs if (s := _storage(t)) is not None}
            keys = (keys & self._alive.keys()) - counted
            found[owner] = sum(self._alive[key].bytes for key in keys)
            counted |= keys
        keys = self._temporaries - counted
        found[TEMPORARIES] = sum(self._alive[key].bytes for key in keys)
        return {**found, "activations": self._now - sum(found.values())}


def _storage(tensor: Tensor) -> torch.UntypedStorage | None:
    """A tensor's memory; None for what has none of its own (meta, sparse, wrappers)."""
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None
    return storage if storage.device.type != "meta" and storage.nbytes() else None


def _users_line(frame: FrameType | None) -> str:
    """`file:line` of the innermost frame that is neither torch's nor ours."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*_LIBRARY, "<")):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "backward"
