"""Rates of reading: within bounds of bytes, nothing left behind, honest about the page cache."""

import os

import pytest

from hotlap.profile import rates as module
from hotlap.profile.rates import rates


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "WRITTEN", 2 << 20)
    for number in range(20):
        (tmp_path / f"{number}.jpg").write_bytes(os.urandom(20_000 + number))
    os.sync()
    return [str(tmp_path / f"{number}.jpg") for number in range(20)]


def test_small_files_are_read_whole_and_nothing_stays(files, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    found = rates(files)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    if found is None:
        pytest.skip("this file system keeps its pages")
    assert 20_000 <= found.each <= 20_019
    assert found.random > 0
    assert found.ram > 0


def test_what_stays_in_the_page_cache_is_not_taken_for_the_disk(files, monkeypatch):
    monkeypatch.setattr(module, "_is_cached", lambda *_: True)
    assert rates(files) is None


def test_parts_of_large_files_are_read_at_random(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGE", 1 << 20)
    path = tmp_path / "all.bin"
    path.write_bytes(os.urandom(4 << 20))
    pieces = module._pieces([str(path)])
    assert sorted(start for _, start, _ in pieces) == list(range(0, 4 << 20, module.PIECE))
    assert [start for _, start, _ in pieces] != sorted(start for _, start, _ in pieces)


def test_reading_ends_at_its_bounds(files, monkeypatch):
    read = []
    monkeypatch.setattr(module, "_with", lambda path, use: read.append(path) or 1 << 20)
    monkeypatch.setattr(module, "MOST_BYTES", 3 << 20)
    module._rate([(path, 0, 1 << 20) for path in files])
    assert len(read) == 4
    assert len(module._chosen(files * 99)) <= module.MOST_FILES


def test_files_that_are_gone_or_closed_are_left_out(tmp_path):
    assert rates([]) is None
    (tmp_path / "empty").touch()
    assert rates([str(tmp_path / "empty"), str(tmp_path / "gone")]) is None


def test_a_folder_that_cannot_be_written_to_gives_no_rate(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError("no")

    monkeypatch.setattr(module.tempfile, "mkstemp", refused)
    with module._written(tmp_path) as path:
        assert path == ""


def test_a_trial_file_goes_even_if_the_disk_is_full(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with module._written(tmp_path) as path:
        assert path == ""
    assert list(tmp_path.iterdir()) == []
