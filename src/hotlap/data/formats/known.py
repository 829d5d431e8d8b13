"""How each format writes payloads, and reads them back by number."""

import io
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.data.extras import need

Read = Callable[[int], bytes]


@dataclass(frozen=True)
class Format:
    """One format: `write(payloads, path)`, then `open(path)` gives a function of the number.

    `needs` are the modules it is read with; `rows`: only for payloads of one length.
    """

    name: str
    needs: tuple[str, ...]
    write: Callable[[Sequence[bytes], Path], None]
    open: Callable[[Path], Read]
    rows: bool = False


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


def _tar_open(path: Path) -> Read:
    """Read in the order of the tar, as WebDataset does: the number is not looked at."""
    tar = tarfile.open(path)  # noqa: SIM115
    state = {"tar": tar}

    def read(_: int) -> bytes:
        member = state["tar"].next()
        if member is None:
            state["tar"].close()
            state["tar"] = tarfile.open(path)  # noqa: SIM115
            member = state["tar"].next()
        file = state["tar"].extractfile(member) if member else None
        return file.read() if file else b""

    return read


def _lmdb_write(payloads: Sequence[bytes], path: Path) -> None:
    size = 2 * sum(map(len, payloads)) + (64 << 20)
    with need("lmdb").open(str(path), map_size=size) as base, base.begin(write=True) as change:
        for index, data in enumerate(payloads):
            change.put(index.to_bytes(8, "big"), data)


def _lmdb_open(path: Path) -> Read:
    base = need("lmdb").open(str(path), readonly=True, lock=False, readahead=False)
    look = base.begin()
    return lambda index: bytes(look.get(index.to_bytes(8, "big")))


def _hdf5_write(payloads: Sequence[bytes], path: Path) -> None:
    numpy = need("numpy")
    with need("h5py").File(path, "w") as file:
        table = file.create_dataset("x", (len(payloads), len(payloads[0])), "u1")
        for index, data in enumerate(payloads):
            table[index] = numpy.frombuffer(data, "u1")


def _hdf5_open(path: Path) -> Read:
    table = need("h5py").File(path, "r")["x"]
    return lambda index: bytes(table[index].tobytes())


def _npy_write(payloads: Sequence[bytes], path: Path) -> None:
    numpy = need("numpy")
    with path.open("wb") as file:
        numpy.save(file, numpy.stack([numpy.frombuffer(data, "u1") for data in payloads]))


def _npy_open(path: Path) -> Read:
    table = need("numpy").load(path, mmap_mode="r")
    return lambda index: bytes(table[index].tobytes())


def _pth_write(payloads: Sequence[bytes], path: Path) -> None:
    import torch

    numpy = need("numpy")
    rows = numpy.stack([numpy.frombuffer(data, "u1") for data in payloads])
    torch.save(torch.from_numpy(rows), path)


def _pth_open(path: Path) -> Read:
    import torch

    table = torch.load(path, weights_only=True)
    return lambda index: bytes(table[index].numpy().tobytes())


FORMATS = (
    Format("a file each", (), _files_write, _files_open),
    Format("tar, in order", (), _tar_write, _tar_open),
    Format("LMDB", ("lmdb",), _lmdb_write, _lmdb_open),
    Format("HDF5", ("h5py",), _hdf5_write, _hdf5_open, rows=True),
    Format(".npy, mapped", ("numpy",), _npy_write, _npy_open, rows=True),
    Format(".pth", ("numpy",), _pth_write, _pth_open, rows=True),
)
