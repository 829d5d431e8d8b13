"""What is compared: loaders by name, each over the same samples.

Every side gives batches of 64. Those called `tv` and `npy` are what a DataLoader gives a usual
dataset: `tv` float images, normalised, as an ImageFolder with ToTensor and Normalize does. All
others give uint8 images: hotlap and its peers are compared on the same work.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from benchmarks.data import ordinary, peers, usual
from hotlap.data import Decoder, Loader
from hotlap.data.transforms import Resize

BATCH = 64
SIZE = (224, 224)


@dataclass(frozen=True)
class Side:
    """A loader."""

    loader: Iterable[Any]

    def epoch(self) -> int:
        """Run through it; return how many samples came."""
        return sum(len(_first(batch)) for batch in self.loader)


def _first(batch: Any) -> Any:
    return batch[0] if isinstance(batch, tuple | list) else batch


def _torch(make: Callable[[Path], Any], workers: int) -> Callable[[Path], Side]:
    def made(folder: Path) -> Side:
        more = {"num_workers": workers, "persistent_workers": True} if workers else {}
        return Side(DataLoader(make(folder), BATCH, shuffle=True, **more))

    return made


def _rows(make: Callable[[Path], Any]) -> Callable[[Path], Side]:
    """Rows of the memory map, a batch in one piece."""
    return lambda folder: Side(
        DataLoader(make(folder / "rows.npy"), BATCH, shuffle=True, collate_fn=usual.same)
    )


def _hotlap(store: str, **how: Any) -> Callable[[Path], Side]:
    return lambda folder: Side(Loader(folder / store, BATCH, shuffle=True, **how))


def _peer(make: Callable[..., Any], kind: str, workers: int) -> Callable[[Path], Side]:
    return lambda folder: Side(make(folder, kind, BATCH, workers))


def _ordinary(make: Callable[..., Any], part: str, workers: int) -> Callable[[Path], Side]:
    def made(folder: Path) -> Side:
        if part.endswith(".beton"):
            ordinary.write_ffcv(folder)
        return Side(make(folder / part, BATCH, workers))

    return made


_SIZED = {"transform": Resize(SIZE)}
SIDES: dict[str, Callable[[Path], Side]] = {
    "tv": _torch(lambda folder: usual.Folder(folder / "images"), 0),
    "tv, 2 workers": _torch(lambda folder: usual.Folder(folder / "images"), 2),
    "jpeg": _hotlap("jpeg", **_SIZED),
    "jpeg, 1 process of 2 threads": _hotlap("jpeg", workers=1, threads=2, **_SIZED),
    "jpeg, 2 processes": _hotlap("jpeg", workers=2, threads=1, **_SIZED),
    "jpeg, Decoder('pil')": _hotlap("jpeg", workers=2, threads=1, decoder=Decoder("pil"), **_SIZED),
    "jpeg256": _hotlap("jpeg256", **_SIZED),
    "jpeg256, 2 processes": _hotlap("jpeg256", workers=2, threads=1, **_SIZED),
    "raw": _hotlap("raw"),
    "npy": _torch(lambda folder: usual.Mapped(folder / "rows.npy"), 0),
    "npy, 2 workers": _torch(lambda folder: usual.Mapped(folder / "rows.npy"), 2),
    "npy, __getitems__": _rows(usual.Gathered),
    "npy, copied in order": _rows(usual.InOrder),
}
for _workers in (1, 2):
    _end = f"{_workers} worker{'s' * (_workers > 1)}"
    SIDES |= {
        f"PIL, {_end}": _ordinary(ordinary.dataloader, "", _workers),
        f"jpeg, {_end}": _ordinary(ordinary.hotlap, "jpeg", _workers),
        f"jpeg256, {_end}": _ordinary(ordinary.hotlap, "jpeg256", _workers),
        f"FFCV full size, {_end}": _ordinary(ordinary.ffcv, "ffcv.beton", _workers),
        f"FFCV max_resolution=341, {_end}": _ordinary(ordinary.ffcv, "ffcv341.beton", _workers),
    }
SIDES["PIL"] = _ordinary(ordinary.dataloader, "", 0)
for _name, _make in peers.PEERS.items():
    for _kind in peers.KINDS:
        SIDES[f"{_name} {_kind}, 2 workers"] = _peer(_make, _kind, 2)
    SIDES[f"{_name} raw, 0 workers"] = _peer(_make, "raw", 0)
