"""`hotlap tune --until`: techniques that change the training, raced to a target one by one.

The plain script is run to the target first: what it takes says how long a schedule may be and
whether the time suffices. Each candidate is then raced against the plain script over several
seeds (`hotlap.until.race`). The recipe holds the one that gains most; two of them together are
another training, which was not raced.

The chance of any wrong winner is at most `ALPHA`: the first that is raced has half of it, the next
half of the rest, and so on. The order is fixed beforehand, and what cannot be raced spends nothing.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce

from hotlap.core.errors import HotlapError
from hotlap.core.machine import Machine
from hotlap.core.recipe import Kept, Measured, Recipe, script_of, torch_version
from hotlap.core.registry import techniques
from hotlap.core.technique import How, Numerics, Technique
from hotlap.trial.command import shown
from hotlap.trial.launch import Setting
from hotlap.trial.stats import Verdict
from hotlap.tune.candidates import Wanted, values_of
from hotlap.tune.result import OUT_OF_TIME, Status
from hotlap.until.race import (
    MetricSource,
    OnSlice,
    Run,
    UntilResult,
    UntilRules,
    later,
    race_until,
)
from hotlap.until.race import run_alone as run_to_target
from hotlap.until.targets import LOSS, Target

ALPHA = 0.05
REFERENCE_SHARE = 0.25
"""Part of the budget that the plain script's first run may take."""
SCHEDULE_SHARES = (1.0, 0.5)
"""Lengths of a schedule that are raced, over the steps that the plain script took.

The longer first: it gains less where both arrive, and arrives where the shorter does not."""
FIRST = ("lr_schedule", "batch_size")
"""Raced before the others: the articles claim 10x and 4x of them, and of the others no figure."""


@dataclass(frozen=True)
class TrainingRow:
    """A technique with its values, what became of it and why."""

    technique: str
    values: dict[str, object]
    status: Status
    reason: str = ""
    race: UntilResult | None = None


@dataclass(frozen=True)
class UntilConfig:
    """What is raced to which target, where its metric is read, and how long it may take."""

    setting: Setting
    target: Target
    source: MetricSource
    wanted: Wanted
    rules: UntilRules
    patience: float


@dataclass
class UntilTune:
    """What a tune to a target found out; `plain` is the plain script's first run."""

    command: tuple[str, ...]
    target: Target
    plain: Run | None = None
    rows: list[TrainingRow] = field(default_factory=list)
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def at_once(self) -> bool:
        """Whether the plain script's first value reaches the target: it says nothing of training.

        A metric that is evaluated once an epoch may be reached by the first epoch.
        """
        plain = self.plain
        first = plain is not None and plain.time.reached and len(plain.curve) == 1
        return first and self.target.metric == LOSS

    @property
    def best(self) -> TrainingRow | None:
        """The kept row with the largest gain."""
        kept = [row for row in self.rows if row.status is Status.KEPT and row.race]
        return max(kept, key=lambda row: row.race.ratio.low if row.race else 0.0, default=None)


def tune_until(
    config: UntilConfig, machine: Machine, stage: Callable[[str], None],
    on_slice: OnSlice = lambda *_: None,
) -> UntilTune:  # fmt: skip
    """Race every technique that changes the training; Ctrl-C keeps the rows that are complete.

    Raises:
        UsageError: the metric was never seen.
        TrialFailedError: the plain script failed.
    """
    begin = time.monotonic()
    result = UntilTune(config.setting.command, config.target)
    try:
        stage("the plain script, to the target")
        share = REFERENCE_SHARE * config.rules.seconds
        result.plain, _ = run_to_target(
            config.setting, config.target, config.source, share, config.patience
        )
        if result.plain.time.reached and not result.at_once:
            for record, values in _candidates(config.wanted, machine, result.plain.steps):
                stage(f"{record.id} {_listed(values)}".strip())
                left = config.rules.seconds - (time.monotonic() - begin)
                raced = sum(row.race is not None for row in result.rows)
                rules = replace(config.rules, seconds=left, alpha=level(raced))
                result.rows.append(_raced(config, rules, record, values, result.plain, on_slice))
    except KeyboardInterrupt:
        result.interrupted = True
    result.seconds = time.monotonic() - begin
    return result


def level(raced: int) -> float:
    """The level of the interval of the next race, after so many.

    A winner is wrong where the interval lies above the true ratio, half of the times that it
    misses it: the levels of all races may add up to twice `ALPHA`.
    """
    return ALPHA * 0.5**raced


def _candidates(
    wanted: Wanted, machine: Machine, steps: int
) -> Iterator[tuple[Technique, dict[str, object]]]:
    """The techniques that change the training, with each combination of their values."""
    known = techniques()
    for record in sorted(known.values(), key=lambda record: _rank(record.id)):
        named = not wanted.only or wanted.asks_for(record.id)
        if record.numerics is not Numerics.TRAINING or How.MOVE not in record.how or not named:
            continue
        if record.id in wanted.skip or (record.on_request and not wanted.asks_for(record.id)):
            continue
        for values in values_of(record, machine):
            if "steps" in values:
                for share in SCHEDULE_SHARES:
                    yield record, {**values, "steps": max(1, round(share * steps))}
            else:
                yield record, values


def _rank(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _raced(
    config: UntilConfig, rules: UntilRules, record: Technique, values: dict[str, object],
    plain: Run, on_slice: OnSlice,
) -> TrainingRow:  # fmt: skip
    """Race one technique against the plain script, if the time suffices and it changes anything."""
    row = TrainingRow(record.id, values, Status.NOT_RACED, OUT_OF_TIME)
    if rules.seconds < 2 * rules.seeds * plain.time.seconds:  # A's runs, and B's as long
        return row
    assert config.setting.output is not None
    output = config.setting.output.with_suffix(".with.log")
    changed = replace(config.setting.having({record.id: values}), output=output)
    try:
        _, standing = run_to_target(changed, config.target, config.source, 0.0, config.patience)
        if record.id not in standing.get("held", {}):
            reason = standing.get("inert", {}).get(record.id, "it found nothing to change")
            return replace(row, status=Status.NOT_APPLICABLE, reason=reason)
        settings = config.setting, changed
        race = race_until(settings, config.target, config.source, rules, config.patience, on_slice)
    except HotlapError as error:
        return replace(row, status=Status.CRASHED, reason=str(error))
    if race.interrupted:
        raise KeyboardInterrupt
    status, reason = _judged(race)
    return replace(row, status=status, reason=reason, race=race)


def _judged(race: UntilResult) -> tuple[Status, str]:
    if race.ratio.verdict is Verdict.FASTER:
        return Status.KEPT, "reaches the target sooner"
    reached = [a.time.reached for a, _ in race.pairs]
    if all(reached) and not any(b.time.reached for _, b in race.pairs):
        values = [b.best for _, b in race.pairs if not math.isnan(b.best)]
        best = f"best {reduce(race.target.better, values):.4g}" if values else "no finite value"
        return Status.NOT_FASTER, f"did not reach the target ({best})"
    if all(map(later, race.pairs)):
        return Status.NOT_FASTER, f"reached the target later in all {len(race.pairs)} seeds"
    return _undecided(race.ratio.verdict, reached)


def _undecided(verdict: Verdict, reached: list[bool]) -> tuple[Status, str]:
    """What the interval says of a technique that neither won nor lost every seed."""
    if verdict is Verdict.SAME:
        return Status.SAME, "reaches the target in the same time"
    if verdict is Verdict.SLOWER:
        return Status.NOT_FASTER, "reaches the target later"
    if all(reached):
        return Status.INCONCLUSIVE, "raise --seeds or --budget"
    missed = f"{reached.count(False)} of {len(reached)} seeds"
    return Status.INCONCLUSIVE, f"the plain script did not arrive in {missed}; raise --budget"


def _listed(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def recipe_of(result: UntilTune, machine: Machine, date: str) -> Recipe | None:
    """The recipe: the technique that gains most; None where none was kept."""
    row = result.best
    if row is None or row.race is None:
        return None
    ratio = row.race.ratio
    interval = (ratio.low, ratio.high)
    script, script_hash = script_of(result.command)
    parity = f"not compared: the training changes; raced to {result.target}"
    kept = Kept(row.values, ratio.ratio, interval, parity=parity)
    measured = Measured(
        command=shown(result.command), ratio=ratio.ratio, interval=interval, pairs=ratio.pairs,
        parity=parity, confirmed=True, date=date, torch=torch_version(),
        machine=machine.summary(), fingerprint=machine.fingerprint, script=script,
        script_hash=script_hash,
    )  # fmt: skip
    return Recipe({row.technique: kept}, measured)
