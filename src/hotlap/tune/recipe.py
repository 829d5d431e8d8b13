"""From a tune's result to the recipe, and the file that it is written to."""

import datetime
from pathlib import Path

from hotlap.core.machine import Machine
from hotlap.core.recipe import Kept, Measured, Recipe, script_of, torch_version
from hotlap.trial.command import shown
from hotlap.tune.result import TuneResult


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
