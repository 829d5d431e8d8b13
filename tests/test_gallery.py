"""The recipes of the gallery: data that can be made, commands that fit their repository."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # benchmarks are no part of the package

from benchmarks import gallery
from benchmarks.gallery_recipes import RECIPES, Recipe


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of one commit, with a training that takes a file of data."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "train.py").write_text("import sys\nprint(open('data.txt').read())\nsys.exit(3)\n")
    person = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*person, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


def test_ids_are_unique_and_every_repository_has_an_owner() -> None:
    assert len({one.id for one in RECIPES}) == len(RECIPES)
    assert all(one.repository.count("/") == 1 and one.command[0] == "python" for one in RECIPES)


@pytest.mark.parametrize("recipe", RECIPES, ids=[one.id for one in RECIPES])
def test_data_are_written_below_the_checkout(recipe: Recipe, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    where = root / recipe.folder
    for folder in ("data/shakespeare_char", "data/cora", "../data/cora"):
        (where / folder).mkdir(parents=True, exist_ok=True)
    recipe.data(where)
    assert not [path for path in tmp_path.iterdir() if path.name not in {"checkout", "data"}]


def test_a_failed_command_is_recorded_and_the_checkout_stays_as_it_is(checkout: Path) -> None:
    recipe = Recipe(
        "tiny",
        "me/tiny",
        ("python", "train.py"),
        lambda root: (root / "data.txt").write_text("data") and None,
        "a training that fails",
    )
    row = gallery.tuned(recipe, checkout, "20s")
    assert row["exit_code"] == 4
    assert "error" in row or row["tune"]["failed"]
    assert len(row["commit"]) == 40
    assert sorted(path.name for path in checkout.iterdir()) == [".git", "train.py"]
    json.dumps(row)
    assert str(checkout.parent) not in json.dumps(row)


def test_a_folder_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="karpathy/nanoGPT"):
        list(gallery.chosen(tmp_path, ()))


def test_the_hotlap_that_is_tested_is_the_one_that_tunes() -> None:
    assert Path(sys.executable).parent / "hotlap" == gallery.HOTLAP
