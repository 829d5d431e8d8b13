"""A layer without space: a clear message, and the user's files as they were."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.core.spec import Mode, Tier
from hotlap.isolation.tree_diff import changed, tree_hash
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting

TRAIN = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.save(torch.zeros({numbers}), "last.pt")
for step in range(400):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""
# A small disk below `.hotlap`, seen by this one process and what it starts.
SMALL_DISK = "mount -t tmpfs -o size=4m none .hotlap && exec "
NUMBERS = 4 << 20  # 16 MiB


def profiled(project: Path, *, numbers: int) -> "subprocess.CompletedProcess[str]":
    (project / "train.py").write_text(TRAIN.format(numbers=numbers))
    (project / "last.pt").write_text("mine")
    (project / ".hotlap").mkdir()
    python = sys.executable
    command = f"{SMALL_DISK} {python} -m hotlap profile --steps 20 {python} train.py"
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", command], cwd=project, timeout=200, check=False,
        env=os.environ | {"HOTLAP_ISOLATION": "overlay"}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root mounts a disk"
)
@pytest.mark.parametrize("numbers", [pytest.param(4, marks=pytest.mark.slow), NUMBERS])
def test_a_full_layer_says_where_it_lies(tmp_path: Path, numbers: int) -> None:
    done = profiled(tmp_path, numbers=numbers)
    if "unshare" in done.stderr or "mount:" in done.stderr or "not possible" in done.stderr:
        pytest.skip(done.stderr)
    assert (tmp_path / "last.pt").read_text() == "mine"
    said = done.stdout + done.stderr
    assert (done.returncode == 0) == (numbers == 4), said
    assert ("replace .hotlap by a link to a folder on a larger disk" in said) == (numbers != 4)


def test_the_layer_may_lie_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: Callable[[Tier], None]
) -> None:
    project, larger = tmp_path / "project", tmp_path / "larger"
    project.mkdir()
    larger.mkdir()
    (project / ".hotlap").symlink_to(larger)
    (project / "mine").write_text("mine\n")
    monkeypatch.chdir(project)
    force(Tier.OVERLAY)
    before = tree_hash(project, [".hotlap"])
    log = larger / "log"
    command = "echo more >> mine; cat mine; rm mine; ls .hotlap/scratch | wc -l"
    setting = Setting(
        ("sh", "-c", command), Mode.RACE, scratch=project / ".hotlap" / "scratch", output=log
    )
    assert run_foreground(setting, lambda _: False) == 0
    assert log.read_text() == "mine\nmore\n1\n"
    assert changed(before, tree_hash(project, [".hotlap"])) == ()
    assert not list((larger / "scratch").iterdir())
