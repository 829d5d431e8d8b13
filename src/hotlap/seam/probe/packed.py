"""The same files, packed into a scratch store and read from it: against the script's own reading.

Both read the same samples by turns, on one core, from the page cache.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from torch.utils.data._utils.fetch import _MapDatasetFetcher

from hotlap.common.threads import one_thread
from hotlap.core.machine import available_memory
from hotlap.core.protocol import PackedComparison, PackPlan, Taken
from hotlap.seam.probe.dataset import Seen
from hotlap.seam.probe.fitting import CROP_FROM

if TYPE_CHECKING:
    from hotlap.data import Loader
    from hotlap.data.store.reader import Store

ROUNDS = 6


def plan(seen: Seen) -> PackPlan:
    """How to pack: rows where samples are the same each time and would fit into RAM, else JPEGs.

    Rows keep what does not vary; a random crop needs the image around it, and so does one out of
    an image that was resized to more.
    """
    assert seen.taken is not None
    _, height, width = seen.shape
    varied = {name for name in seen.transforms if name.startswith(("Random", "ColorJitter"))}
    crops = seen.draws and varied != {"RandomHorizontalFlip"}
    row = 3 * height * width
    small = row * seen.about.length < available_memory() // 2
    how = seen.fit.how if seen.fit else "both"
    raw = small and not crops and how != "larger"
    steps: list[tuple[str, list[object]]] = []
    if crops:
        steps = [("RandomResizedCrop", [(height, width)])]
    elif not raw:
        steps = _cut(how, height, width)
    if seen.draws and (not varied or "RandomHorizontalFlip" in varied):
        steps.append(("RandomHorizontalFlip", []))
    if seen.dtype != "uint8":
        steps.append(("Normalize", [*_scale(seen)]))
    larger = round(CROP_FROM * max(height, width))
    side = ([height, width] if how == "both" else height) if raw else larger
    simpler = seen.draws and (not varied or not varied <= {name for name, _ in steps})
    kind = "raw" if raw else "jpeg256"
    return PackPlan(kind, side, steps, seen.fit is not None, simpler, _scale_known(seen))


def _cut(how: str, height: int, width: int) -> list[tuple[str, list[object]]]:
    """What gives the samples from stored JPEGs whose short side is larger."""
    if how == "both":
        return [("Resize", [(height, width)])]
    cut: tuple[str, list[object]] = ("CenterCrop", [(height, width)])
    return [cut] if how == "larger" else [("Resize", [height]), cut]


def _scale(seen: Seen) -> tuple[list[float], list[float]]:
    found = seen.transforms.get("Normalize", {})
    mean, std = found.get("mean"), found.get("std")
    return (mean, std) if mean and std and len(mean) == len(std) == 3 else ([0.0] * 3, [1.0] * 3)


def _scale_known(seen: Seen) -> bool:
    """Whether it is known how pixels are scaled: by torchvision's transforms, or by comparison."""
    if seen.dtype == "uint8" or (seen.fit is not None and seen.fit.plain):
        return True
    return bool(seen.transforms) and ("Normalize" not in seen.transforms or any(_scale(seen)[0]))


def compared(seen: Seen, scratch: str, *, on_device: bool) -> PackedComparison:
    """Seconds a sample of each round, (the script's, packed), and what the packed ones take.

    `on_device`: the loader would normalise on a GPU, so that the CPU has not to.
    """
    assert seen.taken is not None
    how = plan(seen)
    folder = Path(tempfile.mkdtemp(prefix="packed-", dir=scratch or None))
    try:
        with one_thread():
            store = _packed(seen.taken, how, folder)
            loader = _loader(store, how, min(seen.about.batch_size, 32), on_device=on_device)
            pairs = _by_turns(seen, loader, len(store))
        bytes_each = sum(part.bytes for part in store.manifest.shards) / len(store)
        return PackedComparison(**vars(how), pairs=pairs, samples=len(store), bytes=bytes_each)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _packed(taken: Taken, how: PackPlan, folder: Path) -> "Store":
    from hotlap.data.pack import pack

    source = folder / "source"
    source.mkdir()
    for number, path in enumerate(taken.files):
        os.symlink(path, source / f"{number:06d}.jpg")
    side = how.resize
    return pack(
        source, folder / "store", profile=how.profile, workers=1, on_error="skip",
        max_error_rate=1.0, resize=(side[0], side[1]) if isinstance(side, list) else side,
    )  # fmt: skip


def _loader(store: "Store", how: PackPlan, size: int, *, on_device: bool) -> "Loader":
    from hotlap.data import Loader, transforms

    steps = [
        getattr(transforms, name)(*values)
        for name, values in how.transforms
        if not (on_device and name == "Normalize")
    ]
    return Loader(store, size, shuffle=True, transform=steps, workers=0, threads=1)


def _by_turns(seen: Seen, loader: "Loader", count: int) -> list[tuple[float, float]]:
    """Rounds in which each side reads; who begins alternates. The first packed pass warms."""
    assert seen.taken is not None
    ids, size = seen.taken.ids, min(seen.about.batch_size, 32)
    share = max(1, len(ids) // ROUNDS)
    _timed(lambda: _pass(loader, count))
    pairs = []
    for number in range(ROUNDS):
        mine = ids[number * share : (number + 1) * share] or ids[:share]
        sides = [
            lambda mine=mine: _own(seen.fetcher, mine, size),  # type: ignore[misc]
            lambda: _pass(loader, count),
        ]
        turns = sides if number % 2 == 0 else sides[::-1]
        times = {id(side): _timed(side) for side in turns}
        pairs.append((times[id(sides[0])], times[id(sides[1])]))
    loader.close()
    return pairs


def _own(fetcher: _MapDatasetFetcher, ids: list[int], size: int) -> int:
    for start in range(0, len(ids), size):
        fetcher.fetch(ids[start : start + size])  # type: ignore[no-untyped-call]
    return len(ids)


def _pass(loader: "Loader", count: int) -> int:
    for batch in loader:
        del batch
    return count


def _timed(read: Callable[[], int]) -> float:
    begin = perf_counter()
    count = read()
    return (perf_counter() - begin) / count
