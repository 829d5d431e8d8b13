"""What all tests share."""

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

# Ranks of one machine talk over loopback, whatever the machine's name resolves to.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

# Idle threads sleep: spinning ones take the cores from the other tests (3 times the CPU time).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Else each process that compiles a graph starts two more that import torch.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# A shell starts what runs in its background with SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine may stall any test that starts a process, probes a step, or says that it goes by
# the clock: a failure of one is a failure that comes again. Every other test has one try: its
# inputs are random.
BY_THE_CLOCK = frozenset({"os.fork", "os.posix_spawn", "subprocess.Popen", "hotlap.tests.probed"})
_seen: set[str] = set()
_refused: set[str] = set()


def _audit(event: str, _: object) -> None:
    if event in BY_THE_CLOCK:
        _seen.add(event)


sys.addaudithook(_audit)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip tests as they start a process")


def pytest_collection_finish(session: pytest.Session) -> None:
    """With --quick a test that is about to start a process is skipped instead.

    Not before: pytest-xdist starts its workers, and these ask for the platform's name.
    """
    _keep_out_of_collections()
    config = session.config
    has_workers = config.getoption("-n", None) and not hasattr(config, "workerinput")
    if has_workers or not config.getoption("--quick"):
        return

    def skipped(*args: object, **kwargs: object) -> None:
        _refused.add("a process")  # which a thread of the test's may have asked for
        pytest.skip("starts a process")

    os.fork = os.posix_spawn = skipped  # type: ignore[assignment]
    subprocess.Popen.__init__ = skipped  # type: ignore[method-assign]


def _keep_out_of_collections() -> None:
    """The garbage collector passes over all modules and tests that exist by now.

    A forked child that collects would copy every page that they lie on: a world of two ranks
    costs 0.4 s of CPU time instead of 1.6 s.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Extension modules report objects as leaked that are never collected."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.flaky(reruns=2, condition=_goes_by_the_clock(item)))


def _goes_by_the_clock(item: pytest.Item) -> Callable[[], bool]:
    """What is asked after a failure."""
    return lambda: bool(_seen) or item.get_closest_marker("clock") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that fails because a process was refused is skipped."""
    _refused.clear()
    try:
        return (yield)
    except Exception:
        if _refused:
            pytest.skip("starts a process")
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Each test begins as one that does not go by the clock."""
    _seen.clear()
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that failed and passed when they were run again."""
    again = Counter(report.nodeid for report in terminalreporter.stats.get("rerun", ()))
    if again:
        terminalreporter.section(f"{len(again)} tests were run again")
        for name, times in sorted(again.items()):
            terminalreporter.line(f"{name}: {times} more")
