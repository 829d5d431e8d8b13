"""LMDB, HDF5 and TFRecord."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from hotlap.common.extras import need
from hotlap.data.formats.base import Format, Read, in_order

ROOM = 64 << 20


def _lmdb_write(payloads: Sequence[bytes], path: Path) -> None:
    size = 2 * sum(map(len, payloads)) + ROOM
    with need("lmdb").open(str(path), map_size=size) as base, base.begin(write=True) as change:
        for index, data in enumerate(payloads):
            change.put(index.to_bytes(8, "big"), data)


def _lmdb_open(path: Path) -> Read:
    base = need("lmdb").open(str(path), readonly=True, lock=False, readahead=False)
    look = base.begin()
    return lambda index: bytes(look.get(index.to_bytes(8, "big")))


def _hdf5_write(payloads: Sequence[bytes], path: Path) -> None:
    """One table of rows, or of byte strings where lengths differ."""
    numpy, h5py = need("numpy"), need("h5py")
    lengths = {len(data) for data in payloads}
    alike = len(lengths) == 1
    shape = (len(payloads), *lengths) if alike else (len(payloads),)
    with h5py.File(path, "w") as file:
        table = file.create_dataset("x", shape, "u1" if alike else h5py.vlen_dtype("u1"))
        for index, data in enumerate(payloads):
            table[index] = numpy.frombuffer(data, "u1")


def _hdf5_open(path: Path) -> Read:
    table = need("h5py").File(path, "r")["x"]
    return lambda index: table[index]


def _tfrecord_write(payloads: Sequence[bytes], path: Path) -> None:
    writer = need("tfrecord").TFRecordWriter(str(path))
    for data in payloads:
        writer.write({"x": (data, "byte")})
    writer.close()


def _tfrecord_open(path: Path) -> Read:
    def begin() -> Iterator[object]:
        records = need("tfrecord.reader").tfrecord_loader(str(path), None, {"x": "byte"})
        return (record["x"] for record in records)

    return in_order(begin)


LMDB = Format("LMDB", ("lmdb",), _lmdb_write, _lmdb_open)
HDF5 = Format("HDF5", ("h5py", "numpy"), _hdf5_write, _hdf5_open)
TFRECORD = Format("TFRecord", ("tfrecord",), _tfrecord_write, _tfrecord_open, in_order=True)
