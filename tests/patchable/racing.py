"""The scripts that are patched and raced, each with its recipe, and how."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from hotlap.core.recipe import Recipe
from hotlap.core.registry import technique
from hotlap.core.spec import Mode
from hotlap.core.technique import Numerics
from hotlap.source.patch.plan import patch
from hotlap.source.patch.text import File, write_all
from hotlap.trial.launch import Setting
from hotlap.trial.parity import Noise, Parity, compare
from hotlap.trial.race import RaceResult, race
from hotlap.trial.side import Side
from hotlap.trial.stopping import StoppingRules

HERE = Path(__file__).parent
DEMO = HERE.parent.parent / "examples" / "digits" / "train.py"
SCRIPTS = {
    "digits": DEMO,
    **{name: HERE / f"{name}.py" for name in ("cnn", "gpt", "trainer", "validated")},
}


@dataclass(frozen=True)
class Outcome:
    """The race of `hotlap run` (A) against the patched script (B), and their losses.

    If `turned`, the patched script was A.
    """

    race: RaceResult
    parity: Parity
    turned: bool = False

    @property
    def ratio(self) -> float:
        """Time of `hotlap run` over time of the patched script."""
        found = self.race.estimate.ratio
        return 1 / found if self.turned else found


def recipe_of(name: str) -> Recipe:
    """The recipe of a script, from the file beside it."""
    return Recipe.read(HERE / f"{name}.toml")


def patched_copy(name: str, folder: Path) -> Path:
    """A copy of a script with its recipe written in."""
    copy = folder / f"{name}.py"
    shutil.copy(SCRIPTS[name], copy)
    done = patch(recipe_of(name), [File.read(copy)])
    missing = set(recipe_of(name).techniques) - set(done.written)
    assert not missing, f"{name}: not written: {missing}"
    write_all(done.changed)
    return copy


def run_against_patched(
    name: str,
    folder: Path,
    rules: StoppingRules,
    runner: tuple[str, ...] = (),
    *,
    turned: bool = False,
) -> Outcome:
    """Race a script with its recipe on against its patched copy; `runner` runs them, if given."""
    copy, recipe = patched_copy(name, folder), recipe_of(name)
    sides = [
        Side(
            Setting(
                (sys.executable, *runner, str(script)), Mode.RACE, techniques, seed=0,
                scratch=folder / "scratch", output=folder / f"{letter}.log",
            ),
            whole_epoch="cached_dataset" in recipe.techniques,
        )
        for letter, script, techniques in (("a", SCRIPTS[name], recipe.values), ("b", copy, {}))
    ]  # fmt: skip
    try:
        found = race(*(sides[::-1] if turned else sides), rules)
    finally:
        for side in sides:
            side.close()
    records = [technique(kept) for kept in recipe.techniques]
    loosest = max((r.numerics for r in records), key=list(Numerics).index)
    losses = [side.losses for side in sides]
    layout = any(r.layout_sensitive for r in records)
    data = (sides[0].data, sides[1].data) if layout else None
    parity = compare(*losses, loosest, Noise(deterministic=True, spread=()), data)
    return Outcome(found, parity, turned)
