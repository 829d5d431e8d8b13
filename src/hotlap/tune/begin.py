"""How a tune begins: the profile, the plain script, the A/A test, what groups can give."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from hotlap.core.amounts import several
from hotlap.core.errors import HotlapError, TrialFailedError
from hotlap.core.machine import available_memory
from hotlap.core.protocol import FEWEST_STEPS
from hotlap.core.registry import ceilings, technique
from hotlap.profile.look import Bounds, Meanwhile, look
from hotlap.trial.race import out_of_memory
from hotlap.trial.reach import last_words
from hotlap.trial.side import too_short
from hotlap.trial.trial import TimeOverError
from hotlap.tune.candidate_race import launch_next, plan_final
from hotlap.tune.candidates import (
    Candidate,
    ScriptProfile,
    candidates_for,
    memory_savers,
    phases_of,
    values_of,
)
from hotlap.tune.races import noise_of
from hotlap.tune.result import UpperBound
from hotlap.tune.state import TuneState
from hotlap.tune.unraced import leave_out

PROFILE_SECONDS = 6.0
PROFILE_SHARE = 0.05
PROFILE_MOST_SHARE = 0.4
"""Part of the budget after which the profile takes no further step, however few it has timed."""
PROFILE_FILES_FROM_SECONDS = 60.0
"""Budget from which a few seconds may go to the files that the dataset reads."""
LEAST_FREE_MEMORY = 0.25
"""Part of the machine's memory that stays free while two processes start that nobody knows yet."""
UPPER_BOUND_SECONDS = 5.0
TOOK_NO_HOLD = "it found nothing to change while it was raced"


def profile_baseline(state: TuneState) -> None:
    """See where the plain script's time goes.

    The process that will be raced starts at the same time, and waits at its first step.
    """
    state.watcher.stage("profiling the plain script")
    config = state.config
    wanted = config.wanted
    seconds = min(PROFILE_SECONDS, PROFILE_SHARE * config.budget)
    files = (
        config.budget >= PROFILE_FILES_FROM_SECONDS
        and not wanted.only
        and "packed_dataset" not in wanted.skip
    )
    bounds = Bounds(
        seconds=seconds, patience=config.patience, dataset=files,
        until=state.plan.end - (1 - PROFILE_MOST_SHARE) * config.budget, deadline=state.plan.end,
    )  # fmt: skip
    setting = replace(config.setting, passive_wait=state.races.busy)
    free = LEAST_FREE_MEMORY * state.machine.memory
    if not state.machine.gpus and available_memory() > 2 * free:
        state.races.launch_ahead({})
    rare = Meanwhile(tick=lambda: state.races.drop_ahead() if available_memory() < free else None)
    began = time.monotonic()
    try:
        seen = look(setting, bounds, rare)
        payload, state.result.asleep = seen.payload, seen.asleep
    finally:
        state.profile_seconds = time.monotonic() - began
    state.plan.measured(max(0.0, state.plan.spent - seconds), state.plan.plain_block)
    state.result.profile, state.script = payload, ScriptProfile.of(payload)
    if payload.ended_after is not None and payload.too_short:
        if seen.partial:  # what it says last is why
            how = f"{seen.partial} after {several(payload.ended_after, 'step')}"
            raise TrialFailedError(": ".join(filter(None, (how, last_words(setting.output)))))
        raise too_short(payload.ended_after, payload.usual_step)
    if config.base.techniques:
        on = [technique(name) for name in config.base.techniques]
        state.script.keep(on, config.base.measured.ratio)
        names = ", ".join(config.base.techniques)
        state.result.notes.append(f"what the recipe has is on in every race: {names}")
    if state.script.facts.get("inference"):
        state.races.drop_ahead()
        state.races.count_calls()


def start_plain(state: TuneState, waiting: Sequence[Candidate]) -> bool:
    """Start the plain script, and with it what is raced first; False if the time is over before.

    Where it runs out of memory, it is started with what makes it fit.
    """
    state.watcher.stage("starting the plain script")
    begin = time.monotonic()
    state.races.give_until(state.plan.end)
    earlier = state.plan.launching if state.races.launched_ahead else 0.0
    state.plain = state.best = plain = state.races.side({})
    if state.config.base.techniques:
        state.best = state.races.side(state.config.base.values)
    plain.start()
    if state.room_for_one_more():
        if state.plan.allows_noise_floor(launched=False):
            state.races.launch_ahead({}, perturbed=True)
        launch_next(state, waiting)
    try:
        plain.first_step()
        launched = time.monotonic() - begin
        pace = plain.ready()
    except TimeOverError:
        leave_out(state, waiting)
        return False
    except TrialFailedError as error:
        if state.config.base.techniques or not out_of_memory(str(error)):
            raise
        state.races.drop_ahead()
        state.races.drop(plain)
        known = [n for n in memory_savers() if not technique(n).missing(state.script.facts)]
        saving = {name: values_of(technique(name), state.machine)[0] for name in known}
        state.plain = state.best = plain = state.races.side(saving)
        launched = time.monotonic() - begin
        pace = plain.ready()
        state.result.notes.append(
            f"the plain script ran out of memory ({error}); everything here runs with "
            f"{' and '.join(known)} on"
        )
    if 0 < plain.ends_after < FEWEST_STEPS:  # the profile, which has less time, did not see its end
        raise too_short(plain.ends_after, pace.step)
    seconds = time.monotonic() - begin
    settling = seconds - launched if state.races.launched_ahead else 0.0
    state.plan.measured(max(seconds, earlier + seconds - launched), pace.block_seconds, settling)
    state.plan.step_block = pace.steps_seconds
    epoch = plain.longest_epoch
    state.plan.epoch_fill = epoch if math.isfinite(epoch) else 0.0
    return state.on_plain or start_base(state, waiting)


def start_base(state: TuneState, waiting: Sequence[Candidate]) -> bool:
    """Start the recipe on top of which candidates are raced; False if the time is over before."""
    state.watcher.stage("starting the recipe")
    compiles = any(Candidate(technique(name), {}).compiles for name in state.chosen)
    try:
        state.timed_start(state.best, compiles=compiles)
    except TimeOverError:
        leave_out(state, waiting)
        return False
    seen = state.plain.ready_pace().step / state.best.ready_pace().step
    state.ratio = max(1.0, state.config.base.measured.ratio, seen)
    plan_final(state, 0)
    return True


def list_candidates(state: TuneState) -> list[Candidate]:
    """The candidates, the one worth most per second first; the others get their rows."""
    waiting, rows = candidates_for(state.script, state.config.wanted, state.machine)
    for row in rows:
        state.record(row)
    state.candidates = waiting = state.by_worth(waiting)
    state.watcher.candidates([candidate.name for candidate in waiting])
    return waiting


def time_for_a_race(state: TuneState, waiting: Sequence[Candidate]) -> bool:
    """Whether the time allows a race of any candidate; if not, none is begun."""
    worth = [c for c in waiting if not state.why_pointless(c)]
    if not worth or any(state.allows(c) for c in worth):
        return True
    leave_out(state, waiting)
    return False


def measure_noise_floor(state: TuneState) -> None:
    """Race the plain script against itself: how noisy the machine, how repeatable the run."""
    launched = state.races.is_launched({}, perturbed=True)
    if not state.plan.allows_noise_floor(launched=launched):
        return
    state.watcher.stage("A/A test: the plain script against itself")
    seconds, pairs = state.plan.noise_floor
    on = {name: dict(values) for name, values in state.plain.setting.techniques.items()}
    again = state.races.side(on, perturbed=True)
    state.races.give_until(state.plan.end - state.plan.race_cost())
    try:
        state.timed_start(again)
        found = state.races.race(state.plain, again, seconds, fewest_pairs=pairs, plain_steps=True)
    except TimeOverError:
        state.races.drop(again)
        return
    except HotlapError:
        state.races.drop(again)
        raise
    state.note_pairs(state.plain, again, found.unit)
    state.noise = noise_of(state.plain, again)
    switched = state.on_plain and any(map(state.switched_on, state.candidates))
    if switched and state.room_for_one_more():
        state.spare = again
    else:
        state.races.drop(again)
    state.result.noise_floor = found
    if state.result.noisy:
        apart = max(found.estimate.high, 1 / found.estimate.low) - 1
        state.watcher.note(
            f"the A/A test differs by up to {apart:.0%}: `--wait 10m` waits for a calmer machine"
        )
    state.result.deterministic = state.noise.deterministic if state.noise else None


def race_upper_bounds(state: TuneState, waiting: Sequence[Candidate]) -> None:
    """Measure what a whole group of techniques can give, where time remains for each candidate."""
    open_phases = {p for c in waiting if not state.why_pointless(c) for p in phases_of(c.record)}
    for name, record in ceilings().items():
        small = state.script.share(record) < state.config.min_effect
        unneeded = open_phases.isdisjoint(phases_of(record))
        if small or unneeded or record.missing(state.script.facts):
            continue
        if not state.plan.allows_upper_bound(len(waiting)):
            return
        state.watcher.stage(record.title)
        side = state.races.side({name: {}})
        state.races.give_until(state.plan.end - state.plan.race_cost() - state.plan.reserve)
        try:
            found = state.races.race(state.best, side, UPPER_BOUND_SECONDS, precision=0.1)
        except TimeOverError:
            return
        except TrialFailedError as error:
            state.result.upper_bounds.append(UpperBound(name, record.title, None, str(error)))
            continue
        finally:
            state.races.drop(side)
        bound = UpperBound(name, record.title, found.estimate)
        if name not in side.held:
            bound = replace(bound, estimate=None, reason=TOOK_NO_HOLD)
        state.result.upper_bounds.append(bound)
        for phase in phases_of(record):
            state.script.bounds[phase] = bound.most
