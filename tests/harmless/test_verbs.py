"""Each verb that runs trials, in each tier, on a program that writes in several ways."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.trial.tree_diff import changed, tree_hash

OURS = (".hotlap", "hotlap.toml", "hotlap.unconfirmed.toml")
VERBS = {
    "profile": ("profile", "--steps", "12"),
    "tune": ("tune", "--budget", "30s", "--only", "fused_optimizer"),
    "race": ("race", "--budget", "20s", sys.executable, "train.py", "--"),
    "lr": ("lr",),
    "batch": ("batch",),
}
PROGRAM = """
import io, os, sqlite3, subprocess, torch
from contextlib import suppress

def native():
    subprocess.run("echo more >> mine; rm -f old; cp mine best; chmod 600 mine", shell=True)
    with suppress(OSError, sqlite3.Error):
        io.FileIO("mine", "w").close()
    with suppress(OSError, sqlite3.Error):
        sqlite3.Connection("base.db").execute("create table if not exists t (x)")

data = torch.utils.data.TensorDataset(torch.randn(4096, 8), torch.randn(4096, 1))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(40):
    for x, y in torch.utils.data.DataLoader(data, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    torch.save(model.state_dict(), "last.pt")
    open("log", "a").write("x")
    if os.environ["HOTLAP_ISOLATION"] == "overlay":
        native()
"""


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["overlay", "landlock"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_leaves_the_tree_as_it_was(tmp_path: Path, verb: str, tier: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    for name in ("mine", "old", "last.pt", "log", "base.db"):
        (tmp_path / name).write_text("")
    before = tree_hash(tmp_path, OURS)
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", *VERBS[verb], sys.executable, "train.py"],
        cwd=tmp_path, env=os.environ | {"HOTLAP_ISOLATION": tier}, timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "is not possible here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert changed(before, tree_hash(tmp_path, OURS)) == ()
