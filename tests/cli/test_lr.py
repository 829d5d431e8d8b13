"""`hotlap lr` on unmodified scripts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from light import light

MAIN = "from hotlap.cli.lr import lr; import hotlap.cli.main as m; m.VERBS['lr'] = ''; m.main()"
SCRIPT = """
import sys
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5000)
x = torch.randn(256, 8)
y = 3 * x[:, :1] - x[:, 1:2]
for step in range(int(sys.argv[1])):
    batch = torch.randint(256, (64,))
    optimizer.zero_grad()
    loss = (model(x[batch]) - y[batch]).square().mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(step, optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"], flush=True)
    with open("log.txt", "a") as file:
        file.write("step\\n")
    torch.save(model.state_dict(), "model.pt")
"""


def start(*words: str, cwd: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "lr", *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(*words: str, cwd: Path, code: int = 0) -> tuple[str, str]:
    running = start(*words, cwd=cwd)
    out, errors = running.communicate(timeout=120)
    assert running.returncode == code, errors + out
    assert "Traceback" not in errors
    return out, errors


def document(*words: str, cwd: Path, code: int = 0) -> Any:
    return json.loads(call("--json", *words, cwd=cwd, code=code)[0])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "log.txt").write_text("mine\n")
    return folder


def test_the_script_is_swept_and_unharmed(project: Path) -> None:
    png = project / "curve.png"
    found = document("--steps", "60", "--png", str(png), "train.py", "100000", cwd=project)
    assert found["ended"] in ("diverged", "end of the sweep")
    assert len(found["rates"]) == len(found["losses"]) > 30
    assert found["rates"][0] == pytest.approx(1e-6)
    assert 1e-3 < found["suggestion"] < 1
    assert found["optimizers"] == ["SGD"]
    assert png.read_bytes().startswith(b"\x89PNG")
    assert (project / "log.txt").read_text() == "mine\n"
    assert (project / "train.py").read_text() == SCRIPT
    assert {path.name for path in project.iterdir()} == {
        ".hotlap", "train.py", "log.txt", "curve.png"
    }  # fmt: skip
    lines = (project / ".hotlap" / "lr.log").read_text().splitlines()
    rates = [float(line.split()[1]) for line in lines]
    assert 0.004 <= min(rates) <= max(rates) < 0.006  # the scheduler's own figures went on
    momenta = [float(line.split()[2]) for line in lines]
    assert max(momenta) > min(momenta)


@pytest.mark.slow
def test_the_curve_is_the_scripts_own_at_those_rates(project: Path) -> None:
    """The losses are those of the script with the rates written into it, and nothing else."""
    found = document("--steps", "20", "--to", "0.1", "train.py", "100000", cwd=project)
    driven = SCRIPT.replace(
        "    optimizer.step()\n    scheduler.step()\n",
        "    rate = 1e-6 * (0.1 / 1e-6) ** (min(step, 19) / 19)\n"
        "    optimizer.param_groups[0].update(lr=rate, momentum=0.95)\n"
        "    optimizer.step()\n    losses.append(loss.item())\n",
    ).replace("x = torch.randn(256, 8)", "x = torch.randn(256, 8); losses = []")
    (project / "driven.py").write_text(driven + "\nimport json; print(json.dumps(losses))\n")
    done = subprocess.run(
        [sys.executable, "driven.py", "21"], cwd=project, capture_output=True, text=True, check=True
    )
    losses = json.loads(done.stdout.splitlines()[-1])
    assert found["first"] == pytest.approx(losses[0], rel=1e-6)
    assert found["losses"] == pytest.approx(losses[1:], rel=1e-5)


@pytest.mark.slow
def test_a_short_run_is_used_whole(project: Path) -> None:
    out, _ = call("--steps", "200", "train.py", "41", cwd=project)
    assert "the program's whole run has 40 steps" in out or "diverged" in out
    assert "so the sweep was made that" in out
    assert "│" in out
    assert "learning rate" in out


GAN = """
import torch
from torch import nn
torch.manual_seed(0)
one, two = nn.Linear(4, 1), nn.Linear(4, 1)
first = torch.optim.SGD(one.parameters(), lr=0.01)
second = torch.optim.Adam([{"params": [two.weight]}, {"params": [two.bias], "lr": 1e-4}], lr=1e-3)
x = torch.randn(64, 4)
while True:
    for model, optimizer, bias in ((one, first, 5.0), (two, second, 100.0)):
        optimizer.zero_grad()
        ((model(x) - x.sum(1, keepdim=True)).square().mean() + bias).backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_of_two_optimizers_one_is_driven(project: Path) -> None:
    (project / "gan.py").write_text(GAN)
    two = document("--steps", "20", "--to", "0.1", "--optimizer", "2", "gan.py", cwd=project)
    assert two["optimizers"] == ["SGD", "Adam"]
    assert all(loss > 50 for loss in two["losses"])
    (project / "short.py").write_text(GAN.replace("while True", "for _ in range(9)"))
    _, errors = call("--optimizer", "3", "short.py", cwd=project, code=2)
    assert "--optimizer 3" in errors
    assert "1 SGD, 2 Adam" in errors


def test_interrupting_shows_what_is_known(project: Path) -> None:
    slow = SCRIPT.replace("    scheduler.step()\n", "    import time; time.sleep(0.05)\n")
    (project / "slow.py").write_text(shorter(slow))
    running = start("--json", "--steps", "4000", "slow.py", "100000", cwd=project)
    log = project / ".hotlap" / "lr.log"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and log.read_text().count("\n") > 15):
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    found = json.loads(out)
    assert found["ended"] == "interrupted"
    assert len(found["losses"]) > 10


def shorter(script: str) -> str:
    return light(script.replace(", momentum=0.9", ""))


FAILS = "\n    if step == 15: raise SystemExit('planted failure')\n"


@pytest.mark.parametrize(
    ("script", "words", "code", "message"),
    [
        ("print('no torch')", [], 3, "no Python process with torch was seen"),
        ("raise SystemExit('broken')", [], 4, "broken"),
        (shorter(SCRIPT + FAILS), [], 4, "planted failure"),
    ],
)
def test_what_went_wrong_is_said(
    project: Path, script: str, words: list[str], code: int, message: str
) -> None:
    (project / "bad.py").write_text(script)
    _, errors = call(*words, "bad.py", "200", cwd=project, code=code)
    assert message in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "1", "--to", "0.1"], "from 1 to 0.1"),
        (["--steps", "2"], "2 steps are too few"),
        (["--png", "no/folder/curve.png"], "there is no folder"),
    ],
)
def test_what_is_refused_before_anything_runs(
    project: Path, words: list[str], message: str,
    typed: Callable[..., subprocess.CompletedProcess[str]],
) -> None:  # fmt: skip
    done = typed("lr", *words, "train.py", "200", cwd=project)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_script_that_dies_of_a_wild_rate_has_diverged(project: Path) -> None:
    dies = SCRIPT + "\n    assert loss < 99, 'loss is wild'\n"
    (project / "dies.py").write_text(dies)
    found = document("--steps", "60", "--to", "1000", "dies.py", "100000", cwd=project)
    assert found["ended"] == "diverged"
    assert found["suggestion"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "idiom", ["grad_accumulation", "own_scaler", "optimizer_list", "lbfgs", "lightning_trainer"]
)
def test_idioms(idiom: str, tmp_path: Path) -> None:
    from idioms.manifest import FOLDER

    if idiom == "lightning_trainer":
        pytest.importorskip("lightning")
    script = FOLDER / f"{idiom}.py"
    found = document("--steps", "40", "--to", "0.1", str(script), cwd=tmp_path)
    assert found["whole_run"] or found["ended"] == "diverged"
    assert len(found["losses"]) >= 8
    assert all(loss is not None for loss in found["losses"][:5])
    assert os.listdir(tmp_path) == [".hotlap"]  # noqa: PTH208
