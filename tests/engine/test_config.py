"""What an engine is told, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.engine import Engine, EngineConfig

RECIPE = """
[measured]
command = "python train.py"

[techniques.mixed_precision]
dtype = "bfloat16"
ratio = 1.9

[techniques.tf32]
[techniques.channels_last]
[techniques.loader_workers]
count = 4

[techniques.fused_pointwise]
mode = "default"

[engine]
accumulate = 4
clip = 1.0
recompute = ["layers.*"]
"""


def test_a_recipe_and_its_engine_table(tmp_path: Path) -> None:
    path = tmp_path / "hotlap.toml"
    path.write_text(RECIPE)
    assert EngineConfig.from_toml(path, clip=0.5) == EngineConfig(
        precision="bf16", channels_last=True, compile="default", accumulate=4, clip=0.5,
        recompute=("layers.*",), others=("loader_workers",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("techniques = ", "not a recipe"),
        ("[techniques.mixed_precision]\n", "mixed_precision lacks its value"),
        ("[engine]\nturbo = true\n", "no setting turbo"),
        ("[engine]\nprecision = 'fp8'\n", "'fp8' is none of fp32, tf32"),
    ],
)
def test_a_recipe_that_cannot_be_taken(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "hotlap.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        EngineConfig.from_toml(path)


def test_no_recipe_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        EngineConfig.from_toml(tmp_path / "hotlap.toml")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"accumulate": 0}, "at least 1"),
        ({"clip": -1.0}, "negative"),
        ({"recompute": ("a",), "recompute_every": 1}, "one of the two"),
        ({"memory_budget": 0.5}, "compiled code"),
        ({"save_every": 3}, "needs a folder"),
        ({"log_every": 0}, "at least 1"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EngineConfig(**fields)


def test_switches_of_the_process_are_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    model = nn.Conv2d(1, 2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = EngineConfig(precision="tf32", deterministic=True, channels_last=True)
    with Engine(model, optimizer, config=config) as engine:
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.are_deterministic_algorithms_enabled()
        assert model.weight.is_contiguous(memory_format=torch.channels_last)
        image = engine.to_device((torch.randn(2, 1, 4, 4), {"y": torch.zeros(2)}))[0]
        assert image.is_contiguous(memory_format=torch.channels_last)
    assert torch.get_float32_matmul_precision() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_micro_batch_that_the_body_passes_over() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Engine(model, optimizer, config=EngineConfig(accumulate=2)) as engine:
        for index, x in enumerate(engine.steps([torch.ones(1)] * 4)):
            if index != 1:
                engine.step(engine.model(x).sum())
        assert engine.global_step == 2
        assert not engine.stepper.pending


def test_a_seed_repeats_a_run() -> None:
    def draw() -> float:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Engine(model, optimizer, config=EngineConfig(seed=5)):
            return float(torch.rand(()))

    assert draw() == draw()


@pytest.mark.parametrize(
    ("given", "meant"),
    [("bf16-mixed", "bf16"), ("bfloat16", "bf16"), ("16-mixed", "fp16"), ("float16", "fp16"),
     ("32-true", "fp32"), ("no", "fp32"), ("tf32", "tf32")],
)  # fmt: skip
def test_other_libraries_names_of_a_precision(given: str, meant: str) -> None:
    assert EngineConfig(precision=given).precision == meant
