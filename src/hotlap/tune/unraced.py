"""Rows of what a tune did not race, and the tune that would settle what is open."""

import math
from collections.abc import Sequence

from hotlap.core.registry import technique
from hotlap.trial.side import Side
from hotlap.tune.candidates import Candidate, pointless
from hotlap.tune.races import NO_WHOLE_EPOCHS
from hotlap.tune.result import ENDED, OUT_OF_TIME, Outcome, Status
from hotlap.tune.state import TuneState

LONGEST_ADVISED_SECONDS = 1800.0
"""Longest tune that is advised to settle open rows."""


def leave_out(state: TuneState, waiting: Sequence[Candidate]) -> None:
    """No time is left for any candidate."""
    left = max(0.0, state.plan.left)
    for candidate in waiting:
        state.record(unraced(state, candidate))
    needed, _ = next_tune(state)
    takes = f": a tune that races it takes about {needed:.0f} s" if needed else ""
    state.watcher.stage(f"{left:.0f} s are left, too few for a race{takes}")


def unraced(state: TuneState, candidate: Candidate) -> Outcome:
    """The row of what is pointless to race now, or what no time is left for."""
    reason = state.why_pointless(candidate) or f"{OUT_OF_TIME}{why_so_long(state, candidate)}"
    needed = epochs_needed(state, candidate)
    return Outcome(
        candidate.name, Status.NOT_RACED, reason, candidate.values, seconds_needed=needed
    )


def record_rest(state: TuneState) -> None:
    """Give rows to the candidates that a failure or an interrupt left without."""
    wanted, least = state.config.wanted, state.config.min_effect
    for candidate in state.candidates:
        reason = pointless(candidate, state.result.chosen, state.script, wanted, least) or ENDED
        row = Outcome(candidate.name, Status.NOT_RACED, reason, candidate.values)
        if not any(row.same_as(known) for known in state.result.outcomes):
            state.result.record(row)


def epochs_needed(state: TuneState, candidate: Candidate, side: Side | None = None) -> float:
    """Seconds of races of whole epochs, where these alone show it; 0 where they are not known.

    Without a `side`, for one that is no faster than the best so far.
    """
    needed = state.epochs_cost(candidate.record, state.epochs_raced(candidate, side or state.best))
    return needed if math.isfinite(needed) else 0.0


def why_so_long(state: TuneState, candidate: Candidate) -> str:
    """What takes long, where something other than its start and its shortest race does."""
    left, needed = state.plan.latest, state.cost(candidate)
    if state.epochs_raced(candidate):
        epochs = epochs_needed(state, candidate)
        return f": {NO_WHOLE_EPOCHS}{f', {_takes(epochs, left)}' if epochs else ''}"
    if candidate.fills and left >= needed - state.plan.filling(fills=True):
        return f": with the epoch that fills it, it needs {_takes(needed, left)}"
    return ""


def _takes(needed: float, left: float) -> str:
    """Seconds that something takes, where they can be waited for, and those that were left."""
    hours = f"more than {LONGEST_ADVISED_SECONDS / 60:.0f} min"
    time = f"about {needed:.0f} s" if needed <= LONGEST_ADVISED_SECONDS else hours
    return f"{time}, and {left:.0f} s were left"


def next_tune(state: TuneState) -> tuple[float, list[str]]:
    """Seconds and techniques of a tune that settles open rows; what takes a calm machine left out.

    The rows that need least come first, for as long as the tune stays short enough to be advised.
    What was raced and joins another open one has to wait for that.
    """
    plan = state.plan
    launches = 3 if state.result.chosen else 2  # the plain script's, its A/A test's, the recipe's
    total = state.profile_seconds + launches * plan.launching
    total += plan.noise_floor_seconds + plan.final_cost
    rows = {row.technique for row in state.result.open}
    needs = sorted(
        (seconds_to_settle(state, row), row.technique)
        for row in state.result.open
        if not row.out_of_reach
        and (row.race is None or rows.isdisjoint(technique(row.technique).joins))
    )
    names: list[str] = []
    for seconds, name in needs:
        if names and total + seconds > LONGEST_ADVISED_SECONDS:
            break
        total += seconds
        names.append(name)
    return (plan.rounded(total), list(dict.fromkeys(names))) if names else (0.0, [])


def seconds_to_settle(state: TuneState, row: Outcome) -> float:
    """What a row takes in a tune that begins anew: its start, what it was raced, and the rest."""
    candidate = Candidate(technique(row.technique), row.values)
    plan, test = state.plan, state.tests.get(candidate.key)
    earlier = max(test.evidence.seconds, test.switched.seconds) if test else 0.0
    raced = max(row.race.seconds if row.race else 0.0, earlier)
    rest = row.seconds_needed if math.isfinite(row.seconds_needed) else raced
    starting = plan.race_cost(compiles=candidate.compiles, fills=candidate.fills)
    return plan.launching + max(starting, raced + rest)
