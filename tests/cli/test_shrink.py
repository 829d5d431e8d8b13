"""`hotlap shrink` from the command line to the files that load again."""

import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotlap.cli.main import hotlap
from hotlap.model.user_functions import Evaluation, InputError, build
from hotlap.reporting.shrink_text import Found, interval, plot

pytest.importorskip("torch_pruning")
pytest.importorskip("torchao")

PROGRAM = """
import time
import torch
from torch import nn
from torch.nn import functional

X = torch.randn(256, 16, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()

def build():
    return nn.Sequential(nn.Linear(16, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 2))

def train(model, steps=60):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(steps):
        loss = functional.cross_entropy(model(X), Y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("this goes to the log")

def evaluate(model):
    return (model(X).argmax(1) == Y).float().mean().item()

def test(model):
    return evaluate(model)

def worse(model):
    return 0.9 if model(X).shape[1] == 2 and model[0].out_features == 512 else 0.5

class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 2)

    def forward(self, x, mask=None, scale=1.0, *, double=False, **more):
        return self.last(self.first(x).relu()) * scale * (2 if double else 1)

def named(model):
    return (model(scale=2.0, x=X).argmax(1) == Y).float().mean().item()

def unplaced(model):
    return model(x=X, double=True).sum()

def text(model):
    model(X)
    return "good"

def blind(model):
    return 1.0

def broken(model):
    raise RuntimeError("out of cheese")

def endless(model):
    time.sleep(600)

if __name__ == "__main__":
    torch.manual_seed(0)
    model = build()
    train(model)
    state = {"module." + name: tensor for name, tensor in model.state_dict().items()}
    torch.save({"model_state_dict": state}, "net.pt")
"""
WORDS = ["net:build", "--checkpoint", "net.pt", "--evaluate", "net:evaluate"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shrink")
    (folder / "net.py").write_text(PROGRAM)
    with contextlib.chdir(folder):
        runpy.run_path("net.py", run_name="__main__")
    return folder


def call(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hotlap", "shrink", *words],
        cwd=place, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_model_is_shrunk_and_loads_again(place: Path) -> None:
    done = call(place, *WORDS, "--train", "net:train", "--params", "0.5x", "--max-drop", "5pt",
                "--seeds", "2", "--precision", "int8", "--json", "--output", "small",
                "--test", "net:test")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {row["name"]: row for row in found["candidates"]}
    assert {"fuse", "quantise int8", "prune to 0.5x + fine-tune",
            "prune to 0.25x + distil + quantise int8"} <= rows.keys()  # fmt: skip
    chosen = rows[found["written"]["name"]]
    assert chosen["meets"]
    assert len(chosen["qualities"]) == 2
    assert chosen["parameters"] <= 0.5 * found["original"]["parameters"]
    assert any(row["front"] for row in rows.values())
    assert found["tested"] == {"original": found["original"]["quality"], "holds": True,
                               "qualities": chosen["qualities"]}  # fmt: skip
    (report,) = (place / ".hotlap" / "reports").glob("*-shrink.html")
    assert report.read_text().count("<circle") == len(rows)
    assert "--test:" in report.read_text()
    assert "this goes to the log" in (place / ".hotlap" / "shrink.log").read_text()
    program = (
        "import sys; sys.path.insert(0, 'small'); import load, net\n"
        "print(net.evaluate(load.load()))"
    )
    again = subprocess.run([sys.executable, "-c", program], cwd=place, check=True,
                           capture_output=True, text=True)  # fmt: skip
    assert float(again.stdout) == pytest.approx(chosen["qualities"][0], abs=1e-6)


@pytest.mark.slow
def test_a_target_out_of_reach_writes_nothing_and_says_what_is_missed(place: Path) -> None:
    done = call(place, *WORDS, "--latency", "1000x", "--precision", "int4", "--output", "none")
    assert done.returncode == 1
    assert (
        "skipped quantise int4: int4 is for a model on a GPU; int8 runs on the CPU" in done.stdout
    )
    assert "no candidate meets all targets" in done.stdout
    assert "latency" in done.stdout
    assert not (place / "none").exists()


def test_a_winner_that_loses_on_data_that_chose_nothing_is_named(place: Path) -> None:
    done = call(place, *WORDS, "--train", "net:train", "--params", "0.5x", "--max-drop", "5pt",
                "--seeds", "2", "--precision", "none", "--output", "lost",
                "--test", "net:worse")  # fmt: skip
    assert done.returncode == 1
    assert (
        "--test: 0.5 ± 0 (2 seeds), the original 0.9; more than --max-drop is lost" in done.stdout
    )
    assert json.loads((place / "lost" / "how.json").read_text())["tested"]["holds"] is False


def test_a_model_that_is_called_with_keywords_is_pruned(place: Path) -> None:
    done = call(place, "net:Named", "--evaluate", "net:named", "--params", "0.6x", "--json",
                "--max-drop", "100pt", "--precision", "none", "--output", "named")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["written"]["name"].startswith("prune to 0.")


@pytest.mark.parametrize(("words", "code", "message"), [
    (["nothing:build", "--evaluate", "net:evaluate"], 2, "no module nothing"),
    (["net:build", "--evaluate", "net:text"], 2, "must return one number"),
    (["net:build", "--evaluate", "net:blind"], 2, "did not call the model"),
    (["net:build", "--evaluate", "net:broken"], 4, "out of cheese"),
    pytest.param(["net:evaluate", "--evaluate", "net:evaluate"], 4, "missing 1 required",
                 marks=pytest.mark.slow),
])  # fmt: skip
def test_what_is_wrong_is_said(
    place: Path, words: list[str], code: int, message: str,
    typed: Callable[..., subprocess.CompletedProcess[str]],
) -> None:  # fmt: skip
    done = typed("shrink", *words, cwd=place)
    assert message in done.stderr
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "checkpoint", "message"), [
    ("net:nothing", None, "net has no function 'nothing'"), ("net.py", None, "names no function"),
    ("gone.py:build", None, "no file gone.py"), ("net:build", "net.py", "cannot be read"),
])  # fmt: skip
def test_a_model_that_cannot_be_had_is_said(
    place: Path, words: str, checkpoint: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the functions that the verb's child calls: what they raise is shown as above."""
    reachable(place, monkeypatch)
    with pytest.raises(InputError, match=message):
        build(words, checkpoint)


def test_an_evaluation_by_keywords_that_have_no_position_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reachable(place, monkeypatch)
    with pytest.raises(InputError) as refused:
        Evaluation("net:unplaced")(build("net:Named", None))
    assert "that its forward does not take by position" in str(refused.value)


def reachable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is the working directory, and its module is imported anew."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    monkeypatch.delitem(sys.modules, "net", raising=False)


@pytest.mark.parametrize(("option", "value", "message"), [
    ("--params", "2x", "keeps all parameters"), ("--latency", "fast", "try 0.5x or 2x"),
    ("--max-drop", "half", "0.5pt or 2%"), ("--checkpoint", "gone.pt", "does not exist"),
])  # fmt: skip
def test_options_that_cannot_be_read(option: str, value: str, message: str) -> None:
    result = CliRunner().invoke(hotlap, ["shrink", "a:b", "--evaluate", "a:c", option, value])
    assert result.exit_code == 2
    assert message in result.output


def test_ctrl_c_keeps_what_is_known_and_ends_the_child(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", "shrink", *WORDS, "--train", "net:endless", "--json"],
        cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    child = 0
    for _ in range(600):
        time.sleep(0.2)
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        child = int(listed[0]) if listed else child
        if child and _reached_sleep(child):
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    found = json.loads(out)
    assert process.returncode == 130
    assert found["interrupted"]
    assert "fuse" in {row["name"] for row in found["candidates"]}
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def _reached_sleep(child: int) -> bool:
    """Whether it has used no processor time for half a second."""

    def used() -> int:
        return sum(int(n) for n in Path(f"/proc/{child}/stat").read_text().split()[13:15])

    before = used()
    time.sleep(1.5)
    return before > 100 and used() == before


def test_the_front_and_the_interval() -> None:
    rows = [
        {"name": name, "latency": [gain, gain, gain], "bytes": size, "qualities": [quality]}
        for name, gain, size, quality in
        (("a", 2.0, 10, 0.9), ("b", 1.5, 10, 0.8), ("c", 1.0, 5, 0.9), ("d", 1.0, 20, 0.95))
    ]  # fmt: skip
    found = Found({"lower_is_better": False}, candidates={row["name"]: row for row in rows})
    assert {row["name"] for row in found.rows() if row["front"]} == {"a", "c", "d"}
    mean, half = interval([1.0, 2.0, 3.0])
    assert (mean, half) == (2.0, pytest.approx(4.303 / 3**0.5, rel=0.01))
    assert interval([1.0]) == (1.0, None)
    drawn = plot(found.rows())
    assert sum(line.count("o") for line in drawn[1:11]) == 3
    assert sum(line.split("|")[1].count(".") for line in drawn[1:11]) == 1
