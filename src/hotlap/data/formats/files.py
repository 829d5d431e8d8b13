"""A file each, and tar shards: with Python's own reader and with WebDataset's."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hotlap.common.extras import need
from hotlap.data.formats.base import Format, Read, in_order


def _files_write(payloads: Sequence[bytes], path: Path) -> None:
    path.mkdir()
    for index, data in enumerate(payloads):
        (path / f"{index:08d}").write_bytes(data)


def _files_open(path: Path) -> Read:
    return lambda index: (path / f"{index:08d}").read_bytes()


def _tar_write(payloads: Sequence[bytes], path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for index, data in enumerate(payloads):
            member = tarfile.TarInfo(f"{index:08d}.bin")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def _members(path: Path) -> Iterator[bytes]:
    with tarfile.open(path) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is not None:
                yield file.read()


def _shards_write(payloads: Sequence[bytes], path: Path) -> None:
    with need("webdataset").TarWriter(str(path)) as tar:
        for index, data in enumerate(payloads):
            tar.write({"__key__": f"{index:08d}", "bin": data})


def _shards_open(path: Path) -> Read:
    def begin() -> Iterator[object]:
        samples = need("webdataset").WebDataset(str(path), shardshuffle=False)
        return (sample["bin"] for sample in samples)

    return in_order(begin)


FILES = Format("a file each", (), _files_write, _files_open)
TAR = Format("tar", (), _tar_write, lambda path: in_order(lambda: _members(path)), in_order=True)
WEBDATASET = Format("WebDataset", ("webdataset",), _shards_write, _shards_open, in_order=True)
