"""The GitHub Action: its steps on a small repository, and the comment they write."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import Runner, fake_tools, pull_request

from hotlap.reporting.pull_request import MARK, annotation, comment

BIN = Path(sys.executable).parent
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
RACE = {
    "commands": [
        ["abc123def:", "/venv/bin/python", "train.py"],
        ["working tree:", "python", "t.py"],
    ],
    "estimate": {"ratio": 0.8, "low": 0.7, "high": 0.9, "pairs": 12, "level": 0.95},
    "verdict": "slower",
    "too_slow": True,
    "a_step": 0.08,
    "b_step": 0.1,
}


@pytest.fixture
def repository(tmp_path):
    top = tmp_path / "workspace"
    top.mkdir()

    def git(*words):
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(["git", *author, *words], cwd=top, check=True, capture_output=True)
        return done.stdout.decode().strip()

    git("init", "-q", ".")
    (top / "train.py").write_text(SCRIPT)
    (top / "work.py").write_text("def extra(data):\n    pass\n")
    git("add", "-A")
    git("commit", "-qm", "base")
    (top / "work.py").write_text(
        "def extra(data):\n    for _ in range(300):\n        data @ data\n"
    )
    git("commit", "-qam", "slower")
    return top, git("rev-parse", "HEAD~1")


def test_the_comment_gives_ratio_interval_and_verdict():
    text = comment(RACE)
    assert text.startswith(MARK)
    assert "**slower**" in text
    assert "0.80x" in text
    assert "[0.70, 0.90]" in text
    assert "slower than this job allows" in text
    assert "`abc123def`" in text
    assert "/venv" not in text


def test_an_inconclusive_race_says_so_and_claims_no_interval():
    estimate = {"ratio": None, "low": 0.0, "high": None, "pairs": 2, "level": 0.95}
    text = comment(RACE | {"estimate": estimate, "verdict": "inconclusive", "too_slow": None})
    assert "**inconclusive**" in text
    assert "too few pairs" in text
    assert "inf" not in text


def test_a_limit_that_was_not_decided_is_said_and_annotated():
    estimate = {"ratio": 0.684, "low": 0.466, "high": 1.006, "pairs": 8, "level": 0.95}
    race = RACE | {"estimate": estimate, "verdict": "inconclusive", "too_slow": None}
    race |= {"max_slowdown": 1.05}
    words = "it took 1.46x [0.99, 2.15] as long as the base, 1.05x is allowed"
    assert f"**Could not tell whether the change is slower than this job allows: {words}" in (
        comment(race)
    )
    assert annotation(race).startswith("::warning title=hotlap race::could not tell")
    within = race | {"estimate": estimate | {"ratio": 0.99, "high": 1.5}}
    assert annotation(within).startswith("::notice ")
    assert annotation(RACE | {"max_slowdown": 1.05}) == ""


def test_lint_writes_sarif_and_a_push_is_not_raced(repository, tmp_path):
    top, base = repository
    context = pull_request(base) | {"github.event_name": "push"}
    runner = Runner(top, {"command": "python train.py", "hints": "true"}, context)
    (top / "train.py").write_text(SCRIPT + "    print(loss.item())\n")
    assert runner.run(fake_tools(tmp_path / "tools", [], BIN)) == 0
    assert runner.ran == ["install hotlap", "lint"]
    sarif = json.loads((runner.temp / "hotlap.sarif").read_text())
    assert sarif["runs"][0]["tool"]["driver"]["name"] == "hotlap"


@pytest.mark.slow
@pytest.mark.parametrize("comments", [[], [{"id": 42, "body": f"{MARK}\nold"}]])
def test_a_planted_slow_down_is_said_in_the_comment_and_fails_the_job(
    repository, tmp_path, comments
):
    top, base = repository
    runner = Runner(top, {"command": "python train.py", "budget": "60s"}, pull_request(base))
    tools = tmp_path / "tools"
    assert runner.run(fake_tools(tools, comments, BIN)) == 1
    assert runner.ran[-1] == "fail when slower"
    assert "**slower**" in (tools / "posted.md").read_text()
    last = (tools / "gh.log").read_text().splitlines()[-1]
    assert ("-X PATCH" in last and "comments/42" in last) if comments else "-X POST" in last
