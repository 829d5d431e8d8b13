"""The search of `hotlap tune`, in the order in which it runs.

Profile the plain script; measure the noise floor by an A/A test; bound what groups of techniques
can give; race one candidate after the other against the best so far, and keep what is faster with
parity; race what stayed inconclusive again; race the whole recipe against the plain script.

Error control: each test of a candidate against the best so far has a share of alpha, and together
they have no more than alpha, so that it bounds the chance that any technique is wrongly kept (see
`Levels`). A row that is raced again goes on from what its test has shown. What won is reported by
fresh pairs, and the whole recipe has a race of its own.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from hotlap.core.amounts import several
from hotlap.core.errors import HotlapError, NotReachedError, TrialFailedError
from hotlap.core.machine import Machine, available_memory
from hotlap.core.protocol import FEWEST_STEPS, Losses
from hotlap.core.registry import ceilings, technique
from hotlap.core.technique import Technique
from hotlap.profile.look import Bounds, Meanwhile, look
from hotlap.trial.parity import FEWEST, Parity, first_difference, noise
from hotlap.trial.race import RaceResult, out_of_memory
from hotlap.trial.reach import last_words
from hotlap.trial.side import Side, block_size, too_short
from hotlap.trial.stats import Verdict, launches_needed
from hotlap.trial.trial import TimeOverError
from hotlap.tune.candidates import (
    Candidate,
    ScriptProfile,
    candidates_for,
    in_every_step,
    joined,
    memory_savers,
    phases_of,
    pointless,
    reads_ahead,
    sets_workers,
    spins,
    values_of,
)
from hotlap.tune.races import (
    NO_WHOLE_EPOCHS,
    SWITCHED_LEAST_SECONDS,
    Races,
    Watcher,
    inert,
    judged,
    noise_of,
    not_kept,
    passing,
)
from hotlap.tune.result import (
    ENDED,
    LIVE_FINAL,
    OUT_OF_TIME,
    RACE_STANDS,
    Outcome,
    Status,
    TuneResult,
    UpperBound,
    reported,
)
from hotlap.tune.state import Tried, TuneConfig, TuneState
from hotlap.tune.time_plan import FEWEST_PAIRS, TimePlan

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
REPORTED_PRECISION = 0.05
LONGEST_ADVISED_SECONDS = 1800.0
"""Longest tune that is advised to settle open rows."""
SPINNING_SHARE, SPINNING_MOST_SHARE = 0.2, 0.3
"""Part of the time that is left for a race against threads that spin, if others wait, and the part
for what looks like a gain. On a busy machine it is the largest gain of many scripts; its pairs take
long, and differ much. No recipe keeps it: with twice the time, two of six scripts had none left for
what it may keep (`benchmarks.tune_load --busy`)."""
NOT_CONFIRMED = "faster when it was raced, which the final race did not confirm"
CHECK_SECONDS = 4.0
"""For what won in a live process: losses from its first step on, and a look at its speed."""
NOT_AFTER_RESTART = "the gain of a live process did not reproduce after a restart"
UNCHECKED = "faster in a live process; no time was left to check that the training is the same"
COMPILES_LONG = "it took longer to compile than its share of the time"
STARTS_LONG = "it took longer to start than its share of the time"
UNKNOWN_NOISE = "the losses differ, and there was no time for an A/A test to compare them with"


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


def measure_noise_floor(state: TuneState) -> None:
    """Race the plain script against itself: how noisy the machine, how repeatable the run."""
    launched = state.races.is_launched({}, perturbed=True)
    if not state.plan.allows_noise_floor(launched=launched):
        return
    state.watcher.stage("A/A test: the plain script against itself")
    seconds, pairs = state.plan.noise_floor
    again = state.plain_again(perturbed=True)
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
    state.knows_noise(noise_of(state.plain, again))
    switched = state.on_plain and any(map(state.switched_on, state.candidates))
    if switched and state.room_for_one_more():
        state.spare = again
    else:
        state.races.drop(again)
    state.result.noise_floor = found
    if state.result.noisy:
        apart = max(found.estimate.high, 1 / found.estimate.low) - 1
        differs = f"differs by up to {apart:.0%}" if apart <= 1 else "tells nothing"
        state.watcher.note(f"the A/A test {differs}: `--wait 10m` waits for a calmer machine")


def settled_parity(state: TuneState, side: Side) -> Parity:
    """Whether the training is the same; the plain script is run once more where that may differ.

    The A/A test shows only of its first steps that the plain script repeats itself: a difference of
    an exact technique beyond them may be the script's own.
    """
    parity, plain = state.parity_with_plain(side), state.plain
    different = first_difference(plain.losses, side.losses)
    if not parity.unclear or parity.rule != "bitwise" or different is None:
        return parity
    needed = max(different + 1, FEWEST)
    again = plain.losses_again
    if len(again) < needed:
        again = losses_of_another_run(state, needed)
    if len(again) < needed:
        return parity
    state.knows_noise(noise(plain.losses, again))
    return state.parity_with_plain(side)


def losses_of_another_run(state: TuneState, steps: int) -> Losses:
    """The losses of the plain script's first steps, run once more; none where time is lacking."""
    plan, pace = state.plan, state.plain.ready_pace()
    if not plan.allows(plan.start_cost() + steps * pace.step * plan.stretch):
        return []
    if not state.room_for_one_more():
        state.drop_spare()
    state.watcher.stage(f"the plain script once more, for {steps} steps: does it repeat itself?")
    again = state.plain_again()
    try:
        again.ready()
        if again.at < steps:
            again.catch_up(steps - again.at)
    except HotlapError:
        return []
    finally:
        state.races.drop(again)
    return again.losses


def too_late(candidate: Candidate, *, shared: bool) -> str:
    """Why a candidate was not raced in time; `shared`: its start had a share of the time alone."""
    if not shared:
        return "the time was over before it ran"
    return COMPILES_LONG if candidate.compiles else STARTS_LONG


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


def greedy_search(state: TuneState, waiting: list[Candidate]) -> None:
    """Race the candidate worth most against the best so far, until none is left."""
    while waiting:
        candidate = next(iter(state.hopeful(waiting) or waiting))
        waiting = [c for c in waiting if c is not candidate]
        if state.why_pointless(candidate) or not state.allows(candidate):
            state.record(unraced(state, candidate))
            continue
        race_candidate(state, candidate, state.hopeful(waiting))


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
    parity = settled_parity(state, side)
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
    parity = settled_parity(state, side)
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
    result.final_parity = parity = settled_parity(state, state.best)
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
        memory = state.plain.memory_over(state.best)
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
