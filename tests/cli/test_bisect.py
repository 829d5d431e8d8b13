"""`hotlap bisect` and `hotlap race --git`, from the command line."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotlap.cli.bisect import bisect
from hotlap.cli.race import race

SCRIPT = """
import torch
from work import extra

torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 64)
for step in range(1_000_000):
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    extra(data)
"""
EXTRA = "def extra(data):\n    for _ in range({times}):\n        data @ data\n"
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org")


@pytest.mark.parametrize(
    ("verb", "words", "says"),
    [
        (bisect, ["HEAD", "--", "python", "train.py"], "in no git repository"),
        (bisect, ["HEAD"], "a revision and a command"),
        (bisect, ["a", "b", "c", "--", "train.py"], "a revision and a command"),
        (race, ["--git", "HEAD", "a", "b", "--", "python", "-V"], "one revision beside"),
        (race, ["--git", "HEAD", "--", "python", "-V"], "in no git repository"),
    ],
)
def test_what_cannot_be_raced_is_refused(tmp_path, monkeypatch, verb, words, says):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(verb, words)
    assert says in str(found.exception)


@pytest.mark.slow
def test_the_commit_that_slowed_the_step_is_found(tmp_path):
    def run(*words):
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    run("git", "init", "-q", ".")
    (tmp_path / "train.py").write_text(SCRIPT)
    for number in range(8):
        slow = number >= 5
        (tmp_path / "work.py").write_text(EXTRA.format(times=200 if slow else 1) + f"# {number}\n")
        run("git", "add", "-A")
        run("git", *AUTHOR, "commit", "-qm", f"change {number}")
    hotlap = Path(sys.executable).parent / "hotlap"
    done = run(str(hotlap), "bisect", "--budget", "20s", "HEAD~7", "--", sys.executable, "train.py")
    assert "the step became slower with this commit" in done.stdout
    assert "change 5" in done.stdout.splitlines()[-1]
    assert run("git", "status", "--porcelain").stdout == ""
