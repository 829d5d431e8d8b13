"""`hotlap race --until`: short trainings of which one reaches the target sooner."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from hotlap.cli.race import race
from hotlap.core.errors import UsageError
from light import light

SCRIPT = """
import json, sys
import torch
import hotlap

torch.manual_seed(0)
rate, steps = float(sys.argv[1]), int(sys.argv[2])
inputs, weights = torch.randn(512, 32), torch.randn(32, 1)
targets = inputs @ weights
model = torch.nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
log = open("metrics.jsonl", "w", buffering=1)
for step in range(steps):
    rows = torch.randint(0, 512, (64,))
    loss = (model(inputs[rows]) - targets[rows]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        with torch.no_grad():
            error = (model(inputs) - targets).square().mean().item()
        print(f"step {step}: val mse {error:.5f}", flush=True)
        hotlap.report("reported_mse", error)
        log.write(json.dumps({"logged_mse": error}) + "\\n")
"""


def raced(folder, *words):
    (folder / "train.py").write_text(light(SCRIPT))
    command = [sys.executable, "-m", "hotlap", "race", "--json", "--seeds", "3", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def commands(steps="1000000"):
    slow, fast = ([sys.executable, "train.py", rate, steps] for rate in ("0.0005", "0.005"))
    return [*slow, "--", *fast]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--until", "loss<1"), marks=pytest.mark.slow),
        pytest.param(("--until", "val_mse<1"), marks=pytest.mark.slow),
        ("--until", "reported_mse<1"),
        pytest.param(
            ("--until", "logged_mse<1", "--metric-file", "metrics.jsonl"), marks=pytest.mark.slow
        ),
        pytest.param(
            ("--until", "mse<1", "--metric-pattern", r"val mse ([\d.]+)"), marks=pytest.mark.slow
        ),
    ],
    ids=["loss", "output", "reported", "file", "pattern"],
)
def test_the_sooner_command_is_named_wherever_the_metric_stands(tmp_path, words):
    done = raced(tmp_path, "--budget", "90s", *words, *commands())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["pairs"]) == 3
    assert found["ratio"]["ratio"] > 1
    assert found["verdict"] in ("faster", "inconclusive")
    assert not found["same_losses"]  # the script's own seed is moved
    assert (tmp_path / "metrics.jsonl").exists() is False


@pytest.mark.slow
def test_a_program_that_ends_before_the_target_is_reported_so(tmp_path):
    done = raced(tmp_path, "--until", "val_mse<0", "--budget", "60s", *commands("300"))
    found = json.loads(done.stdout)
    assert all(
        side["ended"] and not side["time"]["reached"] for pair in found["pairs"] for side in pair
    )
    assert found["verdict"] == "inconclusive"
    assert all(side["best"] > 0 for pair in found["pairs"] for side in pair)


@pytest.mark.slow
def test_a_metric_that_is_never_seen_is_an_error_that_says_where_to_put_it(tmp_path):
    done = raced(tmp_path, "--until", "accuracy>1", "--budget", "60s", *commands("100"))
    assert done.returncode == 2
    assert "never seen" in done.stderr
    assert "--metric-pattern" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--until", "accuracy"], "is no target"),
        (["--until", "a>1", "--max-slowdown", "1.1"], "--max-slowdown is for races by steps"),
        (["--until", "a>1", "--metric-pattern", "("], "--metric-pattern"),
        (["--until", "a>1", "--metric-pattern", "x"], "exactly one group"),
        (["--until", "a>1", "--metric-pattern", "(a|b) (.*)"], "it has 2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    python = [sys.executable, "-V", "--", sys.executable, "-V"]
    found = CliRunner().invoke(race, [*words, *python])
    assert isinstance(found.exception, UsageError)
    assert says in str(found.exception)
