"""`python -m benchmarks.gpu` off a GPU: what it refuses, records, resumes; its code rehearsed."""

import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from hotlap.core.recipe import Recipe

ROOT = Path(__file__).parent.parent


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.gpu.__main__")
    monkeypatch.setattr(module.record, "RESULTS", tmp_path)
    monkeypatch.chdir(ROOT)
    return module


def recorded(gpu):
    return {row["part"]: row for row in gpu.record.rows("gpu")}


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_without_a_gpu_it_says_so(gpu, capsys):
    assert gpu.enter([]) == 2
    assert "no GPU" in capsys.readouterr().err
    assert not recorded(gpu)


def test_the_parts_are_listed_with_their_seconds(gpu, capsys):
    assert gpu.enter(["--list", "--seconds", "100"]) == 0
    seconds = [int(n) for n in re.findall(r"^\w+ +(\d+) s ", capsys.readouterr().out, re.M)]
    assert len(seconds) == len(gpu.SHARES)
    assert abs(sum(seconds) - 100) <= len(seconds)
    assert gpu.SECONDS + len(seconds) * gpu.GRACE_SECONDS < 600
    assert gpu.enter(["--list", "--only", "tune,moves", "--seconds", "100"]) == 0
    seconds = [int(n) for n in re.findall(r"^\w+ +(\d+) s ", capsys.readouterr().out, re.M)]
    assert len(seconds) == 2
    assert abs(sum(seconds) - 100) <= 2
    assert set(importlib.import_module("benchmarks.gpu.parts").PARTS) == set(gpu.SHARES)
    with pytest.raises(SystemExit):
        gpu.enter(["--only", "articel"])


def test_a_part_that_fails_is_recorded_and_repeated(gpu, monkeypatch):
    ran = []

    def run(part, device, seconds):
        ran.append(part)
        row = {"name": "a", "figures": {"speed": 2}, "raw": [1], "error": ""}
        fails = part == "check" and ran.count("check") == 1
        return gpu.Outcome(part, [] if fails else [row], "exit status 1" if fails else "", 1.0)

    monkeypatch.setattr(gpu, "run", run)
    parts = ["article", "check", "moves"]
    assert gpu.main(parts, "cuda", 100.0, again=False) == 1
    assert ran == parts
    assert recorded(gpu)["check"]["error"] == "exit status 1"
    assert recorded(gpu)["moves"]["rows"][0]["raw"] == [1]
    assert gpu.main(parts, "cuda", 100.0, again=False) == 0
    assert ran == [*parts, "check"]
    assert gpu.main(["moves"], "cuda", 100.0, again=True) == 0
    assert ran[-1] == "moves"
    summary = json.loads((gpu.record.folder() / "gpu.json").read_text())["summary"]
    assert summary["article"] == {"a": {"speed": 2}}


def test_a_part_is_ended_when_its_time_is_up(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "GRACE_SECONDS", 0.0)
    outcome = gpu.run("article", "cpu", 0.05)
    assert outcome.error.startswith("not complete after 0 s")
    assert not outcome.complete


def test_a_part_ends_with_the_command():
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry-run", "--only", "article"]
    running = psutil.Popen(command, cwd=ROOT)
    while not (parts := running.children()):
        time.sleep(0.01)
    running.terminate()
    assert running.wait(30) == 143
    assert not psutil.wait_procs(parts, 30)[1]


def test_a_row_that_fails_leaves_the_others(gpu):
    parts = importlib.import_module("benchmarks.gpu.parts")

    def fails():
        raise ValueError("planted")

    assert parts.guarded("row", fails) == parts.Row("row", error="ValueError: planted")


def test_the_recipes_of_the_moves_can_be_read(gpu, tmp_path):
    del gpu
    for recipe in importlib.import_module("benchmarks.gpu.parts").MOVES.values():
        (tmp_path / "hotlap.toml").write_text(recipe)
        assert Recipe.read(tmp_path / "hotlap.toml").techniques


def rehearse(*parts):
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry-run", "--only", ",".join(parts)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_code_of_the_kernels_parts_runs(gpu):
    del gpu
    rehearse("article", "cross_entropy", "check", "tests")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["peaks", "moves", "bench", "profile", "races", "tune"])
def test_the_code_of_the_other_parts_runs(part):
    rehearse(part)


def test_the_articles_kernels_compile_without_spills(gpu, tmp_path):
    del gpu
    parts = importlib.import_module("benchmarks.gpu.parts")
    try:
        compiler = parts.nvcc()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [compiler, "-cubin", "-arch=sm_90", "-Xptxas", "-v", "-Werror", "all-warnings",
         str(parts.CUDA_SOURCE), "-o", str(tmp_path / "article.cubin")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("0 bytes spill stores") == 2
