"""The examples of the documentation run, in order, on small data."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from data.images import folder
from hotlap.cli.pack import pack

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)


@pytest.mark.parametrize("page", ["how-to/pack.md", "data.md"])
def test_the_examples_run(page, tmp_path, monkeypatch):
    folder(tmp_path / "photos", height=90, width=110)
    np.random.default_rng(0).integers(0, 9, 2000).astype("u2").tofile(tmp_path / "tokens.bin")
    monkeypatch.chdir(tmp_path)
    if page == "data.md":
        _run("hotlap pack photos packed")
    names = {}
    ran = 0
    for kind, text in blocks(page):
        if kind == "sh":
            for line in text.splitlines():
                _run(line)
        else:
            exec(compile(text, page, "exec"), names)
        ran += 1
    assert ran >= 3


def _run(line):
    program, verb, *args = shlex.split(line)
    assert (program, verb) == ("hotlap", "pack")
    result = CliRunner().invoke(pack, args, standalone_mode=False)
    assert result.exception is None, (line, result.exception)
