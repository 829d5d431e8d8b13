"""Which ranks a block waits for; with messages made up, then with real ranks."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from hotlap.core.errors import NotReachedError, TrialFailedError
from hotlap.core.spec import Mode
from hotlap.notebook.script import HEADER
from hotlap.trial import trial as module
from hotlap.trial.channel import Message
from hotlap.trial.launch import Setting
from hotlap.trial.race import race
from hotlap.trial.reach import STOOD, Reach, advice, last_words
from hotlap.trial.side import Side
from hotlap.trial.stopping import StoppingRules
from hotlap.trial.trial import FOREVER, Ended, Ranks, Trial

SCRIPT = Path(__file__).parent.parent / "scripts" / "ranks.py"
ELASTIC = (
    *(sys.executable, "-m", "torch.distributed.run"),
    *("--local-addr", "127.0.0.1", "--nproc-per-node", "2"),
)
TORCHRUN = (*ELASTIC, "--standalone")


class Peer:
    def __init__(self) -> None:
        self.orders: list[int] = []

    def send(self, **fields: Any) -> None:
        self.orders.append(fields["go"])


def block(peer: Peer, rank: int, losses: list[float], world: int = 2) -> Message:
    fields = {"rank": rank, "world": world, "losses": losses, "wall": 0.1}
    return Message("block", fields, peer)  # type: ignore[arg-type]


def test_a_block_is_complete_with_its_last_rank_and_losses_are_the_mean() -> None:
    ranks, first, second = Ranks(), Peer(), Peer()
    for losses in ([3.0, 2.0], [1.0]):
        ranks.begin()
        ranks.see(block(second, 1, [x + 1 for x in losses]))
        assert not ranks.complete()
        ranks.see(block(first, 0, losses))
        assert ranks.complete()
        assert [message.peer for message in ranks.reports] == [first, second]
    assert ranks.losses == [3.5, 2.5, 1.5]
    assert not first.orders
    assert not second.orders


def test_who_does_not_come_is_let_run_and_one_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STRAGGLE", -1.0)
    ranks, first, second = Ranks(), Peer(), Peer()
    ranks.see(block(first, 0, [3.0]))
    ranks.see(block(second, 1, [5.0]))
    assert ranks.complete()
    ranks.begin()
    ranks.tick()  # nobody waits yet
    ranks.see(block(second, 1, [4.0]))
    assert not ranks.complete()
    ranks.tick()
    assert ranks.complete()
    assert ranks.losses == [5.0, 4.0]
    assert first.orders == [FOREVER]
    ranks.begin()
    ranks.see(block(first, 0, [2.0]))  # it came after all
    assert not ranks.complete()
    assert first.orders == [FOREVER, FOREVER]
    ranks.see(block(second, 1, [1.0]))
    assert ranks.complete()
    assert ranks.losses == [5.0, 4.0, 1.0]
    assert not second.orders


def test_a_process_that_trains_for_itself_is_let_run() -> None:
    ranks, first, other = Ranks(), Peer(), Peer()
    ranks.see(block(first, 0, [1.0], world=1))
    assert ranks.complete()
    ranks.begin()
    ranks.see(block(other, 0, [9.0], world=1))
    assert not ranks.complete()
    assert other.orders == [FOREVER]
    ranks.see(Message("gone", {}, first))  # type: ignore[arg-type]
    ranks.see(block(other, 0, [2.0], world=1))
    assert ranks.complete()


REPORT = """\
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
=======================================================
train.py FAILED
-------------------------------------------------------
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 19553)  (SIGTERM)
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_08:18:59
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 19554)
  error_file: <N/A>
=======================================================
"""


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (REPORT.format(code=-9), "rank 1 was killed by SIGKILL (exit code -9)"),
        (REPORT.format(code=3), "rank 1 ended with exit code 3"),
        (
            "[rank1]: Traceback (most recent call last):\n[rank1]:   File 'x'\n"
            "[rank0]: OSError: gone\n[rank1]: ValueError: planted\n" + REPORT.format(code=1),
            "rank 1 failed: ValueError: planted",
        ),
        (REPORT.format(code=-9) + "another trial\nRuntimeError: later\n", "RuntimeError: later"),
        ("step 1\n\nMemoryError\n\n", "MemoryError"),
        (
            "ValueError: planted\nepoch 1/5: 39%|███▉ | 7/18 [00:12<00:22, 2.07s/it]\n",
            "ValueError: planted",
        ),
        ("KeyError: 'x'\r7it [00:12, 2.07s/it]\r\n", "KeyError: 'x'"),
        (
            "ValueError: planted\n[rank1]:[W1123 21:52:11.263 reducer.cpp] Warning: x",
            "ValueError: planted",
        ),
        ("[W1123 21:52:11.263 reducer.cpp:1529] x\n", "[W1123 21:52:11.263 reducer.cpp:1529] x"),
        ("", ""),
    ],
)
def test_last_words(tmp_path: Path, written: str, words: str) -> None:
    output = tmp_path / "log"
    output.write_text(written)
    assert last_words(output) == words
    assert last_words(tmp_path / "none") == ""
    assert advice(output) == ""


def test_earlier_cells_take_what_they_take() -> None:
    reach = Reach(0.0)
    reach.see(Message("before", {}, Any))  # type: ignore[arg-type]
    time.sleep(0.01)
    reach.see(None)
    with pytest.raises(NotReachedError, match="earlier cells"):
        reach.see(Message("cell", {}, Any))  # type: ignore[arg-type]


def test_ranks_that_look_for_an_unknown_name_are_advised(tmp_path: Path) -> None:
    output = tmp_path / "log"
    output.write_text("[c10d] The IPv6 network addresses of (box, 1) cannot be retrieved (gai)\n")
    assert "--local-addr 127.0.0.1" in advice(output)
    with pytest.raises(NotReachedError) as failed:
        Reach(0.0, output).see(None)
    assert "GLOO_SOCKET_IFNAME=lo" in failed.value.hint
    assert "GLOO_SOCKET_IFNAME=lo" in Reach(1.0, output).failure(1).hint


@pytest.mark.parametrize(
    "words",
    [
        "torch.distributed.DistNetworkError: port: 29511, code: -98, name: EADDRINUSE, message: x",
        "OSError: [Errno 98] Address already in use",
    ],
)
def test_a_port_that_both_sides_want_is_advised(tmp_path: Path, words: str) -> None:
    output = tmp_path / "log"
    output.write_text(f"{words}\n[rank1]:[W1123 21:52:11.26 reducer.cpp] Warning: x\n")
    failed = Reach(1.0, output).failure(1)
    assert words in str(failed)
    assert "both sides want the same port" in failed.hint


def test_a_port_that_the_program_did_without_is_not_advised(tmp_path: Path) -> None:
    output = tmp_path / "log"
    output.write_text("OSError: [Errno 98] Address already in use\nValueError: planted\n")
    failed = Reach(1.0, output).failure(1)
    assert "planted" in str(failed)
    assert "same port" not in failed.hint


def seen(reach: Reach, *kinds: str) -> Reach:
    for kind in kinds:
        reach.see(Message(kind, {}, Any))  # type: ignore[arg-type]
    return reach


@pytest.mark.parametrize(
    ("words", "by_its_own_limit"),
    [
        ("TimeoutError: a step took more than 60 s", True),
        ("queue.Empty", True),
        ("socket.timeout: timed out", True),
        ("watchdog: no step for 300 s", True),
        ("ValueError: sample 30 of times.csv is empty", False),
        ("RuntimeError: changed dimensions", False),
    ],
)
def test_a_time_limit_of_the_program_that_a_race_may_have_met_is_named(
    tmp_path: Path, words: str, by_its_own_limit: bool
) -> None:
    output = tmp_path / "log"
    output.write_text(f"{words}\n")
    raced = seen(Reach(1.0, output), "backward", "block").failure(1)
    assert (raced.hint == STOOD) is by_its_own_limit
    assert STOOD not in seen(Reach(1.0, output), "backward").failure(1).hint


def test_a_training_in_the_background_is_no_python_without_hotlap() -> None:
    reach = Reach(1.0)
    reach.leaves("process 12: python train.py")
    assert "left process 12: python train.py running" in reach.failure(0).hint


@pytest.mark.parametrize(
    ("code", "kinds", "said"),
    [
        (3, (), "the program ended with exit code 3 before its first training step"),
        (3, ("backward",), "the program ended with exit code 3"),
        (-11, ("backward",), "the program was killed by SIGSEGV (exit code -11)"),
        (-40, (), "the program was killed by signal 40 (exit code -40) before its first"),
    ],
)
def test_a_program_that_died_without_a_word_is_not_said_to_have_died_earlier(
    code: int, kinds: tuple[str, ...], said: str
) -> None:
    told = str(seen(Reach(1.0), *kinds).failure(code))
    assert told.startswith(said)
    assert ("before" in told) is ("before" in said)


def setting(tmp_path: Path, *words: Any) -> Setting:
    command = tuple(map(str, words))
    scratch, output = tmp_path / "scratch", tmp_path / "log"
    return Setting(command, Mode.RACE, seed=0, scratch=scratch, output=output)


def test_all_ranks_run_the_same_steps_and_stop_together(tmp_path: Path) -> None:
    """A trial that is held on its way loses no patience, and starts no slower."""
    begin = time.monotonic()
    with Trial(setting(tmp_path, sys.executable, SCRIPT), 60) as trial:
        time.sleep(0.5)
        trial.hold()
        deadline = trial._reach._deadline
        time.sleep(1.0)
        assert {psutil.Process(pid).status() for pid in trial.pids()} == {psutil.STATUS_STOPPED}
        assert trial.channel.messages.empty(), "it was stopped on its way"
        assert trial.first().at == 1
        assert trial._reach._deadline >= deadline + 1.0
        assert 1.0 <= trial.stood < time.monotonic() - begin - 0.5
        trial.hold()  # what has come to its first step is not held
        found = trial.run(7)
        assert [(r.rank, r.steps, r.at) for r in found.reports] == [(0, 7, 8), (1, 7, 8)]
        own = [report.losses for report in found.reports]
        assert own[0] != own[1]
        assert trial.losses[1:] == [(a + b) / 2 for a, b in zip(*own, strict=True)]
        assert found.resident >= sum(report.resident for report in found.reports)
        trial.pause()
        time.sleep(0.1)
        processes = [psutil.Process(pid) for pid in trial.pids()]
        assert {p.status() for p in processes} == {psutil.STATUS_STOPPED}
        assert len(processes) >= 3  # the script and its two ranks
        assert trial.run(3).at == 11


@pytest.mark.slow
def test_a_rank_that_is_the_daemonic_child_of_another_does_not_stand_as_a_loaders_worker(
    tmp_path: Path,
) -> None:
    command = (sys.executable, str(SCRIPT), "--daemon")
    with Trial(Setting(command, Mode.RACE, scratch=tmp_path / "scratch", seed=0)) as trial:
        trial.deadline = time.monotonic() + 60
        trial.first()
        assert len(trial.run(5).reports) == 2


@pytest.mark.parametrize("wait", [0.0, 0.02, 0.1])
def test_a_trial_that_is_held_while_it_starts_can_be_closed(tmp_path: Path, wait: float) -> None:
    with Trial(setting(tmp_path, sys.executable, SCRIPT), 60) as trial:
        time.sleep(wait)
        trial.hold()
        begin = time.monotonic()
    assert time.monotonic() - begin < 20.0
    assert not trial.pids()


@pytest.mark.slow
def test_ranks_of_uneven_length_do_not_wait_for_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRAGGLE", 0.5)
    script = setting(tmp_path, sys.executable, SCRIPT, "--uneven", "--steps", "60")
    with Trial(script, 60) as trial:
        trial.first()
        assert len(trial.run(20).reports) == 2
        assert [report.rank for report in trial.run(30).reports] == [0]
        assert len(trial.losses) == 51
        with pytest.raises(Ended):
            trial.run(30)


@contextmanager
def sides(*settings: Setting) -> Iterator[list[Side]]:
    made = [Side(one, 60.0) for one in settings]
    try:
        yield made
    finally:
        for side in made:
            side.close()


def ranks_of(side: Side) -> list[psutil.Process]:
    assert side.trial is not None
    pids = side.trial.pids()
    found = [report.pid for report in side.trial.blocks[-1].reports]
    assert set(found) <= set(pids)
    return [psutil.Process(pid) for pid in found]


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ((sys.executable,), "process 1 terminated with signal SIGKILL"),
        pytest.param(TORCHRUN, "rank 1 was killed by SIGKILL", marks=pytest.mark.slow),
    ],
    ids=["forked", "torchrun"],
)
def test_a_killed_rank_is_told_and_the_side_starts_afresh(
    tmp_path: Path, launcher: tuple[str, ...], words: str
) -> None:
    with sides(setting(tmp_path, *launcher, SCRIPT)) as (side,):
        side.ready()
        before = ranks_of(side)
        assert len(before) == 2
        side.trial.resume()  # type: ignore[union-attr]
        before[1].kill()
        failure = pytest.raises(TrialFailedError, match=words)
        with failure:
            side.block(1_000_000)
        assert side.trial is None
        assert not any(process.is_running() for process in before)
        assert side.block(5).steps == 5
        assert side.launches == 2


@pytest.mark.parametrize(
    ("launcher", "options"),
    [
        pytest.param((sys.executable,), ("--port",), marks=pytest.mark.slow),
        pytest.param((*ELASTIC, "--master-port"), (), marks=pytest.mark.slow),
        pytest.param((*ELASTIC, "--rdzv-backend", "c10d", "--rdzv-endpoint"), (),
                     marks=pytest.mark.slow),
    ],
    ids=["tcp", "static", "c10d"],
)  # fmt: skip
def test_each_side_meets_at_a_port_of_its_own(
    tmp_path: Path, launcher: tuple[str, ...], options: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    if launcher[-1] == "--rdzv-endpoint":
        port = f"localhost:{port}"
    words = (*launcher, SCRIPT, *options, port) if options else (*launcher, port, SCRIPT)
    one, other = (setting(tmp_path / name, *words) for name in "ab")
    with sides(one, other) as both:
        for side in both:
            side.ready()
        for side in both:
            assert len(side.block(5).reports) == 2


@pytest.mark.slow
def test_torchrun_against_itself(tmp_path: Path) -> None:
    plain = setting(tmp_path, *TORCHRUN, SCRIPT)
    with sides(plain, plain) as (a, b):
        found = race(a, b, StoppingRules(seconds=15))
        assert found.lockstep
        assert 0.8 < found.estimate.ratio < 1.25
        common = min(len(a.losses), len(b.losses))
        assert common > 10
        assert a.losses[:common] == b.losses[:common]


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_no_rank_outlives_hotlap(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "hotlap", "race", *TORCHRUN, str(SCRIPT), "--",
               *TORCHRUN, str(SCRIPT)]  # fmt: skip
    with (tmp_path / "out").open("wb") as out:
        hotlap = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=out)
    try:
        below = _ranks_below(hotlap, 4)
    finally:
        hotlap.send_signal(number)
        hotlap.wait(30)
    gone, alive = psutil.wait_procs(below, timeout=15)
    assert not alive, [process.cmdline() for process in alive]
    assert len(gone) >= 4


def _ranks_below(hotlap: "subprocess.Popen[bytes]", count: int) -> list[psutil.Process]:
    """Everything below hotlap, once so many ranks are there."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        below = psutil.Process(hotlap.pid).children(recursive=True)
        if sum(_is_rank(process) for process in below) >= count:
            return below
        assert hotlap.poll() is None
        time.sleep(0.2)
    pytest.fail("no ranks were started")


def _is_rank(process: psutil.Process) -> bool:
    try:
        return "RANK" in process.environ() and bool(re.search("ranks.py", str(process.cmdline())))
    except psutil.Error:
        return False


def test_a_script_exported_from_a_notebook_is_told_how_to_run(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("Traceback\nNameError: name 'get_ipython' is not defined\n")
    assert "NOTEBOOK.ipynb" in advice(output)
    assert "`ipython SCRIPT`" in advice(output)


@pytest.mark.parametrize(
    ("text", "program", "told"),
    [
        ("import torch\nget_ipython().system('ls')\n", "python", True),
        ("import torch\nif live:\n    get_ipython().system('ls')\n", "python", False),
        ("import torch\nget_ipython().system('ls')\n", "ipython", False),
        (f"{HEADER}'a.ipynb'; written\nget_ipython().system('ls')\n", "python", False),
    ],
)
def test_an_exported_script_is_known_without_its_words(
    tmp_path: Path, text: str, program: str, told: bool
) -> None:
    script = tmp_path / "export.py"
    script.write_text(text)
    failure = Reach(1.0, command=(program, str(script))).failure(1)
    assert ("NOTEBOOK.ipynb" in failure.hint) is told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ValueError: env:// rendezvous: environment variable RANK expected, but not set", True),
        ("KeyError: 'LOCAL_RANK'", True),
        ("KeyError: 'RANKING'", False),
    ],
)
def test_a_script_without_its_launcher_is_told_of_it(tmp_path: Path, said: str, told: bool) -> None:
    output = tmp_path / "out"
    output.write_text(f"Traceback\n{said}\n")
    assert ("torchrun --nproc_per_node" in advice(output)) is told


@pytest.mark.parametrize(
    ("text", "launcher", "told"),
    [
        ("dist.init_process_group('gloo')\n", ("python",), True),
        ("rank = int(os.environ['LOCAL_RANK'])\n", ("python",), True),
        ("dist.init_process_group('gloo')\n", ("torchrun", "--nproc_per_node", "2"), False),
        ("rank = os.environ.get('RANK', 0)\n", ("python",), False),
    ],
)
def test_a_script_that_asks_for_a_rank_is_known_without_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, launcher: tuple[str, ...],
    told: bool,
) -> None:  # fmt: skip
    monkeypatch.delenv("RANK", raising=False)
    script = tmp_path / "train.py"
    script.write_text(text)
    failure = Reach(1.0, command=(*launcher, str(script))).failure(1)
    assert ("torchrun --nproc_per_node" in failure.hint) is told


def test_a_python_of_another_environment_is_asked_about(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.touch(mode=0o755)
    failure = Reach(1.0, command=(str(other), "train.py")).failure(1)
    assert "if it says that a module is missing" in failure.hint
    assert Reach(1.0, command=(sys.executable, "train.py")).failure(1).hint == ""


def test_a_python_without_torch_is_the_wrong_environment(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("Traceback\nModuleNotFoundError: No module named 'torch'\n")
    assert "activate it" in advice(output)
    output.write_text("ModuleNotFoundError: No module named 'torchvision'\n")
    assert advice(output) == ""
