"""Models that a function builds: what is found out about them, and what is said when it fails."""

import re
from pathlib import Path

import pytest
import torch

from hotlap.plan.child import ask
from hotlap.plan.cluster import GIB, PRESETS
from hotlap.plan.layout_search import search
from hotlap.plan.module_model import Module, read_module
from hotlap.plan.number_formats import Precision
from hotlap.plan.verify import verify

HERE = Path(__file__).parent
SLOW = pytest.mark.slow
BAD = {
    "models:fails": "KeyError: 'no such layer' \\(.*models.py:",
    "models:ends": "ended without an answer",
    "models:no_module": "returned int",
    "models:missing": "has no attribute 'missing'",
    "models:not_a_function": "not callable",
    "nowhere:gpt": "No module named 'nowhere'",
    "models:without_inputs": "without an embedding",
    "models:wrong_inputs": "a step of the model on fake tensors failed",
}


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(str(HERE))


def built(name):
    import models

    with torch.device("meta"):
        made = getattr(models, name)()
    return made[0] if isinstance(made, tuple) else made


@pytest.mark.parametrize(
    "name",
    [
        "gpt",
        pytest.param("gpt2", marks=SLOW),
        pytest.param("llama", marks=SLOW),
    ],
)
def test_transformers_are_recognised_to_the_last_parameter(name):
    if name != "gpt":
        pytest.importorskip("transformers")
    shape = read_module(f"models:{name}", 0, Precision.FP32)
    assert not isinstance(shape, Module)
    model = built(name)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert (shape.hidden, shape.heads, shape.vocabulary, shape.sequence) == (64, 4, 100, 32)
    assert shape.layers == (4 if name == "gpt" else 3)


@SLOW
def test_the_examples_sequence_is_planned_unless_another_is_asked_for():
    pytest.importorskip("transformers")
    assert read_module("models:gpt2_with_inputs", 0, Precision.MIXED).sequence == 48
    assert read_module("models:gpt2_with_inputs", 24, Precision.MIXED).sequence == 24


@SLOW
def test_a_vision_transformer_is_no_language_model():
    pytest.importorskip("transformers")
    module = read_module("models:vit", 0, Precision.MIXED)
    assert isinstance(module, Module)
    assert module.unit == "samples"


@SLOW
def test_convolutions_are_planned_and_verified_at_the_default_precision():
    module = read_module("models:cnn", 0, Precision.MIXED)
    plans = search(module, PRESETS["h100"].having(2), 16, Precision.MIXED)
    for found in (next(p for p in plans.fitting if p.layout.ddp is ddp) for ddp in (True, False)):
        verified = verify(module, found, 16)
        assert verified.ranks, verified.problem


@SLOW
@pytest.mark.parametrize("name", ["perceptron", "images"])
def test_others_are_planned_as_a_whole(name):
    module = read_module(f"models:{name}", 0, Precision.FP32)
    assert isinstance(module, Module)
    assert module.parameters == sum(p.numel() for p in built(name).parameters())
    if name == "perceptron":
        assert module.layers == 5
        products = 32 * 64 + 5 * 2 * 64 * 256 + 64 * 10
        # nothing is differentiated by the inputs, so the first product has two passes of three
        assert module.work == 2 * (3 * products - 32 * 64)
    cluster = PRESETS["h100"].having(4)
    plans = search(module, cluster, 64, Precision.FP32)
    assert plans.fitting
    assert all(p.layout.tensor == p.layout.pipeline == 1 for p in plans.fitting)
    assert any("no transformer" in reason for reason, _ in plans.refused)
    sharded = next(p for p in plans.fitting if p.layout.fsdp)
    (rank,) = verify(module, sharded, 64).ranks
    assert rank.peak == pytest.approx(sharded.memory.total, rel=0.25)


def test_what_fails_says_why():
    answers = ask([{"describe": name, "sequence": 0, "dtype": "float32"} for name in BAD])
    for answer, (name, said) in zip(answers, BAD.items(), strict=True):
        assert list(answer) == ["error"], name
        assert re.search(said, answer["error"]), f"{name}: {answer['error']}"


@SLOW
@pytest.mark.parametrize(("gpus", "live", "reserved"), [(8, 68.8, 82.4), (128, 58.2, 67.0)])
def test_torchtitan_llama_8b(gpus, live, reserved):
    """Its table for H100s: FSDP, selective recomputation; what the allocator reserved there.

    https://github.com/pytorch/torchtitan/blob/main/benchmarks/llama3_h100_202412_torchtitan.md
    """
    job = {
        "sizes": None,
        "function": "models:torchtitan_8b",
        "sequence": 8192,
        "parallelism": {"shard": gpus, "param_dtype": "bfloat16", "reduce_dtype": "float32"},
        "stage": 0,
        "micro_batch": 2,
        "micro_batches": 1,
    }
    (found,) = ask([job])
    assert found["peak"] / GIB == pytest.approx(live, rel=0.03)
    assert 1.1 < reserved * GIB / found["peak"] < 1.25
