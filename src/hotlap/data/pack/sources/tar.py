"""Tar shards as WebDataset writes them."""

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotlap.data.errors import PackError
from hotlap.data.extras import need
from hotlap.data.pack.sources.base import IMAGES, Plain, Sample, stamps

_Parts = dict[str, tuple[int, int]]


class TarShards(Plain):
    """Samples in tar files: members with one base name belong together.

    Of each sample the image (or the `.npy` array) is its data; `.cls` is its label, and the
    numbers in `.json` are fields. The tars are indexed once and then read at random, so they must
    not be compressed.
    """

    kind = "WebDataset tar"

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self._samples: list[tuple[int, str, _Parts]] = []
        for number, path in enumerate(self._paths):
            for key, parts in _index(path).items():
                self._samples.append((number, key, parts))
        if not self._samples:
            raise PackError(f"there are no samples in {', '.join(map(str, self._paths[:3]))}")

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, index: int) -> Sample:
        """Read the members of one sample."""
        number, _, parts = self._samples[index]
        with self._paths[number].open("rb") as file:
            members = {kind: _member(file, *place) for kind, place in parts.items()}
        return Sample(_data(members), self.name(index), _fields(members))

    def name(self, index: int) -> str:
        """Return tar and key."""
        number, key, _ = self._samples[index]
        return f"{self._paths[number].name}/{key}"

    def identity(self) -> str:
        """Return a digest of names, sizes and times of the tars."""
        return stamps(self._paths)


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


def _member(file: Any, at: int, size: int) -> bytes:
    file.seek(at)
    data: bytes = file.read(size)
    if len(data) != size:
        raise ValueError("the tar ends inside this sample")
    return data


def _data(members: dict[str, bytes]) -> Any:
    for kind, data in members.items():
        last = kind.rpartition(".")[2]
        if f".{last}" in IMAGES:
            return data
        if last == "npy":
            return need("numpy").load(io.BytesIO(data), allow_pickle=False)
    raise ValueError(f"no image or .npy among its members {sorted(members)}")


def _fields(members: dict[str, bytes]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "json" in members:
        about = json.loads(members["json"])
        if isinstance(about, dict):
            fields = {k: v for k, v in about.items() if isinstance(v, int | float)}
    if "cls" in members:
        fields["label"] = int(members["cls"])
    return fields
