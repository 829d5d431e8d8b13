"""The verbs on a script of several ranks: its own output, the recipe in every rank, kills."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "ranks.py"
HOTLAP = (sys.executable, "-m", "hotlap")
TORCHRUN = (
    *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
    *("--local-addr", "127.0.0.1", "--nproc-per-node", "2"),
)
RECIPE = """\
[techniques.ddp_unused_search]
[techniques.ddp_gradient_view]
[techniques.ddp_compress]
dtype = "bfloat16"
"""


def outcome(folder: Path, *words: object) -> tuple[int, str, str]:
    command = [str(word) for word in words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_recipe_takes_hold_in_ranks_that_were_forked(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").write_text(RECIPE)
    train = (sys.executable, SCRIPT, "--search", "--steps", "30")
    code, plain, _ = outcome(tmp_path, *train)
    assert code == 0
    code, tuned, said = outcome(tmp_path, *HOTLAP, "run", *train)
    assert code == 0, said
    assert "did not take hold" not in said
    assert "not applied" not in said
    losses = [float(re.search(r"loss ([\d.]+)", text)[1]) for text in (plain, tuned)]  # type: ignore[index]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_a_technique_that_finds_no_ddp_is_told(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").write_text("[techniques.ddp_static_graph]\n")
    mlp = SCRIPT.with_name("mlp.py")
    code, _, said = outcome(tmp_path, *HOTLAP, "run", sys.executable, mlp, "--steps", "3")
    assert code == 0
    assert "ddp_static_graph did not take hold" in said


def ranks(hotlap: int) -> list[psutil.Process]:
    """The ranks below hotlap that are running, not stopped: those of the side whose turn it is."""
    found = []
    for process in psutil.Process(hotlap).children(recursive=True):
        try:
            if "RANK" in process.environ() and process.status() != psutil.STATUS_STOPPED:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
def test_a_tune_goes_on_when_a_rank_is_killed(tmp_path: Path) -> None:
    tune = [*HOTLAP, "tune", "--budget", "200s", "--only", "fused_optimizer"]
    train = [*TORCHRUN, str(SCRIPT), "--search", "--depth", "8"]
    log = tmp_path / "said"
    with log.open("wb") as out:
        hotlap = subprocess.Popen(
            [*tune, *train], cwd=tmp_path, stdout=out, stderr=out, env={**os.environ}
        )
    killed = 0
    end = time.monotonic() + 400
    while hotlap.poll() is None and time.monotonic() < end:
        if not killed and b"against itself" in log.read_bytes():
            time.sleep(15)
            for process in ranks(hotlap.pid)[:1]:
                process.kill()
                killed += 1
        time.sleep(0.5)
    said = log.read_text()
    assert hotlap.wait(10) in (0, 1), said
    assert killed == 1
    assert "killed by SIGKILL" in said
    assert re.search(
        r"^technique +speed|nothing that was raced|inconclusive:", said, re.MULTILINE
    ), said
