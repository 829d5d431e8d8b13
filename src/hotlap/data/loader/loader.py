"""`Loader`: what stands where a DataLoader stood."""

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from hotlap.data.decode import Decoder
from hotlap.data.decode.device import DeviceDecoder
from hotlap.data.errors import SampleError
from hotlap.data.loader.choose import Engine, Wish, begun
from hotlap.data.loader.given import Transform, check, device_of, land_of, reader_of, split
from hotlap.data.loader.place import Place
from hotlap.data.loader.plan import Plan, Step
from hotlap.data.loader.ranks import here
from hotlap.data.loader.reading import Fetched
from hotlap.data.loader.stage import Stage
from hotlap.data.store import Store


class Loader:
    """Iterates batches of a store or of a map-style dataset; one pass is one epoch.

    The order is a pure function of (seed, epoch): it is the same for any number of workers, and the
    global order the same for any number of ranks. Each pass begins the next epoch by itself. Under
    torch.distributed every rank gets as many batches, of the same sizes, as the others.

    From a store come `images`, or `(images, labels)` where it has labels: uint8, or what
    `transform` makes of them, as (samples, channels, height, width) with channels last in memory.
    From a dataset comes what `collate_fn` makes of its samples.

    Batches lie in memory that is used again once their last tensor is gone; those that are kept
    stay as they are.

    Args:
        data: a `Store`, the path of one, a `TokenWindows`, or a map-style dataset.
        batch_size: samples of each rank's batch.
        transform: batched transforms (`hotlap.data.transforms`) in order, or one function of a
            batch. They run on `device`; on encoded images leading geometry runs while decoding.
        shuffle: in a new order every epoch.
        seed: of order and transforms; the same on all ranks.
        drop_last: leave the last batch out unless it is full.
        device: where batches go; on CUDA copied one ahead, from pinned memory.
        workers: processes; 0 reads in this one; None chooses by what the first batch took.
        threads: in each process that reads a store; None chooses.
        collate_fn: joins a dataset's samples.
        fields: of the store's samples, given after the images.
        decoder: for encoded images; a `DeviceDecoder` has JPEGs decoded on `device`.
        bad: "raise", or "replace" a sample that cannot be read by one that the seed picks.
        bad_limit: the largest share of bad samples that is borne; `replaced` lists them.
        rank: of this process; by default torch.distributed's or torchrun's.
        world_size: how many there are.

    Raises:
        SampleError: a sample cannot be read; named with its source.
        StoreError: the store was altered or cut short.
        LoaderError: a process of the loader was killed; the message says how.
        MissingPackageError: a package is needed that is not installed; the message names it.

    """

    def __init__(  # noqa: PLR0913
        self,
        data: Any,
        batch_size: int = 1,
        *,
        transform: Transform = None,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        device: torch.device | str | int | None = None,
        workers: int | None = None,
        threads: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        fields: Sequence[str] | None = None,
        decoder: Decoder | DeviceDecoder | None = None,
        bad: str = "raise",
        bad_limit: float = 0.01,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        check(batch_size, workers, threads, bad)
        self.dataset = Store(data) if isinstance(data, str | Path) else data
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.seed = seed
        self.device = device_of(device)
        self.replaced: dict[int, str] = {}
        self._shuffle = shuffle
        self._ranks = rank, world_size
        self._limit = bad_limit
        geometry, rest = split(transform, self.dataset)
        how = decoder or Decoder()
        self._reader = reader_of(self.dataset, geometry, fields, how, collate_fn, seed, bad)
        land = land_of(self._reader, how, self.device)
        self._stage = Stage(self.device, rest, seed, land)
        pin = self.device is not None and self.device.type == "cuda"
        self._wish = Wish(workers, threads, pin)
        self._engine: Engine | None = None
        self._place = Place()
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
        epoch, delivered = self._place.begin(plan)
        rows = self._rows(plan.steps(epoch, delivered))
        try:
            for step, fetched in self._stage.run(rows):
                self._note(fetched)
                self._place.reach(epoch, step.delivered)
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

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader is: what was handed out counts, what was read ahead does not."""
        return self._place.state(self._about())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; batch size, workers and world size may be others.

        Raises:
            ValueError: the state is of other data, or of another order.

        """
        self._place.resume(state, self._about())
        self._turn += 1

    @property
    def place(self) -> tuple[int, int]:
        """(epoch, samples of it that all ranks had) with the batch that was handed out last."""
        return self._place.at

    @property
    def through(self) -> bool:
        """Whether the epoch it stands in has no batch left."""
        return self._place.over(self._plan())

    def close(self) -> None:
        """End processes and let go of memory; the next pass starts them again."""
        if self._engine is not None:
            self._engine.close()

    def __del__(self) -> None:
        if getattr(self, "_engine", None) is not None:
            self.close()

    def _plan(self) -> Plan:
        rank, world = here(*self._ranks)
        return Plan(
            len(self._reader),
            self.batch_size,
            self._shuffle,
            self.seed,
            self.drop_last,
            rank,
            world,
        )

    def _about(self) -> dict[str, Any]:
        """Return what a saved state is checked against."""
        return {
            "seed": self.seed,
            "shuffle": self._shuffle,
            "count": len(self._reader),
            "data": self._reader.identity(),
        }

    def _rows(self, steps: Iterator[Step]) -> Generator[tuple[Step, Fetched], None, None]:
        first: list[tuple[Step, Fetched]] = []
        engine, whole = self._engine, False
        if engine is None or not engine.alive:
            engine, first = begun(self._reader, self._wish, steps)
            self._engine = engine
        try:
            yield from first
            yield from engine.run(steps)
            whole = True
        finally:
            if self._reader.changes or not whole:
                engine.close()  # of this pass, which need not be the loader's any more

    def _note(self, fetched: Fetched) -> None:
        self.replaced.update(fetched.replaced)
        if len(self.replaced) > self._limit * len(self._reader):
            names = "; ".join(list(self.replaced.values())[:3])
            raise SampleError(
                f"{len(self.replaced)} of {len(self._reader)} samples are bad, more than bad_limit "
                f"({self._limit:g}) allows; the first: {names}"
            )
