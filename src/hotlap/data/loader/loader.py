"""`Loader`: what stands where a DataLoader stood."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from hotlap.data.decode import Decoder
from hotlap.data.decode.device import DeviceDecoder
from hotlap.data.errors import SampleError
from hotlap.data.loader import keywords
from hotlap.data.loader.arguments import (
    Transform,
    check,
    device_decode_of,
    device_of,
    reader_of,
    split,
)
from hotlap.data.loader.choose import Engine, begun
from hotlap.data.loader.plan import BatchPlan, Plan, Step
from hotlap.data.loader.position import Position
from hotlap.data.loader.ranks import here
from hotlap.data.loader.reading import Fetched, Wish
from hotlap.data.loader.sampling import SamplerOrder
from hotlap.data.loader.stage import Stage
from hotlap.data.loader.stores import Collate
from hotlap.data.store import Store


class Loader:
    """Iterates batches of a store or of a map-style dataset; one pass is one epoch.

    The order is a pure function of (seed, epoch): it is the same for any number of workers, and the
    global order the same for any number of ranks. Each pass begins the next epoch by itself. Under
    torch.distributed every rank gets as many batches, of the same sizes, as the others.

    From a store come `images`, or `(images, labels)` where it has labels: uint8, or what
    `transform` makes of them, as (samples, channels, height, width) with channels last in memory.
    From a store of records come dictionaries of all fields, or what `collate_fn` makes of a list of
    such dictionaries. From a dataset comes what `collate_fn` makes of its samples.

    Batches lie in memory that is used again once their last tensor is gone; those that are kept
    stay as they are.

    Args:
        data: a `Store`, the path of one, a `TokenWindows`, or a map-style dataset.
        batch_size: samples of each rank's batch.
        transform: batched transforms (`hotlap.data.transforms`) in order, or one function of a
            batch. They run on `device`; on encoded images leading geometry runs while decoding,
            and where batches stay on the CPU so do a flip and a normalisation that follow it.
        shuffle: in a new order every epoch.
        seed: of order and transforms; the same on all ranks. By default 0, or the seed that
            `generator` began with.
        drop_last: leave the last batch out unless it is full.
        device: where batches go; on CUDA copied one ahead, from pinned memory.
        workers: processes; 0 reads in this one; None chooses by what the first batch took.
        threads: in each process that reads a store; None chooses.
        collate_fn: joins a dataset's samples.
        fields: of the store's samples, given after the images; those of variable length (text,
            JSON, arrays of several shapes) as lists.
        decoder: for encoded images; a `DeviceDecoder` has JPEGs decoded on `device`.
        on_error: "raise", or "replace" a sample that cannot be read by one that the seed picks.
        max_error_rate: the largest share of bad samples that is borne; `replaced` lists them.
        rank: of this process; by default torch.distributed's or torchrun's.
        world_size: how many there are.
        num_workers: DataLoader's name for `workers`.
        sampler: yields the sample numbers of an epoch in its own order, which is a function of
            (seed, epoch) (see `SamplerOrder`). Ranks share that order, unless the sampler has a
            `rank` or `num_replicas` of its own.
        batch_sampler: yields lists of sample numbers.
        pin_memory: hand out pinned batches, for a copy to the GPU of your own; with `device` on
            CUDA that is so by itself. Without a GPU it does nothing.
        persistent_workers: keep the processes between epochs while the dataset stays the same
            (True), or fork them anew for every epoch.
        prefetch_factor: batches that each process reads ahead.
        worker_init_fn: called in each process with its number.
        generator: its initial seed is used as `seed`; it is not advanced.
        others: further keywords of DataLoader, which are obeyed already or refused with the
            reason, and deprecated names (`bad`, `bad_limit`).

    Raises:
        TypeError: an unknown keyword, or one that a Loader cannot follow.
        ValueError: keywords that exclude one another.
        SampleError: a sample cannot be read; named with its source.
        StoreError: the store was altered or cut short.
        LoaderError: a process of the loader was killed; the message says how.
        MissingPackageError: a package is needed that is not installed; the message names it.
    """

    def __init__(  # noqa: PLR0913
        self,
        data: object,
        batch_size: int = 1,
        *,
        transform: Transform = None,
        shuffle: bool = False,
        seed: int | None = None,
        drop_last: bool = False,
        device: torch.device | str | int | None = None,
        workers: int | None = None,
        threads: int | None = None,
        collate_fn: Collate | None = None,
        fields: Sequence[str] | None = None,
        decoder: Decoder | DeviceDecoder | None = None,
        on_error: str = "raise",
        max_error_rate: float = 0.01,
        rank: int | None = None,
        world_size: int | None = None,
        num_workers: int | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        pin_memory: bool = False,
        persistent_workers: bool = True,
        prefetch_factor: int | None = None,
        worker_init_fn: Callable[[int], object] | None = None,
        generator: torch.Generator | None = None,
        **others: object,
    ) -> None:
        old = keywords.rest(others)
        on_error = old.get("on_error", on_error)
        workers = keywords.workers_of(workers, num_workers)
        keywords.check_samplers(sampler, batch_sampler, batch_size, shuffle, drop_last)
        check(batch_size, workers, threads, on_error)
        self.dataset = Store(data) if isinstance(data, str | Path) else data
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.seed = seed = keywords.seed_of(seed, generator)
        self.device = device_of(device)
        self.replaced: dict[int, str] = {}
        self._shuffle = shuffle
        self._ranks = rank, world_size
        self._limit = old.get("max_error_rate", max_error_rate)
        decoder = decoder or Decoder()
        how, rest = split(transform, self.dataset, decoder, self.device)
        self._reader = reader_of(self.dataset, how, fields, decoder, collate_fn, seed, on_error)
        to_device = device_decode_of(self._reader, decoder, self.device)
        self._stage = Stage(self.device, rest, seed, to_device)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self._order = self._order_of(sampler if batch_sampler is None else batch_sampler)
        pin = self.device is not None and self.device.type == "cuda"
        pin = pin or (pin_memory and torch.cuda.is_available())
        self._wish = Wish(workers, threads, pin, prefetch_factor, worker_init_fn)
        self._persistent = persistent_workers
        self._engine_state: object = None
        self._engine: Engine | None = None
        self._position = Position()
        self._turn = 0
        self._running = False

    def __len__(self) -> int:
        return len(self._plan())

    def __iter__(self) -> Iterator[Any]:
        if self._running:  # an older pass must not mix its answers with ours
            self.close()
        self._turn += 1
        self._running = True
        mine, plan = self._turn, self._plan()
        epoch, delivered = self._position.begin(plan)
        rows = self._rows(plan.steps(epoch, delivered))
        try:
            for step, fetched in self._stage.run(rows):
                self._note(fetched)
                self._position.reach(epoch, step.delivered)
                yield fetched.value
                del fetched
                if self._turn != mine:
                    raise RuntimeError(
                        "another pass over this loader began meanwhile: use a loader for each"
                    )
        finally:
            rows.close()
            if self._turn == mine:
                self._running = False

    def state_dict(self) -> dict[str, object]:
        """Return where the loader is: what was handed out counts, what was read ahead does not."""
        state = self._position.state(self._about())
        if self._order is not None:
            state["sampler"] = self._order.state(self._position.at[0])
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; batch size, workers and world size may be others.

        Raises:
            ValueError: the state is of other data, or of another order.
        """
        self._position.resume(state, self._about())
        if self._order is not None:
            self._order.resume(state.get("sampler"))
        self._turn += 1

    @property
    def place(self) -> tuple[int, int]:
        """(epoch, samples of it that all ranks had) with the batch that was handed out last."""
        return self._position.at

    @property
    def through(self) -> bool:
        """Whether the epoch it stands in has no batch left."""
        return self._position.over(self._plan())

    def close(self) -> None:
        """End processes and let go of memory; the next pass starts them again."""
        if self._engine is not None:
            self._engine.close()

    def _order_of(self, sampler: object) -> SamplerOrder | None:
        if sampler is None:
            return None
        order = SamplerOrder(sampler, self.seed, len(self._reader))
        if not order.shared:
            self._ranks = 0, 1
        return order

    def _plan(self) -> Plan | BatchPlan:
        rank, world = here(*self._ranks)
        if self._order is not None and self.batch_sampler is not None:
            return BatchPlan(self._order, rank, world)
        return Plan(
            len(self._reader) if self._order is None else len(self._order),
            self.batch_size,
            self._shuffle,
            self.seed,
            self.drop_last,
            rank,
            world,
            self._order,
        )

    def _about(self) -> dict[str, object]:
        """Return what a saved state is checked against."""
        return {
            "seed": self.seed,
            "shuffle": self._shuffle,
            "count": self._plan().count,
            "data": self._reader.identity(),
        }

    def _rows(self, steps: Iterator[Step]) -> Generator[tuple[Step, Fetched], None, None]:
        first: list[tuple[Step, Fetched]] = []
        engine, whole = self._engine, False
        state = self._reader.state()
        if engine is not None and state != self._engine_state:
            engine.close()  # the processes have the dataset as it was
        if engine is None or not engine.alive:
            engine, first = begun(self._reader, self._wish, steps)
            self._engine, self._engine_state = engine, state
        try:
            yield from first
            yield from engine.run(steps)
            whole = True
        finally:
            if not whole or not (self._persistent or self._reader.state() is None):
                engine.close()  # of this pass, which need not be the loader's any more

    def _note(self, fetched: Fetched) -> None:
        self.replaced.update(fetched.replaced)
        if len(self.replaced) > self._limit * len(self._reader):
            names = "; ".join(list(self.replaced.values())[:3])
            raise SampleError(
                f"{len(self.replaced)} of {len(self._reader)} samples are bad, more than "
                f"max_error_rate ({self._limit:g}) allows; the first: {names}"
            )
