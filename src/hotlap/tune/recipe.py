"""From a tune's result to the recipe it writes."""

import datetime

from hotlap.core.machine import Machine
from hotlap.core.recipe import Kept, Measured, Recipe, script_of, torch_version
from hotlap.trial.command import shown
from hotlap.tune.candidates import Chosen
from hotlap.tune.result import TuneResult


def recipe_of(result: TuneResult, chosen: Chosen, machine: Machine) -> Recipe:
    """The recipe of a tune: what was kept, and what the whole of it measured."""
    rows = {row.technique: row.kept() for row in result.kept}
    kept = {name: rows.get(name, Kept(values)) for name, values in chosen.items()}
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
        date=datetime.date.today().isoformat(),
        torch=torch_version(),
        machine=machine.summary(),
        fingerprint=machine.fingerprint,
        script=script,
        script_hash=script_hash,
    )
