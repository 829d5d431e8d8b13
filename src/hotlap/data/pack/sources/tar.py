"""Tar shards as WebDataset writes them."""

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from hotlap.common.extras import need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import IMAGES, stamps
from hotlap.data.pack.sources.records import Kind, Records, scanned

_Parts = dict[str, tuple[int, int]]
_TEXT = {"txt", "text", "caption", "transcript"}


class TarShards(Records):
    """Samples in tar files: members with one base name belong together.

    Of each sample the first image, or else the `.npy` array, is its data. `.cls` is its label,
    `.txt` and the like are text, `.json` is kept whole, and those of its numbers that every sample
    has are fields too; further images and all other members are kept as bytes. The tars are
    indexed once and then read at random, so they must not be compressed.
    """

    kind = "WebDataset tar"

    def __init__(self, paths: Sequence[Path], how: Settings | None = None) -> None:
        super().__init__(", ".join(map(str, paths[:3])), how)
        self._paths = list(paths)
        self._samples: list[tuple[int, str, _Parts]] = []
        for number, path in enumerate(self._paths):
            for key, parts in _index(path).items():
                self._samples.append((number, key, parts))
        self._members = list(dict.fromkeys(kind for _, _, parts in self._samples for kind in parts))
        self._json_numbers: tuple[str, ...] = ()
        self.settle(self._kinds())

    def __len__(self) -> int:
        return len(self._samples)

    def record(self, index: int) -> dict[str, object]:
        """Read the members of one sample."""
        number, _, parts = self._samples[index]
        with self._paths[number].open("rb") as file:
            members = {kind: _member(file, *place) for kind, place in parts.items()}
        found = {kind: _decoded(kind, data) for kind, data in members.items()}
        about = found.get("json")
        if isinstance(about, dict):
            found = {key: about.get(key) for key in self._json_numbers} | found
        return found

    def name(self, index: int) -> str:
        """Return tar and key."""
        number, key, _ = self._samples[index]
        return f"{self._paths[number].name}/{key}"

    def identity(self) -> str:
        """Return a digest of names, sizes and times of the tars."""
        return stamps(self._paths)

    def _kinds(self) -> dict[str, Kind]:
        """Return the kind of each member by its ending; arrays and JSON are looked at."""
        looked = scanned(self._small("json", "cls", "npy"))
        kinds = {member: looked.get(member, _kind(member)) for member in self._members}
        numbers = scanned(
            about if isinstance(about, dict) else {} for about in self._json() if about is not None
        )
        self._json_numbers = tuple(
            name
            for name, kind in numbers.items()
            if kind.name == "number" and name not in kinds and "json" in kinds
        )
        if "json" in kinds:
            kinds["json"] = Kind("json")
            kinds |= {name: Kind("number") for name in self._json_numbers}
        return kinds

    def _small(self, *endings: str) -> Iterator[dict[str, object]]:
        """Yield the small members of each sample that say what a field is."""
        for number, _, parts in self._samples:
            with self._paths[number].open("rb") as file:
                yield {
                    kind: _decoded(kind, _member(file, *place))
                    for kind, place in parts.items()
                    if kind.rpartition(".")[2] in endings and kind != "json"
                }

    def _json(self) -> Iterator[object]:
        for number, _, parts in self._samples:
            if "json" in parts:
                with self._paths[number].open("rb") as file:
                    yield _decoded("json", _member(file, *parts["json"]))
            else:
                yield {}


def _index(path: Path) -> dict[str, _Parts]:
    found: dict[str, _Parts] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.isfile():
                    folder, _, base = member.name.rpartition("/")
                    key, _, kind = base.partition(".")
                    place = (member.offset_data, member.size)
                    found.setdefault(f"{folder}/{key}".strip("/"), {})[kind.lower()] = place
    except tarfile.TarError as error:
        raise PackError(
            f"{path} cannot be indexed ({error}): it must be a whole, uncompressed tar"
        ) from None
    return found


def _member(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    data = file.read(size)
    if len(data) != size:
        raise ValueError("the tar ends inside this sample")
    return data


def _kind(member: str) -> Kind:
    last = member.rpartition(".")[2]
    if f".{last}" in IMAGES:
        return Kind("image")
    return Kind("text" if last in _TEXT else "bytes")


def _decoded(member: str, data: bytes) -> object:
    last = member.rpartition(".")[2]
    if last == "npy":
        return need("numpy").load(io.BytesIO(data), allow_pickle=False)
    if last == "json":
        return json.loads(data)
    if last == "cls":
        return _class(data.decode().strip())
    return data.decode() if last in _TEXT else data


def _class(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
