"""What comes before the climb: the plain script alone, against itself, and what-ifs."""

import time
from collections.abc import Sequence

from hotlap.core.errors import TrialFailedError
from hotlap.core.machine import Machine
from hotlap.core.registry import ceilings, technique, techniques
from hotlap.core.technique import Technique
from hotlap.trial.parity import Noise, noise
from hotlap.trial.race import out_of_memory
from hotlap.trial.side import Side
from hotlap.trial.stopping import StoppingRules
from hotlap.tune.budget import Budget
from hotlap.tune.candidates import Chosen, Script, phases_of, values_of
from hotlap.tune.field import Field
from hotlap.tune.result import Ceiling, TuneResult

CEILING_SECONDS = 5.0
MEMORY_SAVERS = tuple(name for name, record in techniques().items() if record.saves_memory)


def started(
    field: Field, plain: Side, script: Script, machine: Machine, result: TuneResult
) -> Side:
    """The plain script, settled; where it runs out of memory, with what makes it fit."""
    begin = time.monotonic()
    try:
        plain.ready()
    except TrialFailedError as error:
        if not out_of_memory(str(error)):
            raise
        field.drop(plain)
        plain = _fitting(field, script, machine, result, error)
    pace = plain.ready()
    field.budget.settled(time.monotonic() - begin, pace.block_seconds)
    return plain


def _fitting(
    field: Field, script: Script, machine: Machine, result: TuneResult, error: TrialFailedError
) -> Side:
    known = [name for name in MEMORY_SAVERS if not technique(name).missing(script.facts)]
    chosen: Chosen = {name: values_of(technique(name), machine)[0] for name in known}
    side = field.side(chosen)
    side.ready()
    result.notes.append(
        f"the plain script ran out of memory ({error}); everything here runs with "
        f"{' and '.join(known)} on"
    )
    return side


def floor(field: Field, plain: Side, result: TuneResult) -> Noise:
    """Race the plain script against itself: how noisy the machine, how repeatable the run."""
    field.watcher.stage("the script against itself")
    budget = field.budget
    again = field.side(dict(plain.setting.techniques))  # type: ignore[arg-type]
    seconds, pairs = budget.for_floor(), budget.floor_pairs
    result.floor = field.race(plain, again, seconds, fewest_pairs=pairs)
    found = noise(plain.losses, again.losses)
    result.deterministic = found.deterministic
    field.drop(again)
    return found


def what_ifs(
    field: Field, best: Side, script: Script, todo: Sequence[Technique], result: TuneResult
) -> None:
    """Race the ceilings, to know what a whole group of techniques can give at most.

    None is raced that would leave no time for a candidate.
    """
    open_phases = {phase for record in todo for phase in phases_of(record)}
    for name, record in ceilings().items():
        small = script.share(record) < field.orders.min_effect
        unneeded = open_phases.isdisjoint(phases_of(record))
        if small or unneeded or record.missing(script.facts):
            continue
        if not field.budget.allows_another(first=_seconds(field.budget)):
            return
        field.watcher.stage(record.title)
        result.ceilings.append(_what_if(field, best, name, script))


def _seconds(budget: Budget) -> float:
    """What a what-if takes."""
    return budget.start_up + max(CEILING_SECONDS, 2 * StoppingRules.fewest_pairs * budget.best)


def _what_if(field: Field, best: Side, name: str, script: Script) -> Ceiling:
    record = ceilings()[name]
    side = field.side({name: {}})
    try:
        found = field.race(best, side, CEILING_SECONDS, precision=0.1)
    except TrialFailedError as error:
        return Ceiling(name, record.title, None, str(error))
    finally:
        field.drop(side)
    for phase in phases_of(record):
        script.ceilings[phase] = max(found.estimate.high, 1.0)
    return Ceiling(name, record.title, found.estimate)
