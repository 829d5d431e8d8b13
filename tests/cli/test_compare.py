"""Two documents side by side; one tune at a time in a directory."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hotlap.cli.main import hotlap
from hotlap.core.errors import UsageError


def profile(step: float, **more: Any) -> dict[str, Any]:
    return {"verb": "profile", "hotlap": "1", "command": "python t.py", "step": step,
            "phases": [{"name": "data", "mean": step / 2}], "samples_per_second": 64 / step,
            "peak_memory": 2**30, "memory_by_owner": {"parameters": 2**20},
            "machine": {"fingerprint": "a"}, **more}  # fmt: skip


def files(folder: Path, *documents: Any) -> list[str]:
    found = []
    for index, document in enumerate(documents):
        path = folder / f"{index}.json"
        path.write_text(json.dumps(document))
        found.append(str(path))
    return found


def test_profiles_are_compared_figure_by_figure(tmp_path: Path) -> None:
    names = files(tmp_path, profile(0.2), profile(0.1, machine={"fingerprint": "b"}))
    shown = CliRunner().invoke(hotlap, ["compare", *names])
    assert shown.exit_code == 0
    line = next(line for line in shown.output.splitlines() if line.startswith("step"))
    assert line.split() == ["step", "200.0", "ms", "100.0", "ms", "2.00x"]
    assert "different machines" in shown.output
    line = next(line for line in shown.output.splitlines() if line.startswith("samples/s"))
    assert line.split()[-1] == "2.00x", "more than 1 means that B is better, of rates too"
    assert "B better by" in shown.output
    found = json.loads(CliRunner().invoke(hotlap, ["compare", "--json", *names]).output)
    assert {row["name"]: row["ratio"] for row in found["rows"]}["data loading"] == 2.0


def test_tunes_are_compared_by_ratios_that_have_an_interval(tmp_path: Path) -> None:
    def tune(ratio: float, low: float, command: list[str]) -> dict[str, Any]:
        known = {"ratio": 1.2, "low": 1.1, "high": 1.3, "pairs": 9, "level": 0.95}
        vague = {"ratio": ratio, "low": low, "high": 1 / low, "pairs": 2, "level": 0.95}
        rows = [{"technique": "tf32", "race": {"estimate": known}},
                {"technique": "cpu_threads", "race": {"estimate": vague}}]  # fmt: skip
        return {"verb": "tune", "outcomes": rows, "command": command, "needed": 585.0}

    names = files(
        tmp_path, tune(0.75, 0.001, ["python", "a b.py"]), tune(0.59, 0.002, ["python", "b.py"])
    )
    shown = CliRunner().invoke(hotlap, ["compare", *names]).output
    assert "tf32, ratio" in shown
    assert "cpu_threads" not in shown
    assert "585" not in shown
    assert "different commands: python 'a b.py' and python b.py" in " ".join(shown.split())


def test_races_stand_side_by_side_with_verdict_and_interval(tmp_path: Path) -> None:
    def race(verdict: str, ratio: float, low: float | None, high: float | None) -> dict[str, Any]:
        estimate = {"ratio": ratio, "low": low, "high": high, "pairs": 9, "level": 0.95}
        return {"verb": "race", "estimate": estimate, "verdict": verdict, "a_step": 0.0655,
                "b_step": 0.03, "launches": 3}  # fmt: skip

    vague = race("inconclusive", 0.7, None, None)
    names = files(tmp_path, race("faster", 1.51, 1.2, 1.92), race("slower", 0.5, 0.4, 0.6), vague)
    shown = CliRunner().invoke(hotlap, ["compare", *names[:2]]).output
    assert "1.51x [1.20, 1.92] faster  0.50x [0.40, 0.60] slower" in shown
    assert "65.5 ms" in shown
    assert "3.02x" not in shown, "a ratio of ratios says nothing"
    assert "better" not in shown
    assert "launches" not in shown
    assert "inconclusive" in CliRunner().invoke(hotlap, ["compare", *names[1:]]).output


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ((profile(1), {"verb": "tune"}), "a document of profile and one of tune"),
        (({"verb": "lint"}, {"verb": "lint"}), "no figure in common"),
        (([1], profile(1)), "is no document of hotlap"),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, documents: Any, message: str) -> None:
    result = CliRunner().invoke(hotlap, ["compare", *files(tmp_path, *documents)])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


@pytest.mark.parametrize("words", [["tune", "t.py"], ["race", "t.py", "--", "t.py"]])
def test_a_second_verb_that_writes_the_same_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".hotlap").mkdir()
    (tmp_path / "t.py").write_text("")
    with (tmp_path / ".hotlap" / "lock").open("w") as file:
        file.write("hotlap tune (process 7)")
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "hotlap", *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "hotlap tune (process 7) works in this directory already" in done.stderr
