"""Images in folders."""

import os
from collections.abc import Iterator
from pathlib import Path

from hotlap.data.errors import PackError
from hotlap.data.pack.sources.base import IMAGES, Plain, Sample, stamps


class ImageFolder(Plain):
    """A folder with a folder of images for each class, or a folder of images without classes.

    Classes are the subfolders in alphabetical order, as torchvision's ImageFolder numbers them;
    images below them may be nested. Files that do not look like images are left out, hidden ones
    too.

    Raises:
        PackError: no images, or a class without any.

    """

    kind = "image folder"

    def __init__(self, root: Path) -> None:
        self.root = root
        folders = sorted(entry.name for entry in os.scandir(root) if _is_class(entry))
        self.classes = tuple(folders)
        self._paths: list[str] = []
        self._labels: list[int] = []
        for label, name in enumerate(folders or ["."]):
            found = sorted(_images(root / name))
            if folders and not found:
                raise PackError(f"the class folder {root / name} has no images: remove it")
            self._paths += found
            self._labels += [label] * len(found)
        if not self._paths:
            raise PackError(f"{root} has no images in it ({', '.join(sorted(IMAGES))})")

    def __len__(self) -> int:
        return len(self._paths)

    def read(self, index: int) -> Sample:
        """Read a file's bytes."""
        fields = {"label": self._labels[index]} if self.classes else {}
        return Sample(Path(self._paths[index]).read_bytes(), self.name(index), fields)

    def name(self, index: int) -> str:
        """Return the path, relative to the folder."""
        return os.path.relpath(self._paths[index], self.root)

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(Path(path) for path in self._paths)


def _is_class(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir() and not entry.name.startswith(".")


def _images(folder: Path) -> Iterator[str]:
    for place, _, files in os.walk(folder, followlinks=True):
        for file in files:
            if os.path.splitext(file)[1].lower() in IMAGES and not file.startswith("."):  # noqa: PTH122
                yield str(Path(place) / file)
