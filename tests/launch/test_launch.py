"""Ranks killed, nodes lost, hangs, signals: training goes on, and nothing is left behind."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotlap.launch.settings import RESTARTS
from launch import killing

HANGING = Path(__file__).with_name("hanging.py")


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> list[killing.Step]:
    """The same training, with nothing that happens to it."""
    return killing.whole(tmp_path_factory.mktemp("whole"))


def check(row: dict[str, object]) -> None:
    assert row["recovered"], row
    assert row["apart"] < 1e-6
    assert row["orphans"] == 0


@pytest.mark.slow
def test_a_lost_rank_is_survived(tmp_path: Path, wanted: list[killing.Step]) -> None:
    check(killing.lose_a_rank(tmp_path, wanted, random.Random(1), "ddp"))


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["launcher", "torchrun"])
def test_a_lost_node_is_survived_by_the_other(
    victim: str, tmp_path: Path, wanted: list[killing.Step]
) -> None:
    row = killing.lose_a_node(tmp_path, wanted, random.Random(2), "fsdp", victim)
    check(row)
    assert row["code_of_the_lost"] == -signal.SIGKILL


@pytest.mark.slow
def test_a_node_that_comes_later_joins(tmp_path: Path, wanted: list[killing.Step]) -> None:
    port = killing.free_port()
    nodes = [killing.node(tmp_path, port, 0, 2, "ddp", "0.5")]
    try:
        killing.wait_for(lambda: len(killing.steps(tmp_path)) > 5, tmp_path)
        nodes.append(killing.node(tmp_path, port, 1, 2, "ddp", "0.5"))
        assert [killing.ended(each, tmp_path) for each in nodes] == [0, 0]
    finally:
        killing.finish(*nodes)
    found = killing.steps(tmp_path)
    assert [found[0].world, found[-1].world] == [1, 2]
    assert found[-1].count == killing.STEPS
    assert killing.apart(found, wanted) < 1e-6


@pytest.mark.slow
def test_twenty_lost_ranks_are_survived(tmp_path: Path, wanted: list[killing.Step]) -> None:
    draw = random.Random(3)
    for number in range(20):
        layout = ("ddp", "fsdp")[number % 2]
        check(killing.lose_a_rank(tmp_path / str(number), wanted, draw, layout))


@pytest.mark.parametrize("number", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_kills_while_saving_leave_whole_checkpoints(
    number: int, tmp_path: Path, wanted: list[killing.Step]
) -> None:
    draw = random.Random(number)
    for index in range(number):
        folder = tmp_path / str(index // 3)
        row = killing.lose_everything_in_a_save(folder, wanted, draw, "fsdp")
        assert row["intact"], row


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hotlap", "launch", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


@pytest.mark.slow
def test_a_hang_is_ended_and_shown_and_training_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("--nproc-per-node", "2", "--hang-timeout", "15", str(HANGING))
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("through") == 2
    assert "rank 1 stands after step 2:" in result.stderr
    assert re.search(r"hanging\.py:\d+ in stands_still", result.stderr)
    assert "hotlap: rank 0 stands after step 2:" in result.stderr
    assert result.stderr.count("started again") == 1
    assert len(list((tmp_path / ".hotlap").glob("hang-*.txt"))) == 1


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_all_ranks(number: int, tmp_path: Path) -> None:
    process = killing.launch(tmp_path, "--nproc-per-node", "2", training=("ddp", "4", "5"))
    try:
        killing.wait_for(lambda: killing.steps(tmp_path), tmp_path)
        process.send_signal(number)
        assert killing.ended(process, tmp_path) != 0
    finally:
        killing.finish(process)
    killing.wait_for(lambda: not killing.orphans(tmp_path), tmp_path, 10)
    assert not (tmp_path / "finished").exists()


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_rank_and_a_killed_torchrun_is_started_again(
    tmp_path: Path,
) -> None:
    process = killing.launch(tmp_path, "--nproc-per-node", "2", training=("ddp", "2", "0.2"))
    try:
        killing.wait_for(lambda: len(killing.steps(tmp_path)) > 6, tmp_path)
        before = len(killing.steps(tmp_path))
        os.kill(killing._agent(process.pid), signal.SIGKILL)
        killing.wait_for(lambda: len(killing.steps(tmp_path)) > before + 1, tmp_path)
        assert killing.steps(tmp_path)[-1].count > 4  # it resumed
        assert "torchrun was killed" in (tmp_path / "output").read_text()
        process.kill()
        killing.wait_for(lambda: not killing.orphans(tmp_path), tmp_path, 10)
    finally:
        killing.finish(process)


@pytest.mark.slow
def test_a_failing_script_keeps_torchruns_exit_code(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text("print('tried', flush=True)\nraise SystemExit(3)\n")
    began = time.monotonic()
    result = run("--max-restarts", "1", str(script))
    assert result.returncode == 1
    assert result.stdout.count("tried") == 2
    assert "exitcode  : 3" in result.stderr
    assert time.monotonic() - began < 120
    assert RESTARTS == 3


@pytest.mark.slow
def test_output_stays_the_scripts_own(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    script.write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['OMP_NUM_THREADS'], flush=True)\n"
    )
    result = run("--nproc-per-node=2", str(script), "--lr", "0.1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("['--lr', '0.1']") == 2
