"""Which file a recipe goes to."""

from dataclasses import replace
from pathlib import Path

from hotlap.core.machine import detect
from hotlap.core.recipe import Recipe
from hotlap.reporting.tune_text import next_steps
from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune.result import Outcome, Status, TuneResult, write_recipe

PARITY = Parity(True, "bitwise", 100, 0.0, 0.0, "losses equal in all 100 steps")
RACE = RaceResult(
    Estimate(1.3, 1.1, 1.5, 9, 0.95), Verdict.FASTER, "step", True, 1, 1, 1, 1, 0, 0, 9
)


def result() -> TuneResult:
    found = TuneResult(("python", "train.py"), chosen={"no_grad_eval": {}}, load=1.234)
    found.outcomes = [Outcome("no_grad_eval", Status.KEPT, "", {}, RACE, PARITY)]
    return found


def test_nothing_kept_is_no_recipe(tmp_path: Path) -> None:
    empty = TuneResult(("python", "train.py"))
    assert write_recipe(empty, tmp_path / "hotlap.toml", detect()) is None
    assert not list(tmp_path.iterdir())


def test_what_was_not_confirmed_lies_beside_and_leaves_the_confirmed_one_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "hotlap.toml"
    path.write_text("# of last week")
    unclear = replace(RACE, verdict=Verdict.INCONCLUSIVE)
    for final in (None, unclear):
        found = result()
        found.final, found.final_parity = final, PARITY
        written = write_recipe(found, path, detect())
        assert written == tmp_path / "hotlap.unconfirmed.toml"
        assert not Recipe.read(written).measured.confirmed
    assert path.read_text() == "# of last week"


def test_a_confirmed_recipe_takes_the_place_of_an_unconfirmed_one(tmp_path: Path) -> None:
    path = tmp_path / "hotlap.toml"
    write_recipe(result(), path, detect())
    found = result()
    found.final, found.final_parity = RACE, PARITY
    assert write_recipe(found, path, detect()) == path
    assert [p.name for p in tmp_path.iterdir()] == ["hotlap.toml"]
    measured = Recipe.read(path).measured
    assert measured.confirmed
    assert measured.load == 1.23


def test_a_recipe_that_cannot_be_written_leaves_what_was_measured(tmp_path: Path) -> None:
    found = result()
    assert write_recipe(found, tmp_path / "missing" / "hotlap.toml", detect()) is None
    assert "hotlap.unconfirmed.toml cannot be written: No such file" in found.notes[0]
    assert next_steps(found, None)[0] == ("written:", "no recipe, as it cannot be written")
