"""Who stood where: from faulthandler's text to a few lines."""

import faulthandler
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from hotlap.launch import hang
from hotlap.launch.hang import HangWatch, described
from hotlap.launch.rank_records import Answer, Rank, ask, living
from hotlap.launch.stacks import main_stack, place
from hotlap.seam.beat import RECORD

TEXT = """Thread 0x00007f01 (most recent call first):
  File "/env/lib/python3.11/threading.py", line 5 in wait

Current thread 0x00007f02 (most recent call first):
  Garbage-collecting
  File "/env/lib/python3.11/site-packages/torch/_tensor.py", line 623 in backward
  File "/home/me/train.py", line 31 in step
  File "/home/me/train.py", line 60 in <module>

Thread 0x00007f03 (most recent call first):
  File "/home/me/other.py", line 9 in run
"""


def test_the_main_threads_frames_are_read() -> None:
    stack = main_stack(TEXT)
    assert [str(frame).rsplit("/", 1)[-1] for frame in stack] == [
        "_tensor.py:623 in backward", "train.py:31 in step", "train.py:60 in <module>",
    ]  # fmt: skip
    assert place(stack) == (
        "/home/me/train.py:31 in step, waiting in backward (torch/_tensor.py:623)"
    )
    assert place(stack[1:]) == "/home/me/train.py:31 in step"
    assert main_stack("") == ()
    assert place(()) == "outside Python"


def test_a_real_stack_is_read() -> None:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file=file)
        file.seek(0)
        stack = main_stack(file.read())
    assert stack[0].name == "test_a_real_stack_is_read"
    assert stack[0].file == __file__


def answer(number: int, steps: int, text: str, state: str = "sleeping") -> Answer:
    return Answer(Rank(number, 100 + number, steps, 9.0), text, state)


def test_ranks_that_stand_alike_are_told_together_and_the_odd_one_first() -> None:
    odd = TEXT.replace("line 31 in step", "line 12 in read")
    answers = [
        answer(0, 7, TEXT),
        answer(1, 6, odd),
        answer(2, 7, TEXT),
        answer(3, 6, "", "stopped"),
    ]
    lines = list(described(answers, 30.0))
    assert "no rank here has made an optimizer step for 30 s" in lines[0]
    assert lines[1].startswith("rank 1 stands after step 6: /home/me/train.py:12 in read, waiting")
    assert lines[2] == "rank 3 stands after step 6: did not answer; its process is stopped"
    assert lines[3].startswith("ranks 0, 2 stand after step 7: /home/me/train.py:31 in step")
    assert sum(line.startswith("the stack of rank") for line in lines) == 2


SLEEPER = """
import os, sys, time
sys.path.insert(0, {source!r})
os.environ |= {{"RANK": "3", "TORCHELASTIC_RUN_ID": "x"}}
from hotlap.seam import beat
beat.boot(sys.argv[1])
if {stepped}:
    beat.beating(os.path.join(sys.argv[1], "rank-3"))()
def stuck():
    print("up", flush=True)
    time.sleep(60)
stuck()
"""


def sleeper(folder: Path, *, stepped: bool = True) -> "subprocess.Popen[str]":
    source = SLEEPER.format(source=str(Path(__file__).parents[2] / "src"), stepped=stepped)
    script = folder / "sleeper.py"
    script.write_text(source)
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def test_a_rank_that_stands_still_is_asked_and_ended(tmp_path: Path) -> None:
    process, told = sleeper(tmp_path), []
    try:
        (rank,) = living(tmp_path)
        assert (rank.number, rank.pid, rank.steps) == (3, process.pid, 1)
        HangWatch(tmp_path, tmp_path, 3600.0, told.append).look()
        HangWatch(tmp_path, tmp_path, 0.0, told.append).look()
        assert not told
        (found,) = ask(tmp_path, [rank])
        assert found.stack[0].name == "stuck"
        assert process.poll() is None
        time.sleep(0.05)
        HangWatch(tmp_path, tmp_path, 0.01, told.append).look()
        assert process.wait(10) == -9
        assert any("sleeper.py" in line and "in stuck" in line for line in told)
        (report,) = tmp_path.glob("hang-*.txt")
        assert "rank 3, pid" in report.read_text()
        assert living(tmp_path) == []
    finally:
        process.kill()
        process.wait()


def test_start_up_is_no_hang(tmp_path: Path) -> None:
    process, told = sleeper(tmp_path, stepped=False), []
    try:
        time.sleep(0.05)
        HangWatch(tmp_path, tmp_path, 0.01, told.append).look()
        assert not told
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_second_python_of_a_rank_leaves_its_record_alone(tmp_path: Path) -> None:
    process = sleeper(tmp_path, stepped=False)
    other = sleeper(tmp_path, stepped=False)
    try:
        assert [rank.pid for rank in living(tmp_path)] == [process.pid]
    finally:
        for each in (process, other):
            each.kill()
            each.wait()


def test_records_that_are_no_records_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rank-0").write_bytes(b"short")
    (tmp_path / "rank-1").write_bytes(RECORD.pack(2**30, 1, 0.0))
    (tmp_path / "rank-2").write_bytes(RECORD.pack(os.getpid(), 4, time.monotonic() - 5))
    (rank,) = living(tmp_path)
    assert (rank.number, rank.steps) == (2, 4)
    assert 4.9 < rank.idle < 60


def test_a_new_start_of_the_ranks_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    watch = HangWatch(tmp_path, tmp_path, 0.0, told.append)
    for pids in ((), (1,), (1, 2), (), (3,), (3, 4), (3, 4)):
        ranks = [Rank(number, pid, 0, 0.0) for number, pid in enumerate(pids)]
        monkeypatch.setattr(hang, "living", lambda _, ranks=ranks: ranks)
        watch.look()
    assert told == [hang.STARTED_AGAIN]
