"""The parts of a step put together, around a loop that stays the reader's own."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hotlap.engine import states
from hotlap.engine.accumulation import ALONE, Batch, grouped
from hotlap.engine.determinism import choose_kernels, seed_everything
from hotlap.engine.distribution import distribution_of
from hotlap.engine.engine_config import EngineConfig
from hotlap.engine.evaluation import evaluating
from hotlap.engine.feed import Feed, tell_epoch
from hotlap.engine.loggers import Logger
from hotlap.engine.logs import Logs
from hotlap.engine.placement import Placement
from hotlap.engine.precision import Precision
from hotlap.engine.preparation import device_of, prepared
from hotlap.engine.random_state import Randomness, globals_of
from hotlap.engine.readings import Value
from hotlap.engine.saving import restore, save, writer
from hotlap.engine.states import State, Stateful
from hotlap.engine.stepper import Stepper
from hotlap.engine.sync import GradientSync

if TYPE_CHECKING:
    from hotlap.parallel.applying import Parallelized


class Engine:
    """Prepares a model and makes each step of a plain loop right.

    ```python
    engine = Engine(model, optimizer, config=EngineConfig(precision="bf16", accumulate=4))
    for epoch in engine.epochs(10):
        for images, labels in engine.steps(loader):
            with engine.forward():
                loss = criterion(engine.model(images), labels)
            engine.step(loss)
    ```

    Args:
        model: trained; may be wrapped by DistributedDataParallel or sharded by `fully_shard`, or be
            what `hotlap.parallel.parallelize` gave.
        optimizer: over the model's parameters.
        scheduler: stepped once per optimizer step.
        config: what to do; by default nothing but the plain float32 loop.
        loggers: take loss, learning rate and pace every `log_every` steps.
        extra: anything else to save and resume that has `state_dict` and `load_state_dict`.

    Attributes:
        model: what is to be called in the loop; compiled, if that was asked for.
        global_step: optimizer steps so far, left-out ones included.
        epoch: passes that are over.
    """

    def __init__(
        self,
        model: "nn.Module | Parallelized",
        optimizer: Optimizer,
        *,
        scheduler: LRScheduler | None = None,
        config: EngineConfig | None = None,
        loggers: Iterable[Logger] = (),
        extra: Mapping[str, Stateful] | None = None,
    ) -> None:
        self.config = config = config or EngineConfig()
        self._undo = ExitStack()
        self._undo.callback(
            choose_kernels(deterministic=config.deterministic, benchmark=config.cudnn_benchmark)
        )
        if config.seed is not None:
            seed_everything(config.seed)
        self.distribution = distribution = distribution_of(model, config)
        self.device = distribution.device or device_of(distribution.model, config.device)
        self.model: nn.Module = distribution.model
        if distribution.device is None:
            self.model, undo = prepared(distribution.model, config, self.device)
            for function in undo:
                self._undo.callback(function)
        self.precision = Precision(config.precision, self.device)
        self.precision.on()
        self._undo.callback(self.precision.off)
        self.stepper = Stepper(
            optimizer,
            scheduler=scheduler,
            scaler=self.precision.scaler,
            clip=config.clip,
            clipper=distribution.clipper,
        )
        self.checkpoints = writer(config.folder, config.keep) if config.folder else None
        self.global_step = self.epoch = 0
        self._place = Placement(
            self.device, channels_last=config.channels_last, prefetch=config.prefetch
        )
        self._sync = GradientSync(distribution.model)
        self.extra = dict(extra or {})
        self._feed: Feed | None = None
        self._position: State | None = None
        self._finished: Feed | None = None  # the last whole pass, while the next has not begun
        self._due = self._in_epochs = False
        self._share = ALONE
        self._logs = Logs(tuple(loggers), config.log_every)

    def epochs(self, number: int) -> Iterator[int]:
        """Count the passes from where training stands up to `number`.

        A checkpoint that is due with the last step of a pass is taken when this loop's body is
        through, and resumes with the next pass.
        """
        self._in_epochs = True
        try:
            while self.epoch < number:
                yield self.epoch
                self.epoch += 1
                self._finished, self._feed, self._position = self._feed, None, None
                self._save_if_due()
        finally:  # also when the loop is left by `break`
            self._save_if_due()
            self._in_epochs = False

    def steps(
        self, loader: Iterable[Batch], weigh: Callable[[Batch], float] | None = None
    ) -> Iterator[Batch]:
        """Yield the batches of one pass, on the device; after a resume, those still to come.

        `weigh(batch)` says how much a micro-batch counts, such as its number of tokens; by default
        each counts the same. Checkpoints that are due are taken when the loop's body is through;
        a body that is left by `break` or `return` after `step` counts as through.
        """
        self._feed = feed = Feed(loader, self._position)
        self._position = self._finished = None
        tell_epoch(loader, self.epoch)
        groups = grouped(feed, self.config.accumulate, weigh, self.device)
        before = self.global_step
        try:
            for batch, share in self._place.each(groups):
                self._save_if_due()
                self._share, before = share, self.global_step
                if (
                    self._sync.needed and self.distribution.pipeline is None
                ):  # which does it by itself
                    self._sync.switch(share.last)
                yield batch
                if share.last:
                    self._through(feed, share.of)
                    if feed.goes_on:  # before the next batch draws random numbers
                        self._save_if_due()
        except GeneratorExit:
            if self._feed is feed and self.global_step > before:
                self._through(feed, self._share.of)
            raise
        finally:
            if self._feed is feed and not self._in_epochs:
                self._save_if_due()

    def forward(self) -> AbstractContextManager[object]:
        """The context for forward pass and loss: autocast, if the precision wants it."""
        if self.distribution.device is None:
            return self.precision.forward()
        return _both(self.precision.forward(), self.distribution.context())

    def step(self, loss: Tensor) -> None:
        """Take a micro-batch's mean loss: backward, and with the last of a group the update."""
        with self.distribution.context():
            self.stepper.backward(loss, self._share.over)
        self._after_backward(loss)

    def pipeline_step(self, *inputs: Tensor, target: object) -> Tensor | None:
        """Forward, loss and backward of a batch through a pipeline, and what `step` does.

        Every rank of the pipeline is given the whole batch.

        Returns:
            The batch's mean loss on the ranks that have the last stage, None on the others.

        Raises:
            ValueError: the model has no pipeline.
        """
        if self.distribution.pipeline is None:
            raise ValueError("there is no pipeline here: compute the loss, and call step(loss)")
        with self.forward():
            loss = self.distribution.pipeline.step(*inputs, target=target, over=self._share.over)
        self.stepper.pending = True
        self._after_backward(loss)
        return loss

    def _after_backward(self, loss: Tensor | None) -> None:
        if self._share.last:
            self._update()
            if self._logs.active and loss is not None:
                self._logs.step(self.global_step, loss, self.stepper)

    def _update(self) -> None:
        self.stepper.update()
        self.global_step += 1

    def _through(self, feed: Feed, batches: int) -> None:
        """The body of a step is through: make what is left of it, see whether a save is due."""
        if self.stepper.pending:  # the body passed over the group's last micro-batch
            self._update()
        feed.take(batches)
        every = self.config.save_every
        self._due = bool(every) and self.global_step % every == 0

    def _save_if_due(self) -> None:
        if self._due:
            self.save()

    def evaluating(self) -> AbstractContextManager[None]:
        """Evaluation mode and inference_mode for a block; afterwards all is as it was."""
        return evaluating(self.model, forward=self.forward())

    def to_device(self, batch: Batch) -> Batch:
        """One batch on the device, in the model's layout: for evaluation, for example."""
        return self._place(batch)

    def place(self, batch: Batch) -> Batch:
        """Deprecated name of `to_device`."""
        warnings.warn("Engine.place is now Engine.to_device", DeprecationWarning, stacklevel=2)
        return self.to_device(batch)

    @property
    def count(self) -> int:
        """Deprecated name of `global_step`."""
        warnings.warn("Engine.count is now Engine.global_step", DeprecationWarning, stacklevel=2)
        return self.global_step

    def log(self, **values: Value) -> None:
        """Give the loggers more figures with the next ones; tensors are not waited for."""
        self._logs.add(values)

    def save(self) -> None:
        """Save a checkpoint in the background.

        Between the loop over `steps` and the end of the body of `epochs` it counts the pass as
        over: what resumes from it begins with the next one.

        Raises:
            ValueError: there is no folder to save it in.
        """
        if self.checkpoints is None:
            raise ValueError("there is no folder for checkpoints: EngineConfig(folder=...)")
        self._due = False
        save(self.checkpoints, self)

    def resume(self) -> bool:
        """Take up the last checkpoint of the folder; False if there is none.

        It may have been saved by another number of ranks, in another layout; then the loader is to
        be a `hotlap.data.Loader`, or the checkpoint one between two passes.

        Raises:
            ValueError: it is of another model.
        """
        return self.checkpoints is not None and restore(self.checkpoints, self)

    def state_dict(self) -> State:
        """Everything that the next losses depend on.

        For a checkpoint by hand, take it in the body of the loop over `steps` at its end, or
        between two passes: the loader's position is that of the last step whose body is through.
        """
        model = states.gather(self.distribution.parts[0], self.stepper.optimizer)
        return {**model, **self.shared_state(), **self.own_state()}

    def shared_state(self) -> State:
        """What every rank has alike, beside model and optimizer."""
        scheduler, scaler = self.stepper.scheduler, self.stepper.scaler
        return {
            "scheduler": scheduler.state_dict() if scheduler else None,
            "scaler": scaler.state_dict() if scaler else None,
            "extra": {name: thing.state_dict() for name, thing in self.extra.items()},
            "count": self.global_step,
            "epoch": self.epoch + self._pass_over,
        }

    def own_state(self) -> State:
        """What is this rank's alone: its random numbers, and where it is in its loader."""
        return {"random": Randomness().state(), "position": self._where()}

    @property
    def _pass_over(self) -> bool:
        """Whether every batch of the present pass is taken, in a body of `epochs`."""
        return self._in_epochs and self._feed is not None and self._feed.through

    def _where(self) -> State | None:
        """Where the loader stands; None: before its first pass."""
        if self._feed is not None:
            return self._feed.next() if self._pass_over else self._feed.state()
        return self._finished.next() if self._finished is not None else self._position

    def load_state_dict(self, state: State) -> None:
        """Take up what `state_dict` gave."""
        states.scatter(self.distribution.parts[0], self.stepper.optimizer, state)
        self.load_rest(state, state)

    def load_rest(self, shared: State, own: State) -> None:
        """Take up what `shared_state` and `own_state` gave; without `random` they stay."""
        if self.stepper.scheduler:
            self.stepper.scheduler.load_state_dict(shared["scheduler"])
        if self.stepper.scaler:
            self.stepper.scaler.load_state_dict(shared["scaler"])
        for name, state in shared["extra"].items():
            self.extra[name].load_state_dict(state)
        self.global_step, self.epoch = shared["count"], shared["epoch"]
        self._feed, self._finished, self._position = None, None, own["position"]
        self._due = False
        if own["random"] is not None:
            Randomness().restore(globals_of(own["random"]))

    def close(self) -> None:
        """Wait for checkpoints, close the loggers, put back what was switched in the process."""
        self._logs.close()
        if self.checkpoints is not None:
            self.checkpoints.close()
        self._undo.close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _both(
    first: AbstractContextManager[object], second: AbstractContextManager[object]
) -> Iterator[None]:
    with first, second:
        yield
