"""The verb: its options, and what it refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from hotlap.batch.batch_result import BatchFacts, BatchResult, SizeResult
from hotlap.cli.batch import batch
from hotlap.cli.common import console
from hotlap.core.errors import UsageError
from hotlap.reporting.batch_text import show


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "--batch-size 8", "train.py"], "it must hold {batch}"),
        (["--memory", "lots", "train.py"], "no amount of memory"),
        (["--budget", "soon", "train.py"], "no time span"),
        (["--max", "0", "train.py"], "range"),
    ],
)
def test_options_that_cannot_be(words: list[str], said: str) -> None:
    result = CliRunner().invoke(batch, words)
    assert result.exit_code == 2
    assert said in result.output


def test_no_command_and_a_shell_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(CliRunner().invoke(batch, []).exception, UsageError)
    (tmp_path / "run.sh").touch()
    words = ["--set", "--batch-size {batch}", "bash", "run.sh"]
    error = CliRunner().invoke(batch, words).exception
    assert isinstance(error, UsageError)
    assert "shell script" in str(error)


def test_the_outcome_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    script = BatchFacts(32, optimizer="SGD", lr=0.1, world=2)
    rows = {
        32: SizeResult(32, True, 100.0, 1.0, 1.0, 1.0, 0.32, 2**29),
        64: SizeResult(64, True, 150.0, 1.5, 1.4, 1.6, 0.42, 2**30),
        128: SizeResult(128, fits=False, why="out of memory"),
    }
    found = BatchResult(script, rows, 64, 64, "memory: out of memory", (64,))
    show(console(), found, brief=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "fastest: 64 on each of 2 ranks, 1.50x (1.40 to 1.60) the samples" in text
    assert "does not fit: out of memory" in text
    assert "lr 0.1 -> 0.2" in text
