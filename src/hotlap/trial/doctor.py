"""What this machine and this Python can do for hotlap, found out by trying, and what to install."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hotlap.core.machine import GIB, Machine, detect
from hotlap.core.spec import Tier
from hotlap.trial.load import busy_now, load_now, pressure_now, waits_are_counted

OLDEST_TORCH = (2, 11)
SMALL_SHM_BYTES = 1 << 30
"""Loader workers hand batches over in /dev/shm; containers often get 64 MiB of it."""


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `detail` says what was found, `fix` what to do about it."""

    name: str
    state: State
    detail: str
    fix: str = ""


LIBRARIES = {
    "numpy": ("stores, image decoding", "hotlap[data]"),
    "simplejpeg": ("fast JPEG decoding", "hotlap[data]"),
    "triton": ("torch.compile on a GPU, Triton kernels", "triton"),
    "torchao": ("float8, int8 and 8-bit optimizers", "torchao"),
    "liger_kernel": ("fused kernels for Hugging Face models", "liger-kernel"),
    "mcp": ("hotlap mcp", "hotlap[mcp]"),
}


def checks(folder: Path) -> list[Check]:
    """Every check; `folder` is where trials put what they write."""
    machine = detect()
    found: list[Callable[[], Check]] = [
        _system,
        _python,
        _torch,
        lambda: _isolation(folder),
        _compiler,
        lambda: _gpus(machine),
        _counters,
        _shared_memory,
        _load,
    ]
    return [check() for check in found] + list(_libraries())


def _system() -> Check:
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() == "Linux":
        return Check("system", State.OK, name)
    fix = "profile, tune and race need Linux; lint, patch and plan work here"
    return Check("system", State.MISSING, name, fix)


def _python() -> Check:
    return Check("Python", State.OK, f"{platform.python_version()} ({sys.executable})")


def _torch() -> Check:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        fix = "install hotlap into the environment that your torch is in"
        return Check("torch", State.MISSING, "not installed in this Python", fix)
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if numbers >= OLDEST_TORCH:
        return Check("torch", State.OK, version)
    oldest = ".".join(map(str, OLDEST_TORCH))
    return Check("torch", State.LIMITED, version, f"hotlap is tested with torch {oldest} and newer")


def _isolation(folder: Path) -> Check:
    from hotlap.isolation.tiers import isolation

    found = isolation(folder)
    state = State.OK if found.tier is Tier.OVERLAY else State.LIMITED
    return Check("isolation of trials", state, found.line().removeprefix("isolation: "))


def _compiler() -> Check:
    names = (os.environ.get("CXX", ""), "g++", "c++", "clang++")
    found = next((path for name in names if name and (path := shutil.which(name))), "")
    if found:
        return Check("C++ compiler", State.OK, found)
    fix = "install g++: torch.compile on the CPU and hotlap's CPU kernels need it"
    return Check("C++ compiler", State.MISSING, "none found", fix)


def _gpus(machine: Machine) -> Check:
    if not machine.gpus:
        return Check("GPU", State.OK, "none: what needs one is left out")
    names = ", ".join(f"{gpu.name} ({gpu.memory / GIB:.0f} GiB)" for gpu in machine.gpus)
    return Check("GPU", State.OK, names)


def _counters() -> Check:
    missing = [
        path
        for path, there in (
            ("/proc/PID/schedstat", waits_are_counted()),
            ("/proc/pressure/cpu", pressure_now() is not None),
        )
        if not there
    ]
    if not missing:
        return Check("load counters", State.OK, "run-queue delay and CPU pressure are counted")
    detail = f"{' and '.join(missing)} cannot be read"
    fix = "races on a busy machine take longer to reach a verdict without them"
    return Check("load counters", State.LIMITED, detail, fix)


def _shared_memory() -> Check:
    try:
        size = shutil.disk_usage("/dev/shm").total
    except OSError:
        return Check("/dev/shm", State.MISSING, "not there", "mount it: loader workers need it")
    detail = f"{size / GIB:.1f} GiB"
    if size >= SMALL_SHM_BYTES:
        return Check("/dev/shm", State.OK, detail)
    fix = "start the container with --shm-size=8g, or loader workers may end with a bus error"
    return Check("/dev/shm", State.LIMITED, detail, fix)


def _load() -> Check:
    if not busy_now():
        return Check("background load", State.OK, load_now())
    fix = "verdicts need more time on a busy machine; `hotlap race --wait 5m` waits for a calm one"
    return Check("background load", State.LIMITED, load_now(), fix)


def _libraries() -> Iterable[Check]:
    for name, (use, install) in LIBRARIES.items():
        if importlib.util.find_spec(name) is not None:
            yield Check(name, State.OK, f"installed: {use}")
        else:
            yield Check(name, State.LIMITED, f"not installed: {use}", f"pip install '{install}'")
