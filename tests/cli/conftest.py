"""What the tests of the command line share."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotlap.cli.main import main

Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Typed]:
    """`typed(*words, cwd=folder)`: what hotlap prints, without a process of its own.

    A process takes seconds to import torch: for words that are refused, that is all it does.
    """

    def enter(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["hotlap", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, errors = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(words, ended.value.code, out, errors)

    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield enter
