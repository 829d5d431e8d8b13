"""Recipes: written, read back, refused when wrong, stale when something changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.core.machine import detect
from hotlap.core.move import Choice
from hotlap.core.recipe import Kept, Measured, Recipe, hash_of, script_of
from hotlap.core.registry import techniques

MEASURED = Measured(command="python train.py", ratio=2.5, interval=(2.4, 2.6), pairs=12)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    kept = {
        "no_grad_eval": Kept(ratio=1.1, interval=(1.05, 1.15), parity="bitwise"),
        "loader_workers": Kept({"num_workers": 2}, 2.2, (2.1, 2.3), 0.9, "statistical"),
    }
    recipe = Recipe(kept, MEASURED)
    recipe.write(tmp_path / "hotlap.toml")
    assert Recipe.read(tmp_path / "hotlap.toml") == recipe
    assert list(Recipe.read(tmp_path / "hotlap.toml").techniques) == list(kept)
    assert [path.name for path in tmp_path.iterdir()] == ["hotlap.toml"]


def test_an_empty_file_is_an_empty_recipe(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").write_text("")
    assert Recipe.read(tmp_path / "hotlap.toml").techniques == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("techniques = 3", "must be tables"),
        ("measured = 3", "`measured` must be a table"),
        ("measured = []", "`measured` must be a table"),
        ('[measured]\nratio = "2x"', "measured.ratio is '2x'"),
        ("[measured]\ninterval = [1.0]", r"measured.interval is \[1.0\]"),
        ("[techniques.no_grad_eval]\nparity = 3", "techniques.no_grad_eval.parity is 3"),
        ("not toml at all [", "is not a recipe"),
        ("[techniques.loader_worker]\nnum_workers = 2", "no technique called 'loader_worker'"),
        ("[techniques.loader_workers]", "techniques.loader_workers lacks num_workers"),
        ('[techniques.mixed_precision]\ndtype = "float99"', "dtype is 'float99'"),
        ('[techniques.fused_pointwise]\nmode = "fast"', "mode is 'fast'"),
        ("[techniques.cpu_threads]\nthreads = -5", "threads is -5"),
        ("[techniques.loader_workers]\nnum_workers = 0", "num_workers is 0"),
        ("[techniques.loader_workers]\nnum_workers = 1000000", "num_workers is 1000000"),
        ("[techniques.no_grad_eval]\nlevel = 2", "techniques.no_grad_eval has no level"),
        ("[techniques]\nno_grad_eval = true", "must be a table"),
        ('[techniques.loader_workers]\nnum_workers = "two"', "num_workers is 'two'"),
        ("[techniques.loader_workers]\nnum_workers = true", "num_workers is True"),
        ("[technique.no_grad_eval]", "is not read"),
        (
            "[techniques.cached_dataset]\n[techniques.loader_workers]\nnum_workers = 2",
            "cached_dataset and loader_workers exclude each other",
        ),
    ],
)
def test_a_wrong_recipe_is_refused_with_its_reason(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "hotlap.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        Recipe.read(tmp_path / "hotlap.toml")


def test_what_was_not_raced_by_itself_has_no_figures_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hotlap.toml"
    kept = {"loader_workers": Kept({"num_workers": 2}), "loader_reuse": Kept({}, 2.3, (1.3, 4.3))}
    Recipe(kept, MEASURED).write(path)
    alone, raced = path.read_text().split("[techniques.loader_reuse]")
    assert "ratio" not in alone.partition("[techniques.loader_workers]")[2]
    assert "ratio = 2.3" in raced
    assert Recipe.read(path).techniques == kept


def test_a_whole_that_was_not_raced_has_no_ratio_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hotlap.unconfirmed.toml"
    for pairs in (0, 12):
        measured = replace(MEASURED, pairs=pairs)
        Recipe({"no_grad_eval": Kept(ratio=1.1)}, measured).write(path)
        assert ("ratio = 2.5" in path.read_text()) == bool(pairs)
        assert ("2.4" in path.read_text()) == bool(pairs)


def test_a_missing_recipe_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no recipe") as caught:
        Recipe.read(tmp_path / "hotlap.toml")
    assert "hotlap tune" in caught.value.hint


def test_where_only_an_unconfirmed_recipe_lies_it_is_named(tmp_path: Path) -> None:
    beside = tmp_path / "hotlap.unconfirmed.toml"
    beside.touch()
    with pytest.raises(UsageError, match="there is no recipe") as caught:
        Recipe.read(tmp_path / "hotlap.toml")
    assert f"--recipe {beside}" in caught.value.hint


def test_stale_names_each_thing_that_changed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("one")
    machine, command = detect(), ("python", str(script))
    name, text_hash = script_of(command)
    measured = replace(
        MEASURED, fingerprint=machine.fingerprint, torch="2.13.0", script=name,
        script_hash=text_hash,
    )  # fmt: skip
    recipe = Recipe({}, measured)
    assert recipe.stale(machine, "2.13.0", command) == []
    script.write_text("two")
    assert recipe.stale(machine, "2.13.0", command) == ["train.py has changed"]
    assert recipe.stale(machine, "2.14.0", command)[0] == "torch was 2.13.0 and is 2.14.0"
    other = replace(machine, cpu="another")
    assert "another machine" in recipe.stale(other, "2.13.0", command)[0]


def test_the_program_that_a_shell_script_or_a_module_name_starts_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text("torchrun -m net.train")
    (tmp_path / "net").mkdir()
    program, other = tmp_path / "net" / "train.py", tmp_path / "net" / "other.py"
    program.write_text("one")
    other.write_text("one")
    by_module = ("torchrun", "--nproc-per-node", "2", "--master-port", "29500", "-m", "net.train")
    for command in (("bash", "run.sh"), by_module):
        name, text_hash = script_of(command)
        assert name
        measured = replace(
            MEASURED, script=name, script_hash=text_hash, program="net/train.py",
            program_hash=hash_of(program),
        )  # fmt: skip
        recipe = Recipe({}, measured)
        assert not recipe.script_change(command)
        another = (*by_module[:-1], "net.other")
        assert recipe.script_change(another) == "it was measured with net/train.py"
        program.write_text("two")
        assert "train.py has changed" in recipe.script_change(command)
        program.write_text("one")


def test_a_choice_may_be_between_values_of_several_types() -> None:
    assert Choice("level", (None, 0.5, 1.0)).kinds == {type(None), float}
    assert Choice("threads", "thread_counts").kinds == {int}


def test_a_folder_by_the_recipes_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").mkdir()
    with pytest.raises(UsageError, match=r"hotlap\.toml cannot be read: Is a directory"):
        Recipe.read(tmp_path / "hotlap.toml")


def test_every_candidate_of_every_technique_can_be_written_by_hand() -> None:
    choices = [choice for record in techniques().values() for choice in record.choices]
    for choice in choices:
        assert all(choice.takes(value) for value in choice.on(detect()))
        assert choice.wanted


def test_a_value_that_is_missing_or_unknown_is_answered_with_those_it_takes(tmp_path: Path) -> None:
    for body in ("", 'mode = "fast"', "mode = 3", 'mode = "default"\nfast = true'):
        (tmp_path / "hotlap.toml").write_text(f"[techniques.fused_pointwise]\n{body}\n")
        with pytest.raises(UsageError) as refused:
            Recipe.read(tmp_path / "hotlap.toml")
        assert '"default" or "reduce-overhead"' in refused.value.hint
