"""What the verbs share."""

import io
import json
import os
from pathlib import Path

import click
import pytest
from rich.table import Table

from hotlap.cli import common, reports


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *cells: str) -> str:
    monkeypatch.setattr("sys.stdout", stream)
    table = Table(box=None, show_header=False)
    for _ in cells:
        table.add_column(no_wrap=True)
    table.add_row(*cells)
    common.console().print(table)
    return stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CELLS = ("a name " * 12, "b" * 90, "c")


def test_nothing_is_cut_off_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = printed(monkeypatch, io.StringIO(), *CELLS)
    assert all(cell.strip() in text for cell in CELLS)
    assert len(text.splitlines()) == 1


def test_a_width_that_was_asked_for_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    text = printed(monkeypatch, io.StringIO(), *CELLS)
    assert max(map(len, text.splitlines())) <= 70


def test_a_terminal_has_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = printed(monkeypatch, Terminal(), *CELLS)
    assert max(map(len, text.splitlines())) < common.WIDE


def test_each_document_says_what_made_it() -> None:
    from click.testing import CliRunner

    from hotlap.cli.explain import explain

    document = json.loads(CliRunner().invoke(explain, ["--json", "tf32"]).output)
    assert document["schema_version"] == common.SCHEMA_VERSION
    assert document["verb"] == "explain"
    assert {"hotlap", "arguments", "techniques"} <= set(document)
    assert common.headed(document) == document


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("5 min", 300), ("1h30m", 5400), ("1.5h", 5400),
     ("1h 30 min 5 sec", 5405), ("2hrs", 7200)],
)  # fmt: skip
def test_a_time_span_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert common.time_span(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-3", "5x", "30m1h", "1e3", "0s", "nan"])
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        common.time_span(text)


def test_a_report_that_cannot_be_written_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = {"verb": "lr", "command": ["python", "train.py"], "schema_version": 1}
    (tmp_path / ".hotlap").mkdir()
    (tmp_path / ".hotlap" / "reports").touch()
    said = reports.keep(document)
    assert said.startswith("no report was written: ")
    assert said.endswith(("File exists", "Not a directory"))


@pytest.mark.parametrize(
    ("written", "ends", "most", "said"),
    [
        (b"y\nn\n", True, 1000, ""),
        (b"", False, 1000, ""),
        (b"y\n", False, 1000, "goes on: each trial reads the first 2 bytes"),
        (b"y\n" * 1000, False, 1000, "goes on: each trial reads the first 2,000 bytes"),
    ],
    ids=["ended", "silent", "paused", "endless"],
)
def test_a_pipe_that_stays_open_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    written: bytes, ends: bool, most: int, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(common, "PAUSE_OF_INPUT", 0.1)
    monkeypatch.setattr(common, "MOST_INPUT", most)
    read, write = os.pipe()
    os.write(write, written)
    if ends:
        os.close(write)
    with open(read) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        copy = common.stdin_copy(tmp_path)
    assert copy is not None
    assert copy.read_bytes() == written
    told = capsys.readouterr().err
    assert said in told
    assert bool(told) is bool(said)
    if not ends:
        os.close(write)


def test_a_file_is_copied_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "MOST_INPUT", 10)
    (tmp_path / "answers").write_bytes(b"y\n" * 1000)
    with (tmp_path / "answers").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        copy = common.stdin_copy(tmp_path)
    assert copy is not None
    assert copy.read_bytes() == b"y\n" * 1000
