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
    """The folder to pack, and where to.

    `same`: its files and labels are the dataset's. `notes`: what to mind.
    """

    source: str
    target: str = TARGET
    same: bool = True
    notes: tuple[str, ...] = ()


MADE_BY_THE_PROGRAM = "the program writes these files itself: run it once without hotlap first"


def layout_of(dataset: DatasetReport, folder: Path) -> Layout:
    """Find the source; paths as they would be typed in `folder`."""
    taken = dataset.taken or Taken()
    files, labels = [Path(path) for path in taken.files], taken.labels
    root, suffixes = _known_root(dataset), {path.suffix.lower() for path in files}
    same, by_class = root is not None, True
    if root is None:
        root, by_class = _common(files)
    if not root.is_dir():  # written by the program during the trial, and gone with its layer
        return Layout(_typed(root, folder), notes=(MADE_BY_THE_PROGRAM,))
    same = same or (by_class and _same_labels(root, files, labels))
    return Layout(_typed(root, folder), same=same and _same_files(root, dataset, suffixes))


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


def _same_labels(root: Path, files: list[Path], labels: list[int | None]) -> bool:
    """Whether labels follow from the folders in alphabetical order, one for each class."""
    order = sorted(e.name for e in os.scandir(root) if e.is_dir() and not e.name.startswith("."))
    number = {name: index for index, name in enumerate(order)}
    pairs = zip(files, labels, strict=True)
    return all(label is not None and number.get(path.parent.name) == label for path, label in pairs)


def _same_files(root: Path, dataset: DatasetReport, suffixes: set[str]) -> bool:
    """Whether the folder holds what the training reads, and nothing more."""
    return not dataset.part and _count(root, suffixes) in (None, dataset.length)


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
