import json
import math
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.common.disk import cache_dir
from hotlap.core import peaks as module
from hotlap.core.errors import HotlapError
from hotlap.core.machine import Gpu, Machine
from hotlap.core.peaks import CHILD, DevicePeaks, Peaks, measure, peaks

MACHINE = Machine("CPU 9000", 2, 2, 2**34, (), "Linux", "6.1", "x86_64")
FAKE = Peaks({"cpu": DevicePeaks({"float32": 2e11}, 1.5e10)}, "2.13.0", "2026-01-01", 0.5)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An empty cache, and the list of Pythons that were measured in place of a measurement."""
    asked: list[str] = []

    def measured(python: str, **_: object) -> Peaks:
        asked.append(python)
        return FAKE

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "measure", measured)
    return asked


def cached() -> list[Path]:
    return list(cache_dir().iterdir())


def script(path: Path, body: str) -> str:
    """An executable that stands in for a Python."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


# the cache


def test_a_hit_does_not_measure(runs: list[str]) -> None:
    first, second = peaks(machine=MACHINE), peaks(machine=MACHINE)
    assert first == second == FAKE
    assert runs == [sys.executable]
    assert len(cached()) == 1  # no temporary file stays


def test_a_hit_does_not_run_the_child(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    peaks(machine=MACHINE)
    monkeypatch.setattr(subprocess, "run", forbidden)
    assert peaks(machine=MACHINE) == FAKE
    assert len(runs) == 1


def test_refresh_measures_again(runs: list[str]) -> None:
    peaks(machine=MACHINE)
    peaks(machine=MACHINE, refresh=True)
    assert len(runs) == 2
    assert len(cached()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"devices": []}',
        '{"devices": {}, "torch": "2", "when": "", "load": 0}',
        json.dumps({"devices": {"cpu": {"gemm": {"float32": -1}, "copy": 1}}}),
        "\udcff",
    ],
)
def test_a_corrupt_cache_is_measured_again(runs: list[str], text: str) -> None:
    peaks(machine=MACHINE)
    (file,) = cached()
    file.write_bytes(text.encode(errors="surrogateescape"))
    assert peaks(machine=MACHINE) == FAKE
    assert peaks(machine=MACHINE) == FAKE
    assert len(runs) == 2  # once at first, once for the corruption: the file is mended


def test_an_unwritable_cache_is_ignored(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert peaks(machine=MACHINE) == FAKE


def test_no_home_is_ignored(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert peaks(machine=MACHINE) == FAKE


def test_a_failed_write_leaves_no_temporary_file(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert peaks(machine=MACHINE) == FAKE
    assert cached() == []


def test_another_machine_or_python_is_measured(runs: list[str], tmp_path: Path) -> None:
    other = script(tmp_path / "python", "echo 2.12.0")
    peaks(machine=MACHINE)
    peaks(machine=replace(MACHINE, gpus=(Gpu("NVIDIA L4", 0),)))
    peaks(other, machine=MACHINE)
    script(tmp_path / "python", "echo 2.13.0")  # torch upgraded there
    peaks(other, machine=MACHINE)
    assert runs == [sys.executable, sys.executable, other, other]


@pytest.mark.parametrize("base", ["", "relative/folder"])
def test_cache_dir_defaults_to_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert cache_dir() == tmp_path / ".cache" / "hotlap"


# failures


def test_python_without_torch(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare/bin/python")
    with pytest.raises(HotlapError, match="has no torch") as caught:
        measure(python, machine=MACHINE)
    assert python in str(caught.value)
    assert "pip install torch" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo 'OSError: libcudart.so: cannot open' >&2; exit 1", "failed: OSError: libcudart"),
        ("exit 3", "failed: exit status 3"),
        ("echo Hello", "no readable peaks: 'Hello"),
        ("true", "no readable peaks"),
        ("""echo '{"torch": "2", "devices": {"cpu": {"gemm": {}, "copy": NaN}}}'""", "no readable"),
    ],
)
def test_a_child_that_fails_is_quoted(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(HotlapError, match=words):
        measure(script(tmp_path / "python", body), machine=MACHINE)


def test_a_full_gpu_gets_a_hint(tmp_path: Path) -> None:
    body = "echo 'torch.OutOfMemoryError: CUDA out of memory' >&2; exit 1"
    with pytest.raises(HotlapError) as caught:
        measure(script(tmp_path / "python", body), machine=MACHINE)
    assert "GPU" in caught.value.hint


def test_no_such_python(tmp_path: Path) -> None:
    with pytest.raises(HotlapError, match="cannot run"):
        peaks(str(tmp_path / "python"), machine=MACHINE)


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with pytest.raises(HotlapError, match="took over"):
        measure(script(tmp_path / "python", "exec sleep 60"), machine=MACHINE)


# the real thing


@pytest.fixture(scope="module")
def real() -> Peaks:
    pytest.importorskip("torch")
    return measure()


def test_cpu_is_measured(real: Peaks) -> None:
    import torch

    cpu = real.on("cpu")
    assert cpu is not None
    assert cpu.gemm["float32"] > 1e9
    assert cpu.copy > 1e8
    assert all(math.isfinite(rate) and rate > 0 for rate in [*cpu.gemm.values(), cpu.copy])
    assert set(cpu.gemm) <= {"float32", "float64", "bfloat16", "float16"}
    assert cpu.h2d_pinned is None
    assert real.torch == torch.__version__
    assert real.on("mps") is None


@pytest.mark.gpu
def test_cuda_is_measured(real: Peaks) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    cuda = real.on("cuda:0")
    assert cuda is not None
    assert cuda.gemm["float32"] > 1e11
    assert cuda.copy > 1e10
    assert cuda.h2d_pageable is not None
    assert cuda.h2d_pinned is not None
    assert cuda.h2d_pinned > 0.8 * cuda.h2d_pageable
    if torch.cuda.get_device_capability() >= (8, 0):
        assert cuda.gemm["bfloat16"] > cuda.gemm["tf32"] > cuda.gemm["float32"]


def test_the_child_is_not_misled_by_its_neighbours(tmp_path: Path) -> None:
    """Run by path, a script's own folder comes first on sys.path; the child must take it off."""
    copy = Path(shutil.copy(CHILD, tmp_path))
    for name in ("json", "pathlib", "importlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    command = [sys.executable, copy, "version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_importing_side_has_no_torch() -> None:
    code = "import sys, hotlap.core.peaks; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=os.environ)
