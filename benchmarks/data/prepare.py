"""The samples in every format that is compared, written once into a folder."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import images, peers
from hotlap.data import Store
from hotlap.data.pack import pack
from hotlap.data.pack.sources import Arrays

SHARDS = 4
Samples = list[tuple[bytes, int]]


def everything(folder: Path, group: str, count: int, rows: int) -> None:
    """Write what a group needs and is not there yet; peers that are not installed are left out.

    Args:
        folder: where to; parts that are there from before are kept.
        group: jpeg, ordinary or raw.
        count: JPEG images.
        rows: raw rows of 224 x 224 x 3.

    """
    jpegs(folder, count)  # which `tv` reads beside the rows too
    if group == "raw":
        raw(folder, rows)
    for name, write in WRITERS.items() if group in peers.KINDS else ():
        with suppress(ModuleNotFoundError):
            _once(folder / f"{name}-{group}", lambda to, w=write: w(folder / group, to))


def jpegs(folder: Path, count: int) -> None:
    """Write the images alone: as files, and as stores."""
    _once(folder / "images", lambda to: images.folder(to, count))
    for profile in ("jpeg", "jpeg256"):
        _once(folder / profile, lambda to, p=profile: pack(folder / "images", to, profile=p))


def raw(folder: Path, rows: int) -> None:
    """Write the rows alone: as a store, and as .npy."""
    _once(folder / "rows.npy", lambda to: _rows(to, rows))
    _once(folder / "raw", lambda to: _raw(folder / "rows.npy", to))


def _once(target: Path, write: Callable[[Path], Any]) -> None:
    if not target.exists():
        print(f"writing {target}", file=sys.stderr)
        write(target)


def _rows(target: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    rows = np.lib.format.open_memmap(target, "w+", np.uint8, (count, *peers.SHAPE))
    for index in range(count):
        rows[index] = rng.integers(0, 256, peers.SHAPE, dtype=np.uint8)


def _raw(rows: Path, target: Path) -> None:
    mapped = np.load(rows, mmap_mode="r")
    pack(Arrays({"x": mapped, "y": np.arange(len(mapped)) % 8}), target, profile="raw")


def samples(store: Path) -> Iterator[tuple[bytes, int]]:
    """Yield (payload, label) of a store."""
    opened = Store(store)
    for index in range(len(opened)):
        yield opened.payload(index), int(opened.fields["label"][index])


def _wds(store: Path, target: Path) -> None:
    import webdataset as wds

    found = list(samples(store))
    target.mkdir()
    for shard in range(SHARDS):
        with wds.TarWriter(str(target / f"{shard}.tar")) as writer:
            for index in range(shard, len(found), SHARDS):
                data, label = found[index]
                writer.write({"__key__": f"{index:06d}", "bin": data, "cls": str(label)})


def _mds(store: Path, target: Path) -> None:
    peers.without_torchvision()
    from streaming import MDSWriter

    columns = {"bin": "bytes", "cls": "int"}
    with MDSWriter(out=str(target), columns=columns) as writer:
        for data, label in samples(store):
            writer.write({"bin": data, "cls": label})


class _Sample:
    """Picks one sample; LitData hands numbers to processes of its own."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def __call__(self, index: int) -> dict[str, Any]:
        store = Store(self._store)
        return {"bin": store.payload(index), "cls": int(store.fields["label"][index])}


def _lit(store: Path, target: Path) -> None:
    from litdata import optimize

    optimize(
        _Sample(store),
        list(range(len(Store(store)))),
        output_dir=str(target),
        chunk_bytes="64MB",
        num_workers=1,
    )


WRITERS: dict[str, Callable[[Path, Path], None]] = {"wds": _wds, "mds": _mds, "lit": _lit}
