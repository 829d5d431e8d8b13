"""A race in which one side fails: whose fault it was, and what is run again."""

from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.tune import field as module
from hotlap.tune.field import Field
from hotlap.tune.orders import Orders

PLAIN = Setting(("python", "train.py"), Mode.RACE)


class Failing:
    """A race that a side fails in, the first times it is run."""

    def __init__(self, times: int, victim: str) -> None:
        self.times, self.victim, self.runs = times, victim, 0

    def __call__(self, a: Any, b: Any, *_: Any) -> str:
        self.runs += 1
        a.trial = b.trial = "live"
        if self.runs > self.times:
            return "raced"
        {"a": a, "b": b}[self.victim].trial = None
        raise TrialFailedError("rank 1 was killed by SIGKILL")


def field() -> tuple[Field, list[str]]:
    said: list[str] = []
    orders = Orders(PLAIN, SimpleNamespace(), 60.0)  # type: ignore[arg-type]
    return Field(orders, SimpleNamespace(stage=said.append, pair=None)), said  # type: ignore[arg-type]


def sides(*techniques: str) -> tuple[Any, Any]:
    tuned = PLAIN.having({name: {} for name in techniques})
    return (SimpleNamespace(setting=s, trial=None) for s in (PLAIN, tuned))  # type: ignore[return-value]


@pytest.mark.parametrize(("victim", "on"), [("a", ["tf32"]), ("a", []), ("b", [])])
def test_what_was_no_techniques_fault_is_raced_once_more(
    monkeypatch: pytest.MonkeyPatch, victim: str, on: list[str]
) -> None:
    failing = Failing(1, victim)
    monkeypatch.setattr(module, "race", failing)
    one, said = field()
    assert one.race(*sides(*on), 5.0) == "raced"
    assert failing.runs == 2
    assert "rank 1 was killed by SIGKILL" in said[0]


@pytest.mark.parametrize(("times", "victim", "runs"), [(1, "b", 1), (2, "a", 2)])
def test_a_candidate_that_fails_is_not_given_another_race(
    monkeypatch: pytest.MonkeyPatch, times: int, victim: str, runs: int
) -> None:
    failing = Failing(times, victim)
    monkeypatch.setattr(module, "race", failing)
    one, _ = field()
    with pytest.raises(TrialFailedError):
        one.race(*sides("tf32"), 5.0)
    assert failing.runs == runs
