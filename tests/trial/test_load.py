"""The background load, read from a made-up /proc and from the real one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hotlap.trial import load as module
from hotlap.trial.load import (
    LoadMeter,
    LoadSummary,
    OtherPrograms,
    busy_now,
    pressure_now,
    wait_until_calm,
)
from hotlap.trial.supervised import Streams, Supervised


def proc(folder: Path, avg10: float, total: float, cores: tuple[int, int]) -> Path:
    """A /proc with pressure (percent now, seconds in all), and core time busy and stolen."""
    (folder / "pressure").mkdir(parents=True, exist_ok=True)
    (folder / "pressure" / "cpu").write_text(
        f"some avg10={avg10:.2f} avg60=1.00 avg300=1.00 total={total * 1e6:.0f}\n"
        "full avg10=99.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    busy, stolen = cores
    (folder / "stat").write_text(f"cpu  {busy} 0 0 0 0 0 0 {stolen} 0 0\ncpu0 1 2 3\n")
    return folder


def test_the_load_of_the_blocks_is_summed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 12.0, 20.0, 22.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(OtherPrograms, "_busy_own", lambda _: (0.0, 0.0, 0.0))
    meter = LoadMeter(proc(tmp_path, 30.0, 0.0, (0, 0)))
    for total, ran, waited in ((10.0, 1.0, 1.0), (20.0, 2.0, 0.0)):
        proc(tmp_path, 0.0, total, (1000, 0))
        meter.begin()
        proc(tmp_path, 0.0, total + 1.5, (1300, 100))
        meter.end(ran, waited)
    found = meter.summary()
    assert found.at_start == pytest.approx(0.3)
    assert found.pressure == pytest.approx(3.0 / 4.0)
    assert found.steal == pytest.approx(200 / 800)
    assert found.waited == pytest.approx(1.0 / 4.0)
    assert found.busy
    assert "CPU pressure 75%" in str(found)
    assert "waited for a core 25%" in str(found)


def test_what_a_machine_does_not_count_is_none(tmp_path: Path) -> None:
    meter = LoadMeter(tmp_path)
    meter.begin()
    meter.end(0.0, 0.0)
    found = meter.summary()
    assert (found.at_start, found.pressure, found.steal, found.waited) == (None,) * 4
    assert found.load_average is not None
    assert not found.busy
    assert "None" not in str(found)
    assert str(LoadSummary()) == ""


def test_the_load_average_stands_in_for_the_pressure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "cores_in_use", lambda: 1.0)
    assert pressure_now(tmp_path) is None
    for average, busy in ((0.0, False), (1e3, True)):
        monkeypatch.setattr(os, "getloadavg", lambda average=average: (average, 0.0, 0.0))
        assert busy_now(tmp_path) is busy
    assert not busy_now(proc(tmp_path, 5.0, 0.0, (0, 0)))
    assert busy_now(proc(tmp_path, 50.0, 0.0, (0, 0)))


def test_pressure_of_what_is_over_makes_a_machine_not_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tune that follows another command of ours within seconds."""
    monkeypatch.setattr(module, "cores_in_use", lambda: 0.1)
    assert not busy_now(proc(tmp_path, 50.0, 0.0, (0, 0)))


def test_waiting_ends_as_the_load_falls_or_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "cores_in_use", lambda: 1.0)
    now = [0.0]
    said: list[str] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] >= 5.0:
            proc(tmp_path, 1.0, 0.0, (0, 0))

    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", sleep)
    proc(tmp_path, 80.0, 0.0, (0, 0))
    assert not wait_until_calm(3.0, said.append, tmp_path)
    assert now[0] == pytest.approx(3.0)
    assert "3 s more at most" in said[0]
    assert wait_until_calm(60.0, said.append, tmp_path)
    assert now[0] == pytest.approx(5.0)


def test_the_load_of_other_programs_leaves_out_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    others = OtherPrograms()
    begin, busy, own = others._begin
    burn = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", burn]) as child:
        child.wait()
    now, busy_now_, own_now = others._busy_own()
    assert own_now - own > 0.9, "the child's second is ours"
    assert busy_now_ > busy
    monkeypatch.setattr(others, "_busy_own", lambda: (now, busy + 1.0, own + 1.0))
    assert others.cores() == 0.0
    monkeypatch.setattr(others, "_busy_own", lambda: (begin + 2.0, busy + 5.0, own + 1.0))
    assert others.cores() == pytest.approx(2.0)


def test_cpu_time_of_a_trial_that_was_ended_is_not_taken_for_that_of_others(tmp_path: Path) -> None:
    """Killed while its threads compute, it takes a while to give its memory back."""
    program = (
        "import torch; x = torch.rand(2000, 2000); print('ready', flush=True)\nwhile True: x @ x"
    )
    log = tmp_path / "log"
    before = sum(os.times()[2:4])
    supervised = Supervised(
        [sys.executable, "-c", program], os.environ, tmp_path, separate=True,
        streams=Streams(output=log),
    )  # fmt: skip
    while "ready" not in (log.read_text() if log.exists() else ""):
        time.sleep(0.05)
    time.sleep(1.0)
    tree = psutil.Process(supervised.supervisor).children(recursive=True)
    used = sum(sum(process.cpu_times()[:2]) for process in tree)
    supervised.end()
    assert sum(os.times()[2:4]) - before >= used > 0.2
