"""Races of a tune: what a race decides, whose fault a failure is, and the background load."""

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode
from hotlap.trial import load
from hotlap.trial.data_parity import DataUse
from hotlap.trial.launch import SLEEPING_THREADS, Setting
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.side import Pace
from hotlap.trial.stats import Estimate, Verdict
from hotlap.trial.stopping import StopReason
from hotlap.tune import races as module
from hotlap.tune.races import NO_WHOLE_EPOCHS, Races, judged, noise_of, parity_of
from hotlap.tune.result import Outcome, Status, TuneResult
from hotlap.tune.state import REPEATS

PARITY = Parity(True, "bitwise", 100, 0.0, 0.0, "losses equal in all 100 steps")
FASTER = RaceResult(
    Estimate(1.3, 1.1, 1.5, 9, 0.95), Verdict.FASTER, "step", True, 1, 1, 1, 1, 0, 0, 9
)
OPEN = replace(
    FASTER, estimate=Estimate(0.9, 0.5, 1.6, 6, 0.95), verdict=Verdict.INCONCLUSIVE,
    stopped=StopReason.TIME, seconds_needed=42.0,
)  # fmt: skip


def fate(race: RaceResult, parity: Parity = PARITY, name: str = "tf32", **more: Any) -> Outcome:
    held: dict[str, list[str]] = {name: []} if more.pop("held", True) else {}
    inert = more.pop("inert", {name: "no matmul"})
    side: Any = SimpleNamespace(
        held=held, inert=inert, happened=Counter(more.pop("happened", ())),
        epoch_steps=more.pop("epoch_steps", 0), has_workers=more.pop("has_workers", False),
        at=more.pop("at", 99), ends_after=0,
    )  # fmt: skip
    row = Outcome(name, Status.INCONCLUSIVE, race=race, parity=parity, **more)
    return judged(row, side)  # type: ignore[arg-type]


def test_a_gain_with_parity_is_kept() -> None:
    assert fate(FASTER).status is Status.KEPT


def test_what_was_not_applied_or_broke_parity_is_not_kept() -> None:
    found = fate(FASTER, held=False)
    assert (found.status, found.reason) == (Status.NOT_APPLICABLE, "no matmul")
    broken = replace(PARITY, kept=False, reason="off by 3 %")
    found = fate(FASTER, broken)
    assert (found.status, found.reason) == (Status.BROKE_PARITY, "off by 3 %")
    assert fate(FASTER, replace(broken, steps=1)).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("name", "happened", "open_reason"),
    [
        ("no_grad_eval", (), "no evaluation ran while it was raced"),
        ("no_grad_eval", ("eval",), ""),
        ("async_checkpoint", ("eval",), "no file was saved while it was raced"),
        ("loader_reuse", ("epoch",), "no loader began a second time while it was raced"),
        ("loader_reuse", ("epoch", "epoch"), ""),
        ("tf32", (), ""),
    ],
)
def test_what_had_no_occasion_to_act_is_open_and_not_inapplicable(
    name: str, happened: tuple[str, ...], open_reason: str
) -> None:
    found = fate(FASTER, name=name, held=False, inert={}, happened=happened)
    assert found.is_open is bool(open_reason)
    assert found.reason == open_reason or "nothing to change" in found.reason
    assert found.race is None or not open_reason, "the ratio of a script and itself"


def test_what_learns_from_backward_passes_is_not_judged_before_it_could() -> None:
    early = fate(FASTER, name="unused_gradients", held=False, inert={}, at=5)
    assert early.is_open
    assert early.reason == "too few steps ran while it was raced"
    late = fate(FASTER, name="unused_gradients", held=False, inert={}, at=40)
    assert late.status is Status.NOT_APPLICABLE


def test_plain_steps_say_nothing_of_what_acts_once_an_epoch() -> None:
    found = fate(FASTER, name="no_grad_eval")
    assert (found.status, found.race) == (Status.INCONCLUSIVE, None)
    assert fate(replace(FASTER, unit="epoch"), name="no_grad_eval").status is Status.KEPT


def outputs(*bits: int) -> list[dict[str, object]]:
    return [
        {"step": i, "given": 0, "shape": [2], "values": [1.0, 1.0 + 1e-7 * b], "bits": b}
        for i, b in enumerate(bits)
    ]


def showing(*bits: int) -> Any:
    return SimpleNamespace(outputs=outputs(*bits), losses=[], data=DataUse())


@pytest.mark.parametrize(
    ("again", "repeats", "kept"),
    [((1, 2, 3, 4), True, False), ((1, 2, 3, 5), False, True), ((1, 2), None, False)],
    ids=["repeats", "differs", "too little"],
)
def test_whether_a_program_that_does_not_train_repeats_is_seen_in_its_outputs(
    again: tuple[int, ...], repeats: bool | None, kept: bool
) -> None:
    plain, other = showing(1, 2, 3, 4), showing(1, 2, 3, 9)
    found = noise_of(plain, showing(*again))
    assert (found and found.deterministic) is repeats
    exact = parity_of(["debug_off"], plain, other, found or REPEATS)
    assert exact.kept is kept  # equal bits are asked only of what repeats them itself


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"verdict": Verdict.SLOWER}, Status.NOT_FASTER, "slower"),
        ({"verdict": Verdict.SAME}, Status.SAME, "within 5% of one another"),
        ({"not_faster": True}, Status.NOT_FASTER, "at most the same"),
        ({}, Status.INCONCLUSIVE, "no verdict within its time"),
        (
            {
                "stopped": StopReason.FUTILE,
                "estimate": replace(OPEN.estimate, ratio=1.45),
            },
            Status.INCONCLUSIVE,
            "stopped early: its time did not suffice for a verdict",
        ),
    ],
)
def test_not_faster_is_said_only_of_what_the_interval_excludes(
    change: dict[str, Any], status: Status, words: str
) -> None:
    found = fate(replace(OPEN, **change))
    assert found.status is status
    assert words in found.reason
    assert found.is_open is (status is Status.INCONCLUSIVE)
    assert found.seconds_needed == (42.0 if found.is_open else 0.0)


def test_a_parity_that_other_draws_make_unclear_leaves_the_row_open() -> None:
    differs = replace(PARITY, kept=False, reason="other draws may make such a difference")
    assert fate(FASTER, differs).status is Status.BROKE_PARITY
    found = fate(FASTER, replace(differs, unclear=True))
    assert (found.status, found.reason) == (Status.INCONCLUSIVE, differs.reason)


def test_what_was_dropped_early_names_no_others() -> None:
    reason = fate(replace(OPEN, stopped=StopReason.FUTILE)).reason
    assert "others" not in reason
    assert "unlikely" not in reason, "the interval may be wide"


@pytest.mark.parametrize(
    ("unit", "epoch_steps", "status"),
    [
        ("step", 23, Status.INCONCLUSIVE),
        ("epoch", 23, Status.KEPT),
        ("step", 1000, Status.KEPT),
        ("step", 0, Status.KEPT),  # loaders of unknown length
    ],
)
def test_plain_steps_do_not_show_what_workers_read_ahead_of_a_short_epoch(
    unit: str, epoch_steps: int, status: Status
) -> None:
    changed = [
        ("loader_workers", ()),
        ("fewer_workers", ()),
        ("fused_optimizer", ("loader_workers",)),
    ]
    for name, joined in changed:
        race = replace(FASTER, unit=unit)
        found = fate(race, name=name, epoch_steps=epoch_steps, joined=joined)
        assert found.status is status
        assert (found.reason == NO_WHOLE_EPOCHS) == (status is Status.INCONCLUSIVE)
        assert found.race is not None, "what was seen stays"
    reads = {"name": "prefetch_factor", "epoch_steps": epoch_steps}
    assert fate(replace(FASTER, unit=unit), has_workers=True, **reads).status is status
    assert fate(replace(FASTER, unit=unit), **reads).status is Status.KEPT, "no queue is filled"
    for name in ("fused_optimizer", "cpu_threads"):  # which acts on reading, but in every step too
        assert fate(FASTER, name=name, epoch_steps=23).status is Status.KEPT


def test_a_race_reported_by_other_pairs_has_times_of_their_ratio() -> None:
    told = replace(FASTER, a_step=0.04, b_step=0.01).with_estimate(Estimate(2.0, 1.5, 2.5, 6, 0.95))
    assert told.a_step / told.b_step == pytest.approx(told.estimate.ratio)
    assert math.sqrt(told.a_step * told.b_step) == pytest.approx(0.02)


def test_a_load_dependent_gain_counts_only_on_a_calm_machine() -> None:
    assert fate(FASTER, name="cpu_threads", load=0.2).status is Status.KEPT
    found = fate(FASTER, name="cpu_threads", load=1.4)
    assert found.status is Status.LOAD_DEPENDENT
    assert "used 1.4 cores" in found.reason
    assert fate(FASTER, name="tf32", load=1.4).status is Status.KEPT


def test_a_load_dependent_gain_that_fresh_pairs_refute_is_inconclusive() -> None:
    refuted = replace(FASTER, fresh=Estimate(0.95, 0.4, 2.2, 6, 0.95))
    found = fate(refuted, name="cpu_threads", load=1.6)
    assert (found.status, found.estimate) == (Status.INCONCLUSIVE, FASTER.estimate)
    assert "faster" not in found.reason
    unclear = replace(FASTER, fresh=Estimate(2.25, 0.58, 8.68, 6, 0.95))
    found = fate(unclear, name="cpu_threads", load=1.6)
    assert (found.status, found.estimate) == (Status.LOAD_DEPENDENT, FASTER.estimate)
    assert fate(unclear).estimate == FASTER.estimate, "kept, by all pairs"


def test_what_was_slower_is_reported_by_all_pairs_where_the_fresh_ones_do_not_show_it() -> None:
    whole = Estimate(0.7, 0.6, 0.8, 40, 0.95)
    slower = replace(FASTER, estimate=whole, verdict=Verdict.SLOWER)
    few = fate(replace(slower, fresh=Estimate(0.78, 0.57, 1.07, 12, 0.95)))
    assert (few.status, few.reason, few.estimate) == (Status.NOT_FASTER, "slower", whole)
    clear = Estimate(0.72, 0.6, 0.9, 12, 0.95)
    assert fate(replace(slower, fresh=clear)).estimate == clear


def test_what_won_is_reported_by_pairs_that_had_no_part_in_it() -> None:
    row = fate(replace(FASTER, fresh=Estimate(1.15, 1.05, 1.25, 6, 0.95)))
    assert row.kept().ratio == 1.15
    assert row.kept().interval == (1.05, 1.25)
    few = fate(replace(FASTER, fresh=Estimate(1.2, 0.0, math.inf, 2, 0.95)))
    assert few.kept().ratio == 1.3, "too few pairs for an interval"


class Failing:
    """A race in which a side fails, the first times it is run."""

    def __init__(self, times: int, victim: str) -> None:
        self.times, self.victim, self.runs = times, victim, 0

    def __call__(self, a: Any, b: Any, *_: Any, **__: Any) -> RaceResult:
        self.runs += 1
        a.trial = b.trial = "live"
        if self.runs > self.times:
            return FASTER
        {"a": a, "b": b}[self.victim].trial = None
        raise TrialFailedError("rank 1 was killed by SIGKILL")


PLAIN = Setting(("python", "train.py"), Mode.RACE)


def races() -> tuple[Races, list[str]]:
    said: list[str] = []
    watcher: Any = SimpleNamespace(stage=said.append, note=said.append, pair=None)
    return Races(PLAIN, 120.0, 0.02, watcher), said


def sides(*techniques: str) -> tuple[Any, Any]:
    tuned = PLAIN.having({name: {} for name in techniques})
    about: Any = {"trial": None, "starting": 0.0, "losses": []}
    return (SimpleNamespace(setting=s, **about) for s in (PLAIN, tuned))  # type: ignore[return-value]


@pytest.mark.parametrize(("victim", "on"), [("a", ["tf32"]), ("a", []), ("b", [])])
def test_what_was_no_techniques_fault_is_raced_once_more(
    monkeypatch: pytest.MonkeyPatch, victim: str, on: list[str]
) -> None:
    failing = Failing(1, victim)
    monkeypatch.setattr(module, "race", failing)
    some, said = races()
    found = some.race(*sides(*on), 5.0)
    assert found is FASTER
    assert failing.runs == 2
    assert "rank 1 was killed by SIGKILL" in said[0]


@pytest.mark.parametrize(("times", "victim", "runs"), [(1, "b", 1), (2, "a", 2)])
def test_a_candidate_that_fails_is_not_given_another_race(
    monkeypatch: pytest.MonkeyPatch, times: int, victim: str, runs: int
) -> None:
    failing = Failing(times, victim)
    monkeypatch.setattr(module, "race", failing)
    some, _ = races()
    with pytest.raises(TrialFailedError):
        some.race(*sides("tf32"), 5.0)
    assert failing.runs == runs


class FakeSide:
    losses: ClassVar[list[float]] = []

    pace = None

    def __init__(self, setting: Setting, *_: Any, passive_wait: bool, deadline: float, **more: Any):
        self.deadline, self.epochs = deadline, more["epochs"]
        self.setting, self.passive_wait = setting, passive_wait
        self.log: list[str] = []
        self.starting = 0.0

    def start(self) -> None:
        self.log.append("start")

    def first_step(self) -> None:
        self.log.append("first step")
        raise TrialFailedError("boom")

    def hold(self) -> None:
        self.log.append("hold")

    def close(self) -> None:
        self.log.append("close")


def test_what_was_launched_ahead_is_used_and_stands_still_during_a_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "Side", FakeSide)
    monkeypatch.setattr(module, "race", lambda *_, **__: FASTER)
    monkeypatch.setattr(load, "busy_now", lambda: False)
    some, _ = races()
    some.launch_ahead({"tf32": {}})
    plain: Any = some.side({})
    assert plain.log == []
    some.race(plain, plain, 5.0)
    ahead: Any = some.side({"tf32": {}})
    assert ahead.log == ["start", "hold"], "nobody waits for it, and its failure is its own"
    again: Any = some.side({"tf32": {}})
    assert again is not ahead
    some.launch_ahead({}, perturbed=True)
    unperturbed: Any = some.side({})
    assert unperturbed.log == [], "another process"
    some.launch_ahead({"channels_last": {}})
    some.drop_ahead()
    other: Any = some.side({"channels_last": {}})
    assert other.log == []


def test_no_candidate_looks_for_an_epoch_that_the_plain_script_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "Side", FakeSide)
    monkeypatch.setattr(load, "busy_now", lambda: False)
    some, _ = races()
    plain: Any = some.side({})
    assert some.side({"tf32": {}}).epochs, "nobody has looked yet"
    plain.pace = Pace(0.01, 50, 0.7, 0.0)
    assert some.side({"tf32": {}}).epochs
    plain.pace = Pace(0.01, 0, 0.0, 0.0)
    assert not some.side({"tf32": {}}).epochs


def test_that_threads_slept_in_the_races_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "race", lambda *_, **__: replace(FASTER, passive_wait=True))
    some, said = races()
    for _ in range(2):
        some.race(*sides("tf32"), 5.0)
    assert (some.notes, said) == ([SLEEPING_THREADS], [module.SLEEPING_IN_MOST])


def test_processes_wait_passively_once_the_machine_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "Side", FakeSide)
    clock, used = [0.0], iter([0.1, 1.5])
    monkeypatch.setattr(load, "busy_now", lambda: False)
    monkeypatch.setattr(load.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(load.OtherPrograms, "cores", lambda _: next(used))
    some, _ = races()
    found = []
    for now in (1.0, 5.0, 10.0, 20.0):
        clock[0] = now
        found.append(some.side({}).passive_wait)
    assert found == [False, False, True, True], "a moment; calm; others; it may come again"
    assert not some.side({"sleeping_threads": {}}).passive_wait, "its own variables do it"


def test_a_kept_row_keeps_its_place_and_one_that_is_raced_again_goes_to_the_end() -> None:
    result = TuneResult((), 60.0)
    kept, open_ = Outcome("tf32", Status.KEPT), Outcome("compiled", Status.INCONCLUSIVE)
    for row in (open_, kept, Outcome("channels_last", Status.SAME)):
        result.record(row)
    result.record(replace(kept, reason="confirmed"))
    result.record(replace(open_, status=Status.SAME))
    assert [row.technique for row in result.outcomes] == ["tf32", "channels_last", "compiled"]
    assert result.outcomes[0].reason == "confirmed"
