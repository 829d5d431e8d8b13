"""Sets the batch size of the training's loaders and counts samples.

Steps of two batch sizes are not comparable; samples per second are. The time of a block leaves out
what does not grow with the batch: from the first sign of an evaluation (a call in evaluation mode,
another loader) until training goes on, and the saving of files. Samples are counted as loaders
yield them, so that the smaller last batch of an epoch has its own size. For programs without a
DataLoader the elements of the model's first input are counted.
"""

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps

import torch
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from hotlap.common.nested import tensors
from hotlap.core.protocol import BatchOptions, BatchReport, LoaderSeen, decode
from hotlap.seam.drawn import counting_indices, samples_drawn
from hotlap.seam.gate import Gate, _on_cuda, _synchronise, time_limits_while_running
from hotlap.seam.participant import Participant
from hotlap.seam.patch import replaced
from hotlap.seam.process import note_training
from hotlap.seam.roots import CallRoot, has_parameters
from hotlap.seam.steps import Cycle, ManualUpdate, step_hooks
from hotlap.seam.where import place

OUTERMOST = 0
_SIGNATURE = inspect.signature(DataLoader.__init__)
_LOADER = "_hotlap_loader"


@contextmanager
def driving(session: Participant) -> Iterator[None]:
    """Set the batch size of the chosen loaders; report blocks of steps with their samples.

    They are those of `BatchOptions`.
    """
    options = decode(BatchOptions, session.spec.options)
    cycle, meter = Cycle(), Meter(options)
    gate = Gate(session.wire, options.first, lambda: {"batch": meter.take(), **session.standing()})

    def after(optimizer: Optimizer | ManualUpdate) -> None:
        if cycle.turn(optimizer):
            meter.step(optimizer)
            session.roots.step()
            gate.step()

    def backward() -> None:
        note_training(session.wire.address)
        session.wire.send("backward")

    session.roots.add(OUTERMOST, meter.root)
    with ExitStack() as stack:
        stack.enter_context(step_hooks(None, after))
        stack.enter_context(meter.watching(session.roots.look))
        tell = partial(_telling, backward)
        stack.enter_context(replaced(torch.Tensor, "backward", tell))
        stack.enter_context(time_limits_while_running())
        yield


def _telling(tell: Callable[[], None], original: Callable[..., object]) -> object:
    """`Tensor.backward` that reports its first call, so that a script without steps is named."""
    told: list[bool] = []

    @wraps(original)
    def backward(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        if not told:
            told.append(True)
            tell()
        return original(tensor, *args, **kwargs)

    return backward


class Meter:
    """Counts samples and what is not training, between two reports."""

    def __init__(self, options: BatchOptions) -> None:
        self._driven = set(options.loaders)
        self._size = options.size
        self._loaders: list[LoaderSeen] = []
        self._samplers: list[list[object]] = []
        self._of: list[tuple[object, ...]] = []  # its line and dataset: one an epoch is one loader
        self._drawn: Counter[int] = Counter()
        self._draws: Counter[int] = Counter()
        self._current = -1
        self._feeding: set[int] = set()
        self._samples = self._micro = 0
        self._elements = self._elements_of_step = 0
        self._paused = 0.0
        self._pause: float | None = None
        self._optimizer: tuple[str, float] | None = None

    def step(self, optimizer: Optimizer | ManualUpdate) -> None:
        """One optimizer step is over."""
        self._pause = None  # a model that trains in evaluation mode was no evaluation
        if self._current >= 0:
            self._feeding.add(self._current)
            self._samples += self._drawn[self._current]
            self._micro = self._draws[self._current]
        self._elements += self._elements_of_step
        self._elements_of_step = 0
        self._drawn.clear()
        self._draws.clear()
        if self._optimizer is None:
            rate = optimizer.param_groups[0].get("lr", 0.0) if optimizer.param_groups else 0.0
            self._optimizer = type(optimizer).__name__, float(rate)

    def take(self) -> BatchReport:
        """What has been counted since the last time."""
        loaders = [replace(one, feeds=i in self._feeding) for i, one in enumerate(self._loaders)]
        found = BatchReport(
            self._samples,
            self._elements,
            self._micro,
            self._paused,
            loaders,
            *(self._optimizer or ("", 0.0)),
            *_device_memory(),
        )
        self._samples, self._elements, self._paused = 0, 0, 0.0
        return found

    def root(self, root: torch.nn.Module, inner: CallRoot) -> CallRoot:
        """Count the input of a model's calls; in evaluation mode the clock is stopped."""
        is_model = has_parameters(root)

        def call(root: torch.nn.Module, *args: object, **kwargs: object) -> object:
            if root.training and torch.is_grad_enabled():
                self._go_on()
                first = next(tensors((args, kwargs)), None) if is_model else None
                self._elements_of_step += 0 if first is None else first.numel()
            else:
                self._stand()
            return inner(root, *args, **kwargs)

        return call

    @contextmanager
    def watching(self, epoch: Callable[[], None]) -> Iterator[None]:
        """Watch loaders and saves."""
        with ExitStack() as stack:
            stack.enter_context(replaced(DataLoader, "__init__", self._making))
            stack.enter_context(
                replaced(DataLoader, "__iter__", lambda f: self._iterating(f, epoch))
            )
            stack.enter_context(replaced(_BaseDataLoaderIter, "__next__", self._drawing))
            stack.enter_context(counting_indices())
            stack.enter_context(replaced(torch, "save", self._saving))
            yield

    def _making(self, original: Callable[..., object]) -> object:
        @wraps(original)
        def __init__(  # noqa: N807
            loader: torch.utils.data.DataLoader[object], *args: object, **kwargs: object
        ) -> None:
            index = len(self._loaders)
            given = _SIGNATURE.bind_partial(loader, *args, **kwargs).arguments
            batch = None if given.get("batch_sampler") else given.get("batch_size", 1)
            dataset = given.get("dataset")
            here = place()
            self._of.append((here, type(dataset), _length(dataset), batch))
            if batch is not None and any(
                i <= index and self._of[i] == self._of[index] for i in self._driven
            ):
                args, kwargs = _with_size(args, kwargs, self._size)
            sampler = given.get("batch_sampler")
            self._loaders.append(LoaderSeen(batch, bool(sampler), here))
            self._samplers.append(_inside(sampler))
            object.__setattr__(loader, _LOADER, index)
            original(loader, *args, **kwargs)
            self._loaders[index] = replace(
                self._loaders[index],
                samples=_length(getattr(loader, "sampler", None)),
                around=self._origins(index),
            )
            if not sampler:
                self._samplers[index] = [loader.batch_sampler]

        return __init__

    def _origins(self, index: int) -> list[int]:
        """Loaders whose batches this one was given: Accelerate makes loaders anew like that."""
        mine = self._samplers[index]
        return [
            i for i, theirs in enumerate(self._samplers[:index])
            if any(a is b for a in mine for b in theirs if a is not None)
        ]  # fmt: skip

    def _iterating(self, original: Callable[..., object], epoch: Callable[[], None]) -> object:
        def __iter__(loader: object) -> object:  # noqa: N807
            epoch()
            index = getattr(loader, _LOADER, -1)
            if index in self._feeding:
                self._go_on()
            elif self._feeding:
                self._stand()
            iterator = original(loader)
            setattr(iterator, _LOADER, index)
            return iterator

        return __iter__

    def _drawing(self, original: Callable[..., object]) -> object:
        def __next__(iterator: object) -> object:  # noqa: N807
            index = getattr(iterator, _LOADER, -1)
            if self._pause is not None and index in self._feeding:
                self._go_on()
            batch = original(iterator)
            self._current = index
            self._draws[index] += 1
            self._drawn[index] += samples_drawn(iterator) or _first_dimension(batch)
            return batch

        return __next__

    def _saving(self, original: Callable[..., object]) -> object:
        def save(*args: object, **kwargs: object) -> object:
            begin = self._now()
            result = original(*args, **kwargs)
            if self._pause is None:
                self._paused += time.perf_counter() - begin
            return result

        return save

    def _stand(self) -> None:
        if self._pause is None:
            self._pause = self._now()

    def _go_on(self) -> None:
        if self._pause is not None:
            self._paused += self._now() - self._pause
            self._pause = None

    def _now(self) -> float:
        _synchronise()
        return time.perf_counter()


def _with_size(
    args: tuple[object, ...], kwargs: dict[str, object], size: int
) -> tuple[tuple[object, ...], dict[str, object]]:
    if len(args) > 1:
        return (args[0], size, *args[2:]), kwargs
    return args, {**kwargs, "batch_size": size}


def _first_dimension(batch: object) -> int:
    """Length of the first tensor of a batch that the dataset itself yielded."""
    first = next(tensors(batch), None)
    return len(first) if first is not None and first.dim() else 1


def _inside(sampler: object) -> list[object]:
    """A batch sampler and the one it wraps."""
    return [each for each in (sampler, getattr(sampler, "batch_sampler", None)) if each is not None]


def _length(of: object) -> int:
    """How many samples a dataset or a sampler says to have; 0: not known."""
    try:
        return len(of) if isinstance(of, Sized) else 0
    except (TypeError, AttributeError, NotImplementedError):
        return 0


def _device_memory() -> tuple[int, int]:
    """Bytes of the accelerator, and the most that was in use; 0 where there is none."""
    if not _on_cuda():
        return 0, 0
    device = torch.cuda.current_device()
    total = torch.cuda.get_device_properties(device).total_memory
    return total, torch.cuda.max_memory_allocated(device)
