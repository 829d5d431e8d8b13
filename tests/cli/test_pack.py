import errno
import json

import click
import numpy as np
import pytest
from click.testing import CliRunner

from data.images import folder
from hotlap.cli.pack import pack
from hotlap.core.errors import HotlapError, UsageError
from hotlap.data import Store


def run(*args):
    return CliRunner().invoke(pack, [str(arg) for arg in args], standalone_mode=False)


def test_pack_info_verify_and_bench(tmp_path):
    folder(tmp_path / "src", classes=3)
    done = run(tmp_path / "src", tmp_path / "s", "--shuffle", "--seed", 3, "--shards", 2)
    assert "18 samples (image folder), profile jpeg, " in done.output
    assert "  it holds image files as they are, decoded whenever they are read\n" in done.output
    assert done.output.endswith("to read it: hotlap explain packed_dataset\n")
    assert "2 shards, 3 classes" in done.output
    assert Store(tmp_path / "s").manifest.settings["seed"] == 3
    told = json.loads(run("info", tmp_path / "s", "--json").output)
    assert (told["count"], told["classes"]) == (18, ["class0", "class1", "class2"])
    assert "18 samples" in run("info", tmp_path / "s").output
    assert "every checksum agrees" in run("verify", tmp_path / "s").output
    rows = json.loads(run("bench", tmp_path / "s", "--json").output)["rows"]
    assert {"hotlap store", "LMDB", "tar, in order", "a file each"} <= {
        r["name"] for r in rows if r["cpu"] > 0
    }
    notes = {row["name"]: row["note"] for row in rows}
    assert notes[".npy, mapped"] == "for rows of one length only"


def test_a_reader_of_the_output_that_goes_is_no_fault_of_the_files(tmp_path, monkeypatch):
    def gone(*_):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("hotlap.data.store.Store", gone)
    done = run("info", tmp_path)
    assert (done.exit_code, done.output) == (1, "")
    assert not isinstance(done.exception, HotlapError)


@pytest.mark.parametrize(
    ("args", "kept", "line"),
    [
        (
            ("--resize", 16),
            "  it holds JPEGs encoded anew where size or turn differ",
            "hotlap explain",
        ),
        (
            ("--profile", "raw", "--resize", "16x16"),
            "profile raw,",
            '/s", batch_size=64, shuffle=True)',
        ),
    ],
)
def test_a_pack_says_what_it_holds_and_how_it_is_read(tmp_path, args, kept, line):
    folder(tmp_path / "src")
    done = run(tmp_path / "src", tmp_path / "s", *args)
    assert kept in done.output
    assert line in done.output.splitlines()[-1]
    assert "to read it" not in run(tmp_path / "src", tmp_path / "q", "--quiet", *args).output


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch):
    folder(tmp_path / "src")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("hotlap.data.pack.pack", interrupted)
    done = run(tmp_path / "src", tmp_path / "s")
    assert f"finished shards stay in {tmp_path / 's'}.partial; the same command" in done.stderr
    assert done.exit_code


def test_what_the_error_of_a_bad_file_says_works(tmp_path):
    paths = folder(tmp_path / "src", each=60)
    paths[70].write_bytes(paths[70].read_bytes()[:900])
    args = (tmp_path / "src", tmp_path / "s", "--shards", 6)
    said = str(run(*args).exception)
    assert said.startswith("class1/010.jpg: is a damaged JPEG")
    assert said.endswith("to go on without it: --on-error skip")
    done = run(*args, "--on-error", "skip")
    assert "119 samples" in done.output
    assert "1 left out or replaced" in done.output
    assert "left out: class1/010.jpg" in run("info", tmp_path / "s").output


def test_rows_are_compared_with_every_format(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 9, (20, 30), dtype=np.uint8))
    assert run("--profile", "raw", tmp_path / "x.npy", tmp_path / "s").exit_code == 0
    shown = run("bench", tmp_path / "s").output
    for name in ("hotlap store", "HDF5", ".npy, mapped", ".pth"):
        assert name in shown


def test_an_altered_store_fails_verification(tmp_path):
    folder(tmp_path / "src")
    run(tmp_path / "src", tmp_path / "s")
    shard = tmp_path / "s" / "shard-00000.bin"
    data = bytearray(shard.read_bytes())
    data[99] ^= 1
    shard.write_bytes(data)
    result = run("verify", tmp_path / "s")
    assert "sample 0 (class0/000.jpg)" in result.output
    assert result.exit_code == 1 or result.return_value == 1


@pytest.mark.parametrize(
    ("args", "kind", "says"),
    [
        (("none", "s"), UsageError, "does not exist"),
        (("info", "none"), click.UsageError, "does not exist"),
        (("src", "src"), UsageError, "exists: remove it"),
        (("src", "s", "--shards", "0"), UsageError, "shards is 0"),
        (("bench", "s", "--samples", "0"), click.UsageError, "0 is not in the range"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, args, kind, says):
    folder(tmp_path / "src")
    monkeypatch.chdir(tmp_path)
    error = run(*args).exception
    assert isinstance(error, kind)
    assert says in str(error)


def test_an_error_at_once_draws_no_bar(tmp_path):
    folder(tmp_path / "src")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine").touch()
    done = run(tmp_path / "src", tmp_path / "s")
    assert "exists" in str(done.exception)
    assert "━" not in done.stderr


def test_small_stores_have_a_size_too(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((20, 30), np.float32))
    shown = run("--profile", "raw", tmp_path / "x.npy", tmp_path / "s").output
    assert "2.4 kB in 1 shard, rows of float32 30" in shown


def test_sizes_are_n_or_height_x_width(tmp_path):
    folder(tmp_path / "src")
    run(tmp_path / "src", tmp_path / "s", "--profile", "raw", "--resize", "20x30")
    assert Store(tmp_path / "s").row.shape == (20, 30, 3)
    error = run(tmp_path / "src", tmp_path / "t", "--resize", "0x3").exception
    assert "is no size: give N or HEIGHTxWIDTH" in str(error)


def test_tokens_with_document_ends(tmp_path):
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "t.bin")
    result = run(tmp_path / "t.bin", tmp_path / "s", "--profile", "tokens", "--end", 99)
    assert result.exit_code == 0
    assert Store(tmp_path / "s").table("documents").tolist() == [0, 100]
