"""The final race of a tune: the whole recipe against the plain script."""

from collections.abc import Sequence
from dataclasses import replace

from hotlap.core.errors import HotlapError
from hotlap.core.registry import technique
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Verdict
from hotlap.trial.trial import TimeOverError
from hotlap.tune.candidates import in_every_step, reads_ahead
from hotlap.tune.result import LIVE_FINAL, RACE_STANDS, Outcome, Status, TuneResult, reported
from hotlap.tune.state import TuneState
from hotlap.tune.time_plan import FEWEST_PAIRS

REPORTED_PRECISION = 0.05
NOT_CONFIRMED = "faster when it was raced, which the final race did not confirm"


def final_race(state: TuneState) -> None:
    """Race the whole recipe against the plain script, on fresh processes where time allows.

    Parity may break only after more steps than a candidate's race had, or only with the others on.
    Then the technique whose numerics are widest is taken out, and the rest is raced again.
    """
    result = state.result
    state.races.drop_ahead()
    while result.kept:
        confirm_recipe(state)
        parity = result.final_parity
        if parity is None or parity.kept or parity.unclear or len(result.kept) == 1:
            return
        take_out(state, widest_numerics(result.kept), parity)


def widest_numerics(kept: Sequence[Outcome]) -> Outcome:
    """The row that changes numerics most; of several the one kept last."""
    return max(reversed(kept), key=lambda row: technique(row.technique).numerics.width)


def take_out(state: TuneState, row: Outcome, parity: Parity) -> None:
    """Leave a technique out of the recipe that broke parity, and those raced together with it."""
    result = state.result
    reason = f"in the final race, of the whole recipe: {parity.reason}"
    for other in (row, *(o for o in result.kept if row.technique in o.joined)):
        state.record(replace(other, status=Status.BROKE_PARITY, reason=reason, parity=parity))
    stays = {name for kept in result.kept for name in (kept.technique, *kept.joined)}
    stays |= result.base.keys()
    rest = {name: values for name, values in state.chosen.items() if name in stays}
    state.races.drop(state.best)
    state.best, state.won = state.races.side(rest), None
    result.chosen, result.final, result.final_parity = rest, None, None


def confirm_recipe(state: TuneState) -> None:
    """Race the recipe as it is now; without time, the race of a technique alone stands for it."""
    result, plan = state.result, state.plan
    alone = len(result.kept) == 1 and not result.base
    stands = alone and result.kept[0].technique == state.raced_on_plain
    if stands and plan.latest < plan.shortest_final / plan.stretch / 2:
        race_stands_for_final(result)
        return
    state.watcher.stage("final race: the whole recipe against the plain script")
    try:
        found = race_recipe(state)
    except HotlapError as error:
        if not stands or not isinstance(error, TimeOverError):
            result.failed = str(error)
            return
        found = None
    if found is None or (stands and too_few_pairs(found)):
        race_stands_for_final(result)
        return
    result.final = found
    result.final_parity = parity = state.parity_with_plain(state.best)
    if alone:  # it repeats the race of the only row, which reports the last one
        reason = parity.reason if found.verdict is Verdict.FASTER else NOT_CONFIRMED
        row = result.kept[0]
        result.record(replace(row, race=found, parity=parity, reason=reason))


def race_recipe(state: TuneState) -> RaceResult:
    """Race it, on fresh processes where the time suffices for launching them.

    What can be switched on in a live process, as a whole, is raced in one of the plain script.
    """
    plan = state.plan
    state.races.give_until(plan.end)
    switched = state.best.launches > 0 and state.switchable(state.chosen)
    sides = (state.plain,) if switched else (state.plain, state.best)
    evidence = None
    if plan.final_fits_fresh:
        evidence = state.won
        for side in sides:
            side.close()
            side.start()
    else:
        state.result.notes.append(LIVE_FINAL)
    for side in sides:
        side.ready()
    seconds = max(min(plan.shortest_final, plan.latest), plan.left)
    if switched:
        in_steps = all(in_every_step(technique(name)) for name in state.chosen)
        memory = state.plain.peak / max(1, state.best.peak)
        found = state.races.race_switched(
            state.plain, state.chosen, seconds, evidence, precision=REPORTED_PRECISION,
            plain_steps=in_steps, whole_epochs=not in_steps,
        )  # fmt: skip
        found = replace(found, memory=memory)
        return found if evidence is None else confirmed(found, state.config.min_effect)
    epochs = reads_ahead(state.chosen, state.plain.epoch_steps, workers=state.plain.has_workers)
    both = state.plain.longest_epoch + state.best.longest_epoch
    whole = epochs and FEWEST_PAIRS * both * plan.stretch <= plan.latest
    found = state.races.race(
        state.plain, state.best, seconds, evidence, precision=REPORTED_PRECISION,
        lost=lambda: len(state.result.kept) > 1 and state.lost(state.best),
        whole_epochs=whole, share_epoch=epochs and not whole,
    )  # fmt: skip
    return found if evidence is None else confirmed(found, state.config.min_effect)


def confirmed(found: RaceResult, min_effect: float) -> RaceResult:
    """A final race that went on from the races of the only technique, as it is to be reported.

    Its own pairs have to show a gain, alone or together with those before.
    """
    fresh = found.fresh
    if fresh is None:
        return found
    alone = fresh.low > 1.0 + min_effect / 2
    faster = fresh.ratio > 1.0 and (alone or found.verdict is Verdict.FASTER)
    verdict = Verdict.FASTER if faster else Verdict.INCONCLUSIVE
    return replace(
        found.with_estimate(reported(found.estimate, fresh, verdict) if faster else fresh),
        verdict=verdict,
    )


def too_few_pairs(found: RaceResult) -> bool:
    """Whether a race had too few pairs for a verdict."""
    return found.verdict is Verdict.INCONCLUSIVE and found.estimate.pairs < FEWEST_PAIRS


def race_stands_for_final(result: TuneResult) -> None:
    """Without time for a final race: of one technique, its own race was one against the script."""
    row = result.kept[0]
    assert row.race is not None
    assert row.estimate is not None
    result.final = row.race.with_estimate(row.estimate)
    result.final_parity = row.parity
    result.notes.append(RACE_STANDS)
