"""Images in folders."""

# ruff: noqa: PTH116, PTH118, PTH120, PTH122 (os.path: a folder may hold millions of files)
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import IMAGES, read_file, stamps
from hotlap.data.pack.sources.records import Kind, Records
from hotlap.data.pack.sources.text import load_json

SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing", "dev"}
PARTS = {
    "image", "images", "img", "imgs", "mask", "masks", "label", "labels", "annotation",
    "annotations", "depth", "gt", "jpegimages", "segmentationclass",
}  # fmt: skip
"""Names of folders that hold parts of samples rather than classes."""
_BESIDE = {".txt": "text", ".caption": "text", ".json": "json"}


class ImageFolder(Records):
    """A folder with a folder of images for each class, or a folder of images without classes.

    Classes are the subfolders in alphabetical order, as torchvision's ImageFolder numbers them;
    images below them may be nested. A `.txt`, `.caption` or `.json` file with the name of an image
    is a field of it. Other files are left out, and named.

    Raises:
        PackError: no images, a class without any, images beside classes, or folders that are
            splits or parts of samples rather than classes.
    """

    kind = "image folder"

    def __init__(self, root: Path, how: Settings | None = None) -> None:
        super().__init__(str(root), how)
        self.root = root
        folders = sorted(entry.name for entry in os.scandir(root) if _is_class(entry))
        self._others: list[str] = []
        self._paths: list[str] = []
        self._labels: list[int] = []
        if folders:
            self._refuse(folders)
        for label, name in enumerate(folders or ["."]):
            found = sorted(self._images(root / name))
            if folders and not found:
                raise PackError(
                    f"the class folder {root / name} has no images: remove it{self._hint()}"
                )
            self._paths += found
            self._labels += [label] * len(found)
        if not self._paths:
            raise PackError(
                f"{root} has no images in it ({', '.join(sorted(IMAGES))}){self._hint()}"
            )
        self._beside = self._files_beside()
        kinds = {"image": Kind("image")} | {e[1:]: Kind(_BESIDE[e]) for e in self._beside}
        if folders:
            kinds["label"] = Kind("number")
        self._classes = folders
        self.settle(kinds, {"label": folders} if folders else None)

    def __len__(self) -> int:
        return len(self._paths)

    def record(self, index: int) -> dict[str, object]:
        """Read a file's bytes, and the files beside it."""
        path = self._paths[index]
        found: dict[str, object] = {"image": read_file(path)}
        if self._classes:
            found["label"] = self._labels[index]
        for ending, files in self._beside.items():
            file = files.get(str(Path(path).with_suffix("")))
            found[ending[1:]] = None if file is None else _read(ending, file)
        return found

    def name(self, index: int) -> str:
        """Return the path, relative to the folder."""
        return os.path.relpath(self._paths[index], self.root)

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(Path(path) for path in self._paths)

    def _refuse(self, folders: list[str]) -> None:
        """Refuse folders that are not classes, whose numbers would be wrong labels."""
        names = {name.lower() for name in folders}
        if names <= SPLITS:
            raise PackError(
                f"{self.root} holds the splits {', '.join(folders)}: name one, such as "
                f"{self.root / folders[0]}, or --split {folders[0]}"
            )
        if (names & PARTS or len(folders) == 1) and not self.how.constant_label:
            raise PackError(
                f"the folders of {self.root} ({', '.join(folders[:5])}) would be the classes, and "
                f"every image in {folders[0]} would have one label. Where the labels lie in "
                f"a file: --labels FILE; to pack without labels: {self.root / folders[0]}"
                + ("; where this is right: --constant-label" if len(folders) == 1 else "")
            )
        for file in self._files(self.root):
            if Path(file).suffix.lower() in IMAGES:
                raise PackError(f"{file} lies beside the class folders: move it into one of them")

    def _files(self, folder: Path) -> list[str]:
        return [e.path for e in os.scandir(folder) if not e.is_dir() and e.name[0] != "."]

    def _images(self, folder: Path) -> Iterator[str]:
        """Yield the images below a folder; links are followed, but not in a circle."""
        above: dict[str, set[tuple[int, int]]] = {}
        for place, folders, files in os.walk(folder, followlinks=True):
            status = os.stat(place)
            seen = above.get(os.path.dirname(place), set())
            if (status.st_dev, status.st_ino) in seen:
                raise PackError(f"{place} is a link to a folder above it: remove it")
            above[place] = seen | {(status.st_dev, status.st_ino)}
            folders[:] = [name for name in folders if not name.startswith(".")]
            for file in files:
                path = os.path.join(place, file)
                if file.startswith("."):
                    continue
                if os.path.splitext(file)[1].lower() in IMAGES:
                    yield path
                else:
                    self._others.append(path)

    def _files_beside(self) -> dict[str, dict[str, str]]:
        """Return the files that belong to an image, by ending and by path without it."""
        stems = Counter(str(Path(path).with_suffix("")) for path in self._paths)
        found: dict[str, dict[str, str]] = {}
        left = []
        for path in self._others:
            stem, ending = os.path.splitext(path)
            if ending in _BESIDE and stems[stem] == 1:
                found.setdefault(ending, {})[stem] = path
            else:
                left.append(os.path.relpath(path, self.root))
        if self._classes_are_used():
            left += [os.path.relpath(path, self.root) for path in self._files(self.root)]
        if left:
            some = ", ".join(sorted(left)[:3]) + (", ..." if len(left) > 3 else "")
            self.left_out = (f"{len(left)} files that are no images: {some}",)
        return found

    def _classes_are_used(self) -> bool:
        return any(os.path.dirname(path) != str(self.root) for path in self._paths)

    def _hint(self) -> str:
        endings = Counter(Path(path).suffix for path in self._others)
        if not endings:
            return ""
        some = ", ".join(
            f"{count} x {ending or 'no ending'}" for ending, count in endings.most_common(3)
        )
        return (
            f"; it has {some}. What hotlap packs is listed by `hotlap pack into --help`; any "
            "map-style dataset is packed from Python: hotlap.data.pack.pack(dataset, DST)"
        )


def _is_class(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir() and not entry.name.startswith(".")


def _read(ending: str, file: str) -> object:
    data = read_file(file)
    return load_json(data, file) if _BESIDE[ending] == "json" else data.decode()
