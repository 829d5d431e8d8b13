"""What all tests share."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

# Ranks of one machine talk over loopback, whatever the machine's name resolves to.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

# Idle threads sleep: spinning ones take the cores from the other tests (3 times the CPU time).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell starts what runs in its background with SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that start processes, and clocks: a shared machine may stall any single one of them, so a
# failure is one that comes again. Tests of numbers alone have one try, for their inputs are random.
BY_THE_CLOCK = (
    "batch",
    "cli",
    "data/loader",
    "engine",
    "harmless",
    "launch",
    "lr",
    "notebook/test_verbs.py",
    "parallel",
    "profile",
    "reach",
    "seam",
    "source/patch",
    "test_whole.py",
    "trial",
    "tune",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip tests as they start a process")


def pytest_configure(config: pytest.Config) -> None:
    """With --quick a test that is about to start a process is skipped instead."""
    if not config.getoption("--quick"):
        return

    def skipped(*args: object, **kwargs: object) -> None:
        pytest.skip("starts a process")

    os.fork = os.posix_spawn = skipped  # type: ignore[assignment]
    subprocess.Popen.__init__ = skipped  # type: ignore[method-assign]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    places = tuple(str(folder / place) for place in BY_THE_CLOCK)
    for item in items:
        if str(item.path).startswith(places):
            item.add_marker(pytest.mark.flaky(reruns=2))
