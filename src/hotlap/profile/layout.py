"""How a dataset's image files lie in folders, and so which folder to pack and what labels become.

`hotlap pack` numbers classes as torchvision's ImageFolder does: a folder each, in alphabetical
order.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from hotlap.core.protocol import DatasetReport, Taken

FOLDERS = ("torchvision.datasets.folder.ImageFolder", "torchvision.datasets.folder.DatasetFolder")
TARGET = "packed"
MOST_FILES = 200_000


@dataclass(frozen=True)
class Layout:
    """The folder to pack, where to, and what does not carry over by itself."""

    source: str
    target: str = TARGET
    notes: tuple[str, ...] = ()


MADE_BY_THE_PROGRAM = "the program writes these files itself: run it once without hotlap first"


def layout_of(dataset: DatasetReport, folder: Path) -> Layout:
    """Find the source; paths as they would be typed in `folder`."""
    taken = dataset.taken or Taken()
    files, labels = [Path(path) for path in taken.files], taken.labels
    root, notes = _known_root(dataset), []
    known = root is not None
    if root is None:
        root, by_class = _common(files)
    if not root.is_dir():  # written by the program during the trial, and gone with its layer
        return Layout(_typed(root, folder), TARGET, (MADE_BY_THE_PROGRAM,))
    if not known:
        notes += _label_notes(root, files, labels, by_class=by_class)
    notes += _count_notes(root, dataset, {path.suffix.lower() for path in files})
    return Layout(_typed(root, folder), TARGET, tuple(notes))


def _known_root(dataset: DatasetReport) -> Path | None:
    if dataset.root and any(kind in FOLDERS for kind in dataset.bases):
        return Path(dataset.root).resolve()
    return None


def _common(files: list[Path]) -> tuple[Path, bool]:
    """The folder above all, and whether each file lies in a folder of its own class below it."""
    parents = {path.parent for path in files}
    if len(parents) == 1:
        return parents.pop(), False
    root = Path(os.path.commonpath(parents))
    return root, all(parent.parent == root for parent in parents)


def _label_notes(
    root: Path, files: list[Path], labels: list[int | None], *, by_class: bool
) -> list[str]:
    """Say so where the store's labels would not be the dataset's."""
    if not by_class or None in labels:
        return [
            "the labels are not the folders': the store keeps each file's name, Store.name(i), "
            "to look yours up by"
        ]
    order = sorted(e.name for e in os.scandir(root) if e.is_dir() and not e.name.startswith("."))
    number = {name: index for index, name in enumerate(order)}
    pairs = {
        (number.get(path.parent.name), label) for path, label in zip(files, labels, strict=True)
    }
    if all(known == label for known, label in pairs):
        return []
    if len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs}):
        return ["labels become the folders' alphabetical order, which is not the order of yours"]
    return [
        "the labels do not follow from the folders: look yours up by each file's name, "
        "Store.name(i)"
    ]


def _count_notes(root: Path, dataset: DatasetReport, suffixes: set[str]) -> list[str]:
    if dataset.part:
        return ["the training uses a part of the files (a Subset): pack a folder of those alone"]
    held = _count(root, suffixes)
    if held in (None, dataset.length):
        return []
    return [
        f"the folder holds {held:,} such files, the dataset {dataset.length:,} samples: pack a "
        "folder of those alone"
    ]


def _count(root: Path, suffixes: set[str]) -> int | None:
    """How many such files lie below; None if they are too many to count here."""
    total = 0
    for _, _, names in os.walk(root, followlinks=True):
        total += sum(os.path.splitext(name)[1].lower() in suffixes for name in names)  # noqa: PTH122
        if total > MOST_FILES:
            return None
    return total


def _typed(path: Path, folder: Path) -> str:
    try:
        return str(path.relative_to(folder.resolve()))
    except ValueError:
        return str(path)
