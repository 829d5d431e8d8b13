"""Reading small samples at random: one file for each, or one of the larger formats."""

import random
from pathlib import Path

import numpy as np

from hotlap.bench.workloads import Sides
from hotlap.data.formats import FORMATS
from hotlap.data.formats.base import Read
from hotlap.data.pack.run import pack
from hotlap.data.pack.sources.arrays import Arrays

SAMPLES, BYTES, BATCH = 2048, 4096, 64
ORDER = random.Random(0).sample(range(SAMPLES), SAMPLES)


def _payloads() -> list[bytes]:
    rows = np.random.default_rng(0).integers(0, 256, (SAMPLES, BYTES), np.uint8)
    return [row.tobytes() for row in rows]


def _open(name: str) -> Read:
    form = next(form for form in FORMATS if form.name.lower() == name)
    path = Path(name)
    form.write(_payloads(), path)
    return form.open(path)


def _raced(read: Read) -> Sides:
    files = _open(FORMATS[0].name.lower())

    def run(one: Read) -> None:
        for number in ORDER:
            one(number)

    return Sides(lambda _: run(files), lambda _: run(read))


def tar(_: str) -> Sides:
    """A tar archive, read in order."""
    return _raced(_open("tar"))


def lmdb(_: str) -> Sides:
    """An LMDB database."""
    return _raced(_open("lmdb"))


def hdf5(_: str) -> Sides:
    """A dataset of an HDF5 file."""
    return _raced(_open("hdf5"))


def tfrecord(_: str) -> Sides:
    """A TFRecord file, read in order."""
    return _raced(_open("tfrecord"))


def store(_: str) -> Sides:
    """The packed store of hotlap, read by batches as its loader reads."""
    rows = np.frombuffer(b"".join(_payloads()), np.uint8).reshape(SAMPLES, BYTES)
    packed = pack(Arrays({"x": rows}), "store", workers=1)
    files = _open(FORMATS[0].name.lower())
    out = np.empty((BATCH, packed.length(0)), np.uint8)

    def run_files(_: int) -> None:
        for number in ORDER:
            files(number)

    def run_store(_: int) -> None:
        for start in range(0, SAMPLES, BATCH):
            packed.rows_into(np.array(ORDER[start : start + BATCH]), out)

    return Sides(run_files, run_store)
