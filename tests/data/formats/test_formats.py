"""Every format gives back what was written, and is compared where its library is there."""

from dataclasses import replace

import numpy as np
import pytest

from hotlap.common.extras import has
from hotlap.data.formats import FORMATS
from hotlap.data.formats.compare import STORE, _bytes, compare
from hotlap.data.pack import pack
from hotlap.data.pack.sources import Arrays

COUNT = 7


def payloads(*lengths):
    rng = np.random.default_rng(sum(lengths))
    return [rng.integers(0, 256, length, dtype=np.uint8).tobytes() for length in lengths]


def installed(form):
    for module in form.needs:
        pytest.importorskip(module)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    data = np.random.default_rng(0).integers(0, 256, (COUNT, 6, 5, 3), dtype=np.uint8)
    return pack(Arrays({"x": data}), tmp_path_factory.mktemp("rows") / "s", profile="raw")


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize(
    "lengths", [(64,) * COUNT, (5, 900, 1, 64, 33, 70_000, 2)], ids=["rows", "varied"]
)
def test_what_was_written_is_read(form, lengths, tmp_path):
    installed(form)
    if form.rows and len(set(lengths)) > 1:
        pytest.skip("for rows alone")
    wanted = payloads(*lengths)
    form.write(wanted, tmp_path / "x")
    read = form.open(tmp_path / "x")
    order = list(range(COUNT)) if form.in_order else [3, 0, 6, 3, 1, 5, 2, 4]
    assert [_bytes(read(index)) for index in order] == [wanted[index] for index in order]
    if form.in_order:
        assert _bytes(read(0)) == wanted[0], "it begins again after the last"


def test_every_usual_format_is_among_them():
    names = " ".join(form.title for form in FORMATS)
    for name in ("a file each", "WebDataset", "LMDB", "HDF5", "TFRecord", "Arrow", "Parquet",
                 ".npy", ".pth"):  # fmt: skip
        assert name in names
    assert len({form.title for form in FORMATS}) == len(FORMATS)


def test_all_are_timed_and_the_fastest_come_first(rows):
    found = compare(rows, 5)
    timed = [row for row in found if not row.note]
    wanted = {STORE} | {form.title for form in FORMATS if all(map(has, form.needs))}
    assert {row.name for row in timed} == wanted
    assert [row.cpu for row in timed] == sorted(row.cpu for row in timed)
    assert all(row.wall > 0 for row in timed)


def test_a_missing_library_is_a_row_that_says_what_to_install(rows, monkeypatch):
    monkeypatch.setattr(compare.__module__ + ".has", lambda module: module != "lmdb")
    notes = {row.name: row.note for row in compare(rows, 3)}
    assert notes["LMDB"] == (
        "needs lmdb, which is not installed: pip install 'hotlap[formats]' (or lmdb alone)"
    )
    assert notes["HDF5"] == ""


def test_a_library_that_fails_is_a_row_that_says_so(rows, monkeypatch):
    def breaks(*_):
        raise RuntimeError("built for another numpy")

    def cheats(_):
        return lambda _: b"something else"

    plain = FORMATS[0]
    odd = (replace(plain, name="broken", write=breaks), replace(plain, name="lossy", open=cheats))
    monkeypatch.setattr(compare.__module__ + ".FORMATS", (plain, *odd))
    notes = {row.name: row.note for row in compare(rows, 3)}
    assert notes["broken"] == "its library failed: RuntimeError: built for another numpy"
    assert "other bytes" in notes["lossy"]
    assert notes[plain.title] == ""


def test_no_room_is_an_error(rows, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(OSError, match="comparing needs"):
        compare(rows, 3)
