"""What the machine reaches at most, measured through torch: the limits a profile is held against.

Torch runs in a child, in the training's own Python; this side never imports it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hotlap.common.disk import cache_dir
from hotlap.core.errors import HotlapError
from hotlap.core.machine import Machine, available_memory, detect
from hotlap.core.protocol import Document

CHILD = Path(__file__).with_name("peaks_child.py")
TIMEOUT = 120.0  # seconds
COPY_BYTES = 2**28
UNREADABLE = (OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True)
class DevicePeaks:
    """One device's limits.

    `gemm`: FLOP/s of a matrix product by dtype name, unsupported dtypes left out. `copy`: bytes/s
    within the device, read and written both counted. `h2d_*`: bytes/s to the GPU from pageable and
    from pinned host memory, each byte counted once; None for the CPU.
    """

    gemm: Mapping[str, float]
    copy: float
    h2d_pageable: float | None = None
    h2d_pinned: float | None = None


@dataclass(frozen=True)
class Peaks:
    """The limits by device, 'cpu' and, where there is one, 'cuda' (torch's current GPU).

    `when` is UTC in ISO format. `load` is the load average just before.
    """

    devices: Mapping[str, DevicePeaks]
    torch: str
    when: str
    load: float

    def busy(self, machine: Machine) -> bool:
        """Whether others were at work: the CPU's figures may be low."""
        return self.load > 0.8 * machine.logical_cores

    def on(self, device: str) -> DevicePeaks | None:
        """Return the limits of a device as torch spells it ('cuda:1' too); None if not measured."""
        return self.devices.get(device.partition(":")[0])


def peaks(
    python: str = sys.executable, *, refresh: bool = False, machine: Machine | None = None
) -> Peaks:
    """Return the machine's limits as seen by `python`'s torch, from the cache unless `refresh`.

    A cache that cannot be read or written only costs a new measurement. Raises as `measure` does.
    """
    machine = machine or detect()
    key = _key(machine, python)
    known = None if refresh else _load(key)
    if known is not None:
        return known
    found = measure(python, machine=machine)
    _store(key, found)
    return found


def measure(python: str = sys.executable, *, machine: Machine | None = None) -> Peaks:
    """Measure in a child process: about 2 s on 2 cores, besides the torch import.

    Raises HotlapError if `python` cannot be run, has no working torch, or takes over 120 s.
    """
    threads = (machine or detect()).physical_cores
    load = os.getloadavg()[0]
    size = min(COPY_BYTES * max(1, threads // 8), available_memory() // 8)  # beyond any cache
    answer = _ask(python, "measure", str(threads), str(size))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        last = json.loads(answer.splitlines()[-1])
        return _peaks({**last, "when": when, "load": load})
    except UNREADABLE as error:
        raise HotlapError(f"{python} gave no readable peaks: {answer[-200:]!r}") from error


# the child


def _ask(python: str, *request: str) -> str:
    """Run the child; return its stdout."""
    command = [python, str(CHILD), *request]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
    except OSError as error:
        raise HotlapError(f"cannot run {python}: {error.strerror}", "Is the path right?") from error
    except subprocess.TimeoutExpired as error:
        hint = "Something else may be using the machine; try again when it is quieter."
        raise HotlapError(f"measuring the peaks took over {TIMEOUT:.0f} s", hint) from error
    if done.returncode:
        raise _failure(python, done)
    return done.stdout


def _failure(python: str, done: subprocess.CompletedProcess[str]) -> HotlapError:
    if "No module named 'torch'" in done.stderr:
        hint = f"Use the Python that the training runs in, or `{python} -m pip install torch`."
        return HotlapError(f"{python} has no torch, so its peaks cannot be measured", hint)
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    hint = "A full GPU, or one taken by others? Free its memory and try again."
    return HotlapError(
        f"measuring the peaks with {python} failed: {last}", hint if "OutOfMemory" in last else ""
    )


def _torch_version(python: str) -> str:
    """Return the installed torch's version, read without importing it, or '' if it has none."""
    try:
        return version("torch") if python == sys.executable else _ask(python, "version").strip()
    except (PackageNotFoundError, HotlapError):
        return ""


# the cache: one JSON file for a machine, torch, Python and way of measuring


def _key(machine: Machine, python: str) -> str:
    place = Path(shutil.which(python) or python).absolute()  # unresolved: venvs link to one binary
    method = hashlib.sha256(CHILD.read_bytes()).hexdigest()
    facts = [machine.fingerprint, _torch_version(python), str(place), method]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _load(key: str) -> Peaks | None:
    try:
        return _peaks(json.loads((cache_dir() / f"peaks-{key}.json").read_text()))
    except UNREADABLE:
        return None


def _store(key: str, found: Peaks) -> None:
    try:
        folder = cache_dir()
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / f"peaks-{key}.json", json.dumps(asdict(found), indent=2))
    except (OSError, RuntimeError):  # no home, read-only, full: measured again next time
        return


def _write(path: Path, text: str) -> None:
    """Put the whole text in place at once, so that no reader meets half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(handle, "w") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


# records from JSON


def _peaks(data: Document) -> Peaks:
    devices = {str(name): _device(found) for name, found in data["devices"].items()}
    if "cpu" not in devices:
        raise ValueError("no CPU among the devices")
    return Peaks(devices, str(data["torch"]), str(data["when"]), float(data["load"]))


def _device(data: Document) -> DevicePeaks:
    gemm = {str(dtype): _rate(rate) for dtype, rate in data["gemm"].items()}
    pageable, pinned = (data.get(f"h2d_{kind}") for kind in ("pageable", "pinned"))
    return DevicePeaks(
        gemm,
        _rate(data["copy"]),
        None if pageable is None else _rate(pageable),
        None if pinned is None else _rate(pinned),
    )


def _rate(value: float | str) -> float:
    rate = float(value)
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"{value} is no rate")
    return rate
