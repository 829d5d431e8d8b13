"""Options of trainers that stand for techniques: in what a profile says, and in a patch."""

import dataclasses
import inspect
import sys
import types
from pathlib import Path

import pytest

from hotlap.core.machine import detect
from hotlap.core.recipe import Kept, Measured, Recipe
from hotlap.core.registry import techniques
from hotlap.core.trainers import TRAINERS, advice, trainer_of
from hotlap.profile.advice import addressed
from hotlap.profile.model import Finding, Remedy
from hotlap.source.patch.plan import patch
from hotlap.source.patch.text import File

SCRIPT = """\
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments("out", bf16=False, optim="adamw_torch")
Trainer(model, arguments, train_dataset=data).train()
"""
VALUES: dict[str, dict[str, object]] = {
    "loader_workers": {"num_workers": 2},
    "mixed_precision": {"dtype": "bfloat16"},
    "fused_optimizer": {},
}


ON_CPU = "2 cores (2 physical), 24.0 GiB memory, no GPU"


def patched(text: str, tmp_path: Path, machine: str = "") -> tuple[str, list[str]]:
    path = tmp_path / "train.py"
    path.write_text(text)
    kept = {name: Kept(values) for name, values in VALUES.items()}
    measured = Measured(command="python train.py", machine=machine)
    done = patch(Recipe(kept, measured), [File.read(path)])
    return next(iter(done.texts.values())), done.written


@pytest.mark.parametrize("gpu", [False, True])
def test_a_patch_passes_the_options_of_the_trainer(gpu: bool, tmp_path: Path) -> None:
    text, written = patched(SCRIPT, tmp_path, "" if gpu else ON_CPU)
    assert sorted(written) == sorted(VALUES)
    call = text.partition("arguments = ")[2].partition("Trainer(model")[0]
    assert [part.strip(" ()\n") for part in call.split(",") if part.strip()] == [
        'TrainingArguments(\n    "out"',
        "bf16=True",
        'optim="adamw_torch_fused"',
        "dataloader_num_workers=2",
        *([] if gpu else ["use_cpu=True"]),
    ]


def test_a_loader_of_ones_own_stands_before_the_trainers(tmp_path: Path) -> None:
    loader = "from torch.utils.data import DataLoader\n\nheld_out = DataLoader(data, 32)\n"
    text, written = patched(loader + SCRIPT, tmp_path)
    assert "loader_workers" not in written
    assert "dataloader_num_workers" not in text


@pytest.mark.parametrize("given", ["fp16=True", "bf16=args.bf16"])
def test_what_goes_along_with_an_option_is_not_passed_alone(given: str, tmp_path: Path) -> None:
    text, _ = patched(SCRIPT.replace("bf16=False", given), tmp_path, ON_CPU)
    assert "use_cpu" not in text


@pytest.mark.parametrize(
    ("given", "left_alone"),
    [
        ("dataloader_num_workers=0", "dataloader_persistent_workers"),
        ("learning_rate=1e-3", "dataloader_persistent_workers"),
        ("fp16=True", "bf16"),
    ],
)
def test_options_that_exclude_one_another_are_not_both_passed(
    given: str, left_alone: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace('bf16=False, optim="adamw_torch"', given))
    kept = {"persistent_workers": Kept({}), "mixed_precision": Kept({"dtype": "bfloat16"})}
    done = patch(Recipe(kept, Measured(command="python train.py")), [File.read(path)])
    assert f"{left_alone}=" not in next(iter(done.texts.values()))


def test_arguments_that_are_made_elsewhere_get_no_note_of_another_trainer(tmp_path: Path) -> None:
    made = "(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()"
    script = SCRIPT.splitlines()
    script[2] = made
    path = tmp_path / "train.py"
    path.write_text("\n".join(script))
    kept = {"mixed_precision": Kept({"dtype": "bfloat16"})}
    done = patch(Recipe(kept, Measured(command="python train.py")), [File.read(path)])
    assert not any("bf16-mixed" in note.text for note in done.notes)


def test_the_precision_of_lightnings_trainer_is_that_of_the_recipe(tmp_path: Path) -> None:
    script = "import lightning as L\n\ntrainer = L.Trainer(max_epochs=2)\n"
    text, _ = patched(script, tmp_path)
    assert "precision='bf16-mixed'" in text.replace('"', "'")


ACCELERATED = """\
from accelerate import Accelerator

accelerator = Accelerator({given})
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    loss = loss_of(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", "bf16"), ('mixed_precision="no"', "bf16"), ('mixed_precision="fp16"', "fp16")],
)
def test_accelerate_is_passed_a_precision_where_an_edit_would_find_the_loop(
    given: str, expected: str, tmp_path: Path
) -> None:
    text, _ = patched(ACCELERATED.format(given=given), tmp_path)
    assert f"mixed_precision='{expected}'" in text.replace('"', "'")
    assert "autocast" not in text


def test_a_precision_of_accelerate_that_is_an_argument_is_left_to_the_user(tmp_path: Path) -> None:
    given = "mixed_precision=args.precision"
    text, written = patched(ACCELERATED.format(given=given), tmp_path)
    assert given in text
    assert "autocast" not in text
    assert "mixed_precision" not in written


def test_a_profile_names_the_option_of_the_trainer_that_runs() -> None:
    remedy = Remedy("loader_workers", "wait", ("data",), "t.py:1", 2.0, 0.4)
    finding = Finding("waiting for data", "t.py:1", "", 0.5, 2.0, (remedy,))
    of_trainer = {"trainer": "transformers", "loader_serial": True, "map_style": True}
    (named,) = addressed(finding, of_trainer, "python t.py").remedies
    assert "TrainingArguments(dataloader_num_workers=N)" in named.notes[0]
    for facts in ({}, {"trainer": "lightning"}):
        assert not addressed(finding, facts, "python t.py").remedies[0].notes
    on_gpu, on_cpu = (advice("transformers", "mixed_precision", cuda=at) for at in (True, False))
    assert "TrainingArguments(bf16=True)" in on_gpu
    assert "TrainingArguments(bf16=True, use_cpu=True)" in on_cpu


def test_the_trainer_is_known_by_the_modules_of_the_stack() -> None:
    assert trainer_of(["torch.optim.adamw", "transformers.trainer", "__main__"]) == "transformers"
    assert trainer_of(["lightning.pytorch.loops.fit_loop", "__main__"]) == "lightning"
    assert trainer_of(["accelerate.optimizer", "__main__"]) == "accelerate"
    assert trainer_of(["accelerate.optimizer", "transformers.trainer"]) == "transformers"
    assert trainer_of(["torch.optim.adamw", "__main__"]) == ""


def test_options_stand_for_techniques_and_choices_that_exist() -> None:
    for trainer in TRAINERS.values():
        for name, options in trainer.options.items():
            choices = {choice.name for choice in techniques()[name].choices}
            for option in options:
                chosen = getattr(option.value, "name", None)
                assert chosen is None or chosen in choices
                assert option.only is None or option.only[0] in choices


def test_hugging_face_has_these_options() -> None:
    transformers = pytest.importorskip("transformers")
    fields = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    options = [o for each in TRAINERS["transformers"].options.values() for o in each]
    assert {o.name for o in options} | {o.on_cpu[0] for o in options if o.on_cpu} <= fields


def test_accelerate_has_these_options() -> None:
    accelerate = pytest.importorskip("accelerate")
    names = set(inspect.signature(accelerate.Accelerator).parameters)
    assert {o.name for each in TRAINERS["accelerate"].options.values() for o in each} <= names


def test_arguments_that_a_patch_writes_are_taken_on_this_machine(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    script = "from transformers import TrainingArguments\n\nmade = TrainingArguments('out')\n"
    path = tmp_path / "train.py"
    path.write_text(script)
    kept = {"mixed_precision": Kept({"dtype": "bfloat16"})}
    measured = Measured(command="python train.py", machine=detect().summary())
    done = patch(Recipe(kept, measured), [File.read(path)])
    space: dict[str, object] = {}
    exec(next(iter(done.texts.values())), space)
    assert isinstance(space["made"], transformers.TrainingArguments)
    assert space["made"].bf16


def test_a_trainers_module_on_the_stack_is_noted_by_the_probe() -> None:
    from hotlap.seam.where import modules

    module = types.ModuleType("transformers.trainer")
    exec("def call(f):\n    return f()", module.__dict__)  # the loop of a trainer
    assert trainer_of(module.call(lambda: modules(sys._getframe()))) == "transformers"


def test_what_is_to_be_done_less_often_has_the_trainers_option() -> None:
    said = advice("transformers", "evaluation_often", cuda=False)
    assert said == "with this trainer: TrainingArguments(eval_steps=N)"
    assert "log_every_n_steps=N" in advice("lightning", "rare_logging", cuda=False)
    assert advice("accelerate", "evaluation_often", cuda=False) == ""
