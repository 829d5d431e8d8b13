"""The race of one candidate against the best so far, and what is done with its row."""

import math
from collections.abc import Sequence
from dataclasses import replace

from hotlap.core.errors import HotlapError, NotReachedError
from hotlap.core.machine import available_memory
from hotlap.core.registry import technique
from hotlap.core.technique import Technique
from hotlap.trial.side import Side, block_size
from hotlap.trial.stats import Verdict, launches_needed
from hotlap.trial.trial import TimeOverError
from hotlap.tune.candidates import Candidate, joined, sets_workers, spins
from hotlap.tune.races import (
    NO_WHOLE_EPOCHS,
    SWITCHED_LEAST_SECONDS,
    inert,
    judged,
    not_kept,
    passing,
)
from hotlap.tune.result import Outcome, Status
from hotlap.tune.state import Tried, TuneState
from hotlap.tune.time_plan import FEWEST_PAIRS
from hotlap.tune.unraced import epochs_needed

SPINNING_SHARE, SPINNING_MOST_SHARE = 0.2, 0.3
"""Part of the time that is left for a race against threads that spin, if others wait, and the part
for what looks like a gain. On a busy machine it is the largest gain of many scripts; its pairs take
long, and differ much. No recipe keeps it: with twice the time, two of six scripts had none left for
what it may keep (`benchmarks.tune_load --busy`)."""
SPINNING_SHARE, SPINNING_MOST_SHARE = 0.2, 0.3
"""Part of the time that is left for a race against threads that spin, if others wait, and the part
for what looks like a gain. On a busy machine it is the largest gain of many scripts; its pairs take
long, and differ much. No recipe keeps it: with twice the time, two of six scripts had none left for
what it may keep (`benchmarks.tune_load --busy`)."""
CHECK_SECONDS = 4.0
"""For what won in a live process: losses from its first step on, and a look at its speed."""
NOT_AFTER_RESTART = "the gain of a live process did not reproduce after a restart"
UNCHECKED = "faster in a live process; no time was left to check that the training is the same"
COMPILES_LONG = "it took longer to compile than its share of the time"
STARTS_LONG = "it took longer to start than its share of the time"
UNKNOWN_NOISE = "the losses differ, and there was no time for an A/A test to compare them with"


def launch_next(
    state: TuneState, waiting: Sequence[Candidate], now: Candidate | None = None
) -> None:
    """Launch the candidate that will be raced next, if time and memory suffice for it as well.

    `now`: the one whose race begins. What is raced in a live process needs no launch.
    """
    following = next((c for c in state.hopeful(waiting) if state.allows(c)), None)
    if following is None or state.switched_on(following) or not state.room_for_one_more():
        return
    filling = now is not None and now.fills
    if state.plan.allows_another_race(
        compiles=following.compiles, fills=following.fills, after_filling=filling
    ):
        state.races.launch_ahead(state.with_candidate(following), state.patience_for(following))


def too_late(candidate: Candidate, *, shared: bool) -> str:
    """Why a candidate was not raced in time; `shared`: its start had a share of the time alone."""
    if not shared:
        return "the time was over before it ran"
    return COMPILES_LONG if candidate.compiles else STARTS_LONG


def race_candidate(state: TuneState, candidate: Candidate, waiting: Sequence[Candidate]) -> None:
    """Race the best so far plus one technique against the best so far; keep it if it wins.

    What can be switched on in a live process is raced there. Only if it is faster it is launched,
    to see whether the training stays the same.
    """
    state.watcher.racing(candidate.name, candidate.values)
    candidate_test = state.test_of(candidate, waiting)
    candidate_test.races += 1
    more = joined(candidate.record, state.chosen, state.script, state.machine)
    row = Outcome(candidate.name, Status.INCONCLUSIVE, "", candidate.values, joined=tuple(more))
    if state.switched_on(candidate):
        row = raced_switched(state, row, candidate_test, 1 + len(waiting))
        if row.reason:
            state.record(more_exact(row, state.result.open))
            return
    launch_and_race(state, row, candidate_test, waiting)


def raced_switched(state: TuneState, row: Outcome, test: Tried, remaining: int) -> Outcome:
    """The row of a race in a live process, with the reason why it is not kept.

    Without a reason it is faster there, or (without a race) has to be raced between processes,
    since it took no hold of a live one.
    """
    candidate = Candidate(technique(row.technique), row.values)
    also, bench = state.switched_on(candidate), state.bench()
    state.races.give_until(state.plan.end - (state.plan.reserve if state.result.kept else 0.0))
    try:
        if bench.trial is None:
            state.timed_start(bench)
        if (lacking := without_epochs(state, row, bench)) is not None:
            return lacking
        if candidate.compiles and test.races == 1:
            state.compile_live(bench, also)
        rules = rules_of_race(state, row, state.epochs_raced(candidate, bench), remaining)
        most = time_before_check(state, candidate)
        rules |= {name: min(rules[name], most) for name in ("seconds", "seconds_if_promising")}
        found = state.races.race_switched(
            bench, also, evidence=test.switched, until_gain=True,
            candidates=math.ceil(1 / test.share), confirm_pairs=state.plan.fresh_pairs, **rules,
        )  # fmt: skip
    except TimeOverError:
        needed = 2 * state.cost(candidate)
        late = too_late(candidate, shared=bool(state.plan.latest))
        return replace(row, reason=late, seconds_needed=needed)
    except HotlapError:
        state.only_from_start.add(row.technique)
        return row
    except KeyboardInterrupt:
        state.record(replace(row, reason="interrupted"))
        raise
    if row.technique not in bench.held:
        state.only_from_start.add(row.technique)
        return row
    row = replace(row, race=found, load=found.load.other_cores)
    return passing(row) if found.verdict is Verdict.FASTER else not_kept(row, found)


def time_before_check(state: TuneState, candidate: Candidate) -> float:
    """Seconds that a race in a live process may take, so that what wins can be checked.

    A gain whose training nobody could compare is kept by no recipe.
    """
    plan = state.plan
    reserve = plan.reserve if state.result.kept else 0.0
    checking = plan.start_cost(compiles=candidate.compiles, fills=candidate.fills) + CHECK_SECONDS
    return max(SWITCHED_LEAST_SECONDS, plan.latest - reserve - checking)


def launch_and_race(
    state: TuneState, row: Outcome, candidate_test: Tried, waiting: Sequence[Candidate]
) -> None:
    """Launch the best so far plus a technique, race it, and keep it if it wins."""
    candidate = Candidate(technique(row.technique), row.values)
    chosen = state.with_candidate(candidate)
    if not state.room_for_one_more():
        state.drop_spare()
    side = state.races.side(chosen, state.patience_for(candidate))
    state.races.give_until(state.plan.end - (state.plan.reserve if state.result.kept else 0.0))
    side.start()
    against = reference(state, candidate.record)
    candidate_test.evidence.go_on(against)
    if own := against is not state.best:
        against.start()
    launch_next(state, waiting, candidate)
    try:
        row = outcome_of(state, row, against, side, candidate_test, 1 + len(waiting))
    except KeyboardInterrupt:
        settle_row(state, replace(row, reason="interrupted"), side)
        raise
    finally:
        if own:
            state.races.drop(against)
    settle_row(state, row, side)


def outcome_of(
    state: TuneState, row: Outcome, against: Side, side: Side, test: Tried, remaining: int
) -> Outcome:
    """The row with what became of it, also where its process failed or came too late."""
    try:
        row = checked(state, row, side) if row.race else raced(
            state, row, against, side, test, remaining
        )  # fmt: skip
    except TimeOverError:
        candidate = Candidate(technique(row.technique), row.values)
        late = too_late(candidate, shared=bool(state.plan.latest))
        needed = 2 * state.cost(candidate)
        return replace(row, reason=UNCHECKED if row.race else late, seconds_needed=needed)
    except NotReachedError as error:
        state.best.ready()
        needed = state.plan.start_allowance
        return replace(row, reason=f"{error}; compiling may take longer", seconds_needed=needed)
    except HotlapError as error:
        state.best.ready()
        return replace(row, status=Status.CRASHED, reason=str(error), race=None)
    if row.reason or not row.race:
        return row
    row = judged(row, side)
    guessed = state.noise is None and not (row.parity and row.parity.data_changed)
    if row.status is Status.BROKE_PARITY and guessed:
        return replace(row, status=Status.INCONCLUSIVE, reason=UNKNOWN_NOISE)
    return row


def reference(state: TuneState, record: Technique) -> Side:
    """What a candidate is raced against: the best so far.

    The sleep of threads is raced against a process of its own whose threads spin, so that the best
    so far, whose threads sleep on a busy machine, need not be launched again.
    """
    if not (spins(record) and state.best.passive_wait and state.room_for_one_more()):
        return state.best
    return state.races.side(state.chosen, spinning=True)


def settle_row(state: TuneState, row: Outcome, side: Side) -> None:
    """Make a winner the best so far, end any other, and record the row."""
    if row.status is Status.KEPT:
        adopt(state, row, side)
    else:
        state.races.drop(side)
    state.record(more_exact(row, state.result.open))


def more_exact(row: Outcome, open_rows: Sequence[Outcome]) -> Outcome:
    """The row, or an earlier one of the same candidate where both are open and it knows more.

    It does by a narrower interval of no fewer pairs: a race that went on from an earlier one has
    those of both, and is right to be less sure where its launches differ more.
    """
    for old in open_rows:
        more = old.same_as(row) and pairs(old) >= pairs(row) and spread(old) < spread(row)
        if more and row.status is Status.INCONCLUSIVE:
            return old
    return row


def pairs(row: Outcome) -> int:
    """The pairs that a row was raced by."""
    return row.race.estimate.pairs if row.race else 0


def spread(row: Outcome) -> float:
    """The width of a row's interval: the log of its upper limit over the lower."""
    found = row.race.estimate if row.race else None
    return math.log(found.high / found.low) if found and found.low > 0 else math.inf


def raced(
    state: TuneState, row: Outcome, against: Side, side: Side, test: Tried, remaining: int
) -> Outcome:
    """The row with its race and its parity; without, where no race could show anything."""
    record = technique(row.technique)
    candidate = Candidate(record, row.values)
    state.timed_start(side, compiles=candidate.compiles)
    if reason := inert(row, side):
        return replace(row, status=Status.NOT_APPLICABLE, reason=reason)
    if (lacking := without_epochs(state, row, side)) is not None:
        return lacking
    epochs = state.epochs_raced(candidate, side)
    found = state.races.race(
        against, side, evidence=test.evidence, until_gain=True, lost=lambda: state.lost(side),
        candidates=math.ceil(1 / test.share), confirm_pairs=state.plan.fresh_pairs,
        **rules_of_race(state, row, epochs, remaining),
    )  # fmt: skip
    if not spins(record):  # no other candidate's pairs take as long
        state.note_pairs(state.best, side, found.unit)
    parity = state.parity_with_plain(side)
    return replace(row, race=found, parity=parity, load=found.load.other_cores)


def without_epochs(state: TuneState, row: Outcome, side: Side) -> Outcome | None:
    """The row of what only whole epochs show, where the time does not hold them; None if it may."""
    candidate = Candidate(technique(row.technique), row.values)
    epochs = state.epochs_raced(candidate, side)
    if not epochs or state.plan.allows(state.epochs_cost(candidate.record, epochs)):
        return None
    needed = epochs_needed(state, candidate, side)
    return replace(row, reason=NO_WHOLE_EPOCHS, seconds_needed=needed)


def checked(state: TuneState, row: Outcome, side: Side) -> Outcome:
    """A row that won in a live process, with what it shows from its first step on.

    Whether the training is the same, what it costs to start, and that it is not slower after all:
    its few pairs against another process tell no more of a small gain.
    """
    assert row.race is not None
    candidate = Candidate(technique(row.technique), row.values)
    state.timed_start(side, compiles=candidate.compiles)
    if reason := inert(row, side):
        return replace(row, status=Status.NOT_APPLICABLE, reason=reason, race=None)
    found = state.races.race(state.best, side, CHECK_SECONDS, precision=0.0, launches=1)
    parity = state.parity_with_plain(side)
    own = {name: getattr(found, name) for name in ("memory", "a_warmup", "b_warmup")}
    row = replace(row, race=replace(row.race, **own), parity=parity)
    if found.verdict is Verdict.SLOWER and parity.kept:
        return replace(row, race=replace(found), reason=NOT_AFTER_RESTART)
    return row


def rules_of_race(
    state: TuneState, row: Outcome, epochs: float, remaining: int
) -> dict[str, float | bool]:
    """How long the race of a row may take, and what its blocks are.

    `epochs`: seconds of an epoch of both sides, where plain steps alone do not show it; else 0.
    """
    plan, candidate = state.plan, Candidate(technique(row.technique), row.values)
    spinning = spins(candidate.record)
    seconds = plan.race_seconds(remaining, plain_steps=candidate.plain_steps)
    promising = plan.promising_seconds
    last = remaining == 1 and not other_open_rows(state, row)
    if last:
        seconds = max(seconds, plan.left - plan.reserve)
    elif spinning:
        seconds, promising = SPINNING_SHARE * plan.left, SPINNING_MOST_SHARE * plan.left
    whole = epochs > 0 and plan.allows(plan.epochs_seconds(epochs))
    pairs = FEWEST_PAIRS * epochs * plan.stretch
    if whole and sets_workers(candidate.record):  # its gain is in the steps: others need the time
        whole = pairs <= seconds
    if whole:
        seconds = max(seconds, pairs)
    if (rest := seconds_to_go(state, row)) <= plan.left - plan.reserve:
        seconds = max(seconds, rest)
    return {
        "seconds": seconds, "seconds_if_promising": promising,
        "give_up": not (last or spinning or state.in_vain(candidate)),
        "plain_steps": candidate.plain_steps,
        "whole_epochs": whole, "share_epoch": epochs > 0 and not whole,
    }  # fmt: skip


def seconds_to_go(state: TuneState, row: Outcome) -> float:
    """What the last race of the same candidate said to need for a verdict; 0 where none did."""
    raced_before = [old for old in state.result.open if old.race and old.same_as(row)]
    return raced_before[0].seconds_needed if raced_before else 0.0


def other_open_rows(state: TuneState, row: Outcome) -> bool:
    """Whether time that is left could go to another row."""
    others = [
        Candidate(technique(other.technique), other.values)
        for other in state.result.open
        if not other.same_as(row)
    ]
    return any(state.allows(c) and not state.why_pointless(c) for c in others)


def adopt(state: TuneState, row: Outcome, side: Side) -> None:
    """A candidate becomes the best so far."""
    mine = Candidate(technique(row.technique), row.values).key
    test, alone = state.tests[mine], state.best is state.plain
    state.won = (
        (test.switched if row.race and row.race.switched else test.evidence) if alone else None
    )
    state.drop_spare()
    if alone:
        state.raced_on_plain = row.technique
    if state.best is not state.plain:
        state.races.drop(state.best)
    elif available_memory() < 2 * state.plain.peak:
        state.plain.close()
    for name in set(state.chosen) - set(side.setting.techniques):
        old = next((r for r in state.result.kept if r.technique == name), None)
        if old is not None:
            reason = f"{row.technique} is faster still"
            state.result.record(replace(old, status=Status.NOT_FASTER, reason=reason))
    state.best = side
    assert row.estimate is not None
    state.ratio *= math.sqrt(row.estimate.ratio * max(row.estimate.low, 1.0))  # it flatters
    plan_final(state, pairs(row))
    state.races.drop_ahead()
    state.levels.give_back(state.tests[mine].share)
    state.tests.clear()
    kept = [technique(name) for name in (*row.joined, row.technique)]
    state.script.keep(kept, row.estimate.ratio)


def plan_final(state: TuneState, pairs_won: int) -> None:
    """Plan the final race of the best so far, which needed so many pairs to become it."""
    state.result.chosen = state.chosen
    pace = state.best.ready_pace()
    final = block_size(state.plain.ready_pace(), pace).pair_seconds
    one = state.switchable(state.chosen)
    launches = 1 if one else launches_needed(state.ratio, state.config.min_effect)
    on = [Candidate(technique(name), {}) for name in state.chosen]
    state.plan.kept(
        pace.block_seconds, final, launches, pairs_won,
        compiles=any(c.compiles for c in on), fills=any(c.fills for c in on),
    )  # fmt: skip
