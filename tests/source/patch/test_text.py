# ruff: noqa: E501
"""Files keep their encoding, byte order mark, line ends, mode and place; all are written or none."""

import codecs
import os
import stat

import pytest
from patching import recipe

from hotlap.core.errors import UsageError
from hotlap.core.registry import techniques
from hotlap.source.patch.plan import patch
from hotlap.source.patch.text import File, write_all

TEXT = (
    "from torch.utils.data import DataLoader\n\n# größer\nif True:\n    loader = DataLoader(\n"
    "        ds,\n        batch_size=64,\n    )\n"
)


def patched(path):
    done = patch(recipe("pinned_memory"), [File.read(path)])
    write_all(done.changed)
    return path.read_bytes()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_stay(tmp_path, end):
    path = tmp_path / "train.py"
    path.write_bytes(TEXT.replace("\n", end).encode())
    expected = TEXT.replace("batch_size=64,\n", "batch_size=64,\n        pin_memory=True,\n")
    assert patched(path) == expected.replace("\n", end).encode()


@pytest.mark.parametrize(
    ("encoding", "mark", "head"),
    [("utf-8", codecs.BOM_UTF8, ""), ("latin-1", b"", "# coding: latin-1\n")],
)
def test_encoding_and_mark_stay(tmp_path, encoding, mark, head):
    path = tmp_path / "train.py"
    path.write_bytes(mark + (head + TEXT).encode(encoding))
    after = patched(path)
    assert after.startswith(mark)
    assert "größer" in after.decode(encoding)
    assert b"pin_memory=True" in after


def test_a_missing_end_of_line_stays_missing(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TEXT.rstrip("\n"))
    assert patched(path).endswith(b")")


def test_the_mode_stays_and_a_link_stays_a_link(tmp_path):
    path, link = tmp_path / "train.py", tmp_path / "link.py"
    path.write_text(TEXT)
    path.chmod(0o750)
    link.symlink_to(path)
    patched(link)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o750  # noqa: PTH116
    assert link.is_symlink()
    assert "pin_memory" in path.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.py", "train.py"]


def test_all_are_written_or_none(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text(TEXT)
    second.write_text(TEXT)
    done = patch(recipe("pinned_memory"), [File.read(first), File.read(second)])
    second.write_text("changed = True\n")
    with pytest.raises(UsageError, match="changed meanwhile"):
        write_all(done.changed)
    assert first.read_text() == TEXT
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.py", "b.py"]


def test_classes_are_known_across_the_files(tmp_path):
    main, other = tmp_path / "main.py", tmp_path / "stream.py"
    main.write_text(
        "from stream import Stream\nfrom torch.utils.data import DataLoader\n\nDataLoader(Stream())\n"
    )
    other.write_text("from torch.utils.data import Dataset\n\n\nclass Stream(Dataset):\n    pass\n")
    files = [File.read(main), File.read(other)]
    assert "num_workers=4" in patch(recipe("loader_workers"), files).texts[files[0]]
    other.write_text(other.read_text().replace("Dataset", "IterableDataset"))
    files = [File.read(main), File.read(other)]
    done = patch(recipe("loader_workers"), files)
    assert not done.changed
    assert "each worker would yield" in done.notes[0].text


def test_lines_put_in_have_the_line_ends_of_the_file(tmp_path):
    path = tmp_path / "train.py"
    script = (
        "import torch\nfrom torch import nn\n\nmodel = nn.Linear(9, 9)\n"
        "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x in xs:\n\tloss = model(x).mean()\n\tloss.backward()\n\topt.step()\n"
    )
    path.write_bytes(script.replace("\n", "\r\n").encode())
    file = File.read(path)
    wanted = recipe("cpu_threads", "mixed_precision", "fused_pointwise", "cached_dataset")
    text = patch(wanted, [file]).texts[file]
    assert text.count("\n") == text.count("\r\n") == script.count("\n") + 4
    assert "\twith torch.autocast" in text
    assert "\t\tloss = model(x).float().mean()" in text


@pytest.mark.parametrize("text", ["", "# nothing\n", '"""Doc."""\n', "x = 1; y = 2\n"])
def test_files_with_next_to_nothing_in_them(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    wanted = recipe(*(record.id for record in techniques().values() if record.moves))
    done = patch(wanted, [File.read(path)])
    assert not done.changed
    assert done.notes
