"""The search of `hotlap tune`, in the order in which it runs.

Profile the plain script; measure the noise floor by an A/A test; bound what groups of techniques
can give; race one candidate after the other against the best so far, and keep what is faster with
parity; race what stayed inconclusive again; race the whole recipe against the plain script.

Error control: each test of a candidate against the best so far has a share of alpha, and together
they have no more than alpha, so that it bounds the chance that any technique is wrongly kept (see
`Levels`). A row that is raced again goes on from what its test has shown. What won is reported by
fresh pairs, and the whole recipe has a race of its own.
"""

from collections.abc import Sequence

from hotlap.core.errors import HotlapError
from hotlap.core.machine import Machine
from hotlap.core.registry import technique
from hotlap.tune.begin import (
    list_candidates,
    measure_noise_floor,
    profile_baseline,
    race_upper_bounds,
    start_plain,
    time_for_a_race,
)
from hotlap.tune.candidate_race import race_candidate, spread
from hotlap.tune.candidates import Candidate
from hotlap.tune.final_race import final_race
from hotlap.tune.races import Races, Watcher
from hotlap.tune.result import Outcome, TuneResult
from hotlap.tune.state import TuneConfig, TuneState
from hotlap.tune.time_plan import TimePlan
from hotlap.tune.unraced import next_tune, record_rest, unraced


def tune(config: TuneConfig, machine: Machine, watcher: Watcher) -> TuneResult:
    """Search for the techniques that make a command faster; Ctrl-C ends the search, not the result.

    Raises:
        NotReachedError: the plain script showed no training step.
        TrialFailedError: the plain script failed.
    """
    races = Races(config.setting, config.patience, config.min_effect, watcher)
    result = TuneResult(config.setting.command, config.budget, base=config.base.techniques)
    state = TuneState(config, machine, watcher, TimePlan(config.budget), races, result)
    try:
        profile_baseline(state)
        waiting = list_candidates(state)
        if start_plain(state, waiting) and time_for_a_race(state, waiting):
            measure_noise_floor(state)
            if not result.base:
                race_upper_bounds(state, waiting)
            greedy_search(state, waiting)
            retry_open_rows(state)
            final_race(state)
    except KeyboardInterrupt:
        result.interrupted = True
    except HotlapError as error:
        if not result.profile:
            raise
        result.failed = f"{error}: {error.hint}" if error.hint else str(error)
    finally:
        if result.final is not None:
            result.losses = {"plain": state.plain.losses, "tuned": state.best.losses}
        races.close()
        result.load = races.other_load()
        result.notes += races.notes
        result.seconds = state.plan.spent
        result.time_use = races.time_use(state.plan.begin, state.profile_seconds)
    record_rest(state)
    result.needed, result.settles = next_tune(state)
    return result


def greedy_search(state: TuneState, waiting: list[Candidate]) -> None:
    """Race the candidate worth most against the best so far, until none is left."""
    while waiting:
        candidate = next(iter(state.hopeful(waiting) or waiting))
        waiting = [c for c in waiting if c is not candidate]
        if state.why_pointless(candidate) or not state.allows(candidate):
            state.record(unraced(state, candidate))
            continue
        race_candidate(state, candidate, state.hopeful(waiting))


def retry_open_rows(state: TuneState) -> None:
    """Spend the time that is left on open rows: those first that promise most per second.

    What no recipe keeps, as it depends on the load, comes after what one may keep, and what told
    nothing more when it was raced again comes last: it then has the whole of its time. A race goes
    on where the last one of the row ended, with fresh processes.
    """
    while state.plan.latest:
        found = []
        for row in state.result.open:
            candidate = Candidate(technique(row.technique), row.values)
            if state.allows(candidate) and not state.why_pointless(candidate):
                lasts = not (candidate.record.load_dependent and state.races.busy)
                order = lasts, not state.in_vain(candidate), state.worth(row, candidate)
                found.append((order, row, candidate))
        if not found:
            return
        _, old, candidate = max(found, key=lambda entry: entry[0])
        race_candidate(state, candidate, [other for *_, other in found if other != candidate])
        if test := state.tests.get(candidate.key):
            test.in_vain = learned_nothing(old, state.result.open)


def learned_nothing(old: Outcome, open_rows: Sequence[Outcome]) -> bool:
    """Whether a row that was raced again is still open, with an interval that is no narrower."""
    now = next((row for row in open_rows if row.same_as(old)), None)
    return now is not None and old.race is not None and spread(now) >= spread(old)
