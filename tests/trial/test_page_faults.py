"""What of a difference page faults explain, and when both sides may keep what they free."""

import math
import os
import sys
from pathlib import Path

import pytest

from hotlap.core.protocol import BlockReport
from hotlap.core.spec import Mode
from hotlap.trial.launch import (
    ALLOCATOR,
    STEADY_HEAP,
    Setting,
    allocator_set,
    child_environment,
    heap,
)
from hotlap.trial.race import explained_by_faults
from hotlap.trial.trial import Block, StepCost, step_cost


def faulting(faults_a_step: int, system: float, cpu: float = 0.1) -> Block:
    report = BlockReport(0, 1, 0.2, steps=10, cpu=cpu, system=system, faults=10 * faults_a_step)
    return Block(10, 10, 0.2, cpu, (), 0, 0, (report,))


def explained(a: list[Block], b: list[Block]) -> float:
    return explained_by_faults(step_cost(a), step_cost(b))


@pytest.mark.parametrize(
    ("few", "many", "ratio"),
    [
        (faulting(45, 0.006), faulting(2100, 0.052, 0.15), 1.46),
        (faulting(45, 0.006), faulting(60, 0.052), 1.0),  # next to none on both sides
        (faulting(1500, 0.02), faulting(2100, 0.05), 1.0),  # many on both: one does less
    ],
)
def test_page_faults_of_a_launch_explain_so_much(few: Block, many: Block, ratio: float) -> None:
    for a, b in ((few, many), (many, few)):
        assert math.exp(explained([a], [b])) == pytest.approx(ratio, rel=1e-6)


def test_page_faults_that_come_and_go_are_no_property_of_the_launch() -> None:
    few, many = faulting(45, 0.006), faulting(2100, 0.052, 0.15)
    assert explained([few, many, many], [many] * 3) == 0.0
    assert explained([few] * 3, [many] * 3) > 0.3


def test_a_step_costs_its_part_of_the_blocks() -> None:
    assert step_cost([faulting(40, 0.01), faulting(60, 0.03)]) == StepCost(50.0, 0.002, 0.01)


@pytest.mark.parametrize(
    ("command", "variable", "is_set"),
    [
        ("python train.py", "", False),
        ("env MALLOC_ARENA_MAX=2 python train.py", "", True),
        ("python train.py --malloc_top MALLOC", "", False),
        ("python train.py", "LD_PRELOAD", True),
        ("python train.py", "GLIBC_TUNABLES", True),
    ],
)
def test_what_says_how_memory_is_allocated_is_seen(
    monkeypatch: pytest.MonkeyPatch, command: str, variable: str, is_set: bool
) -> None:
    for name in [name for name in os.environ if ALLOCATOR.search(name)]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(heap, "available", lambda: True)
    if variable:
        monkeypatch.setenv(variable, "x")
    one, plain = (Setting(tuple(c.split()), Mode.RACE) for c in (command, "python plain.py"))
    assert allocator_set(one, plain) is allocator_set(plain, one) is is_set
    monkeypatch.setattr(heap, "available", lambda: False)
    assert allocator_set(plain)


def test_a_heap_is_kept_by_variables_that_the_user_has_not_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in STEADY_HEAP:
        monkeypatch.delenv(name, raising=False)
    plain = Setting((sys.executable, "-c", ""), Mode.RACE)
    steady = Setting((sys.executable, "-c", ""), Mode.RACE, steady_heap=True)
    assert not STEADY_HEAP.keys() & child_environment(plain, tmp_path).keys()
    assert child_environment(steady, tmp_path).items() >= STEADY_HEAP.items()
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "7")
    assert child_environment(steady, tmp_path)["MALLOC_MMAP_MAX_"] == "7"
