"""From a tune's result to the recipe and its file, and to the work that it leaves to the user."""

import datetime
from dataclasses import replace
from pathlib import Path

from hotlap.core.machine import Machine
from hotlap.core.protocol import ProfilePayload
from hotlap.core.recipe import Kept, Measured, Recipe, script_of, torch_version
from hotlap.profile.packing import WORTH, proposal
from hotlap.trial.command import shown
from hotlap.tune.result import Advice, TuneResult

CEILING = "data_free"


def write_recipe(result: TuneResult, path: Path, machine: Machine) -> Path | None:
    """Write what was kept; return the file, None when nothing was kept.

    `path` only ever holds a recipe that was confirmed as a whole; another is written beside it.
    """
    beside = unconfirmed(path)
    if not result.kept:
        return None
    target = path if result.confirmed else beside
    recipe_of(result, machine).write(target)
    if result.confirmed:
        beside.unlink(missing_ok=True)
    return target


def unconfirmed(path: Path) -> Path:
    """Where a recipe goes that was not confirmed: `hotlap.unconfirmed.toml`."""
    return path.with_name(f"{path.stem}.unconfirmed{path.suffix}")


def recipe_of(result: TuneResult, machine: Machine) -> Recipe:
    """The recipe of a tune: what was kept, and what the whole of it measured."""
    rows = {row.technique: row.kept() for row in result.kept}
    kept = {name: rows.get(name, Kept(values)) for name, values in result.chosen.items()}
    return Recipe(kept, _measured(result, machine))


def _measured(result: TuneResult, machine: Machine) -> Measured:
    script, script_hash = script_of(result.command)
    final = result.final
    return Measured(
        command=shown(result.command),
        ratio=final.estimate.ratio if final else 1.0,
        interval=(final.estimate.low, final.estimate.high) if final else (1.0, 1.0),
        pairs=final.estimate.pairs if final else 0,
        parity=result.final_parity.reason if result.final_parity else "",
        confirmed=result.confirmed,
        load=round(result.load, 2),
        date=datetime.date.today().isoformat(),
        torch=torch_version(),
        machine=machine.summary(),
        fingerprint=machine.fingerprint,
        isolation=result.isolation,
        script=script,
        script_hash=script_hash,
    )


def advice(payload: ProfilePayload | None, result: TuneResult, folder: Path) -> list[Advice]:
    """A packed copy of the dataset, where it would bring more than what was kept.

    Its ratio is bounded by the upper-bound race with zero data-loading time, if it was run.
    """
    made = proposal(payload, folder) if payload else None
    if made is None:
        return []
    bound = _bound(result)
    made = replace(
        made,
        expected=min(made.expected, bound),
        least=min(made.least, bound),
        most=min(made.most, bound),
    )
    if made.least < WORTH or made.expected < WORTH * _kept(result):
        return []
    says = f"{made.says}, measured from the plain script: {made.evidence}"
    return [Advice("packed_dataset", says, made.place, made.lines, made.notes)]


def _bound(result: TuneResult) -> float:
    highs = [b.estimate.high for b in result.upper_bounds if b.name == CEILING and b.estimate]
    return min((max(high, 1.0) for high in highs), default=1e9)


def _kept(result: TuneResult) -> float:
    """The ratio of the whole recipe, or of its parts where it was not raced as a whole."""
    if result.final is not None:
        return max(1.0, result.final.estimate.ratio)
    ratio = 1.0
    for row in result.kept:
        ratio *= row.estimate.ratio if row.estimate else 1.0
    return max(1.0, ratio)
