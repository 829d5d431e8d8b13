import random
from dataclasses import replace
from math import prod

import pytest

from hotlap.core.errors import UsageError
from hotlap.plan.cluster import PRESETS
from hotlap.plan.cost import plan
from hotlap.plan.flops import Recompute
from hotlap.plan.layout_search import RESERVE, layouts, search
from hotlap.plan.memory_estimate import memory, stage_parameters
from hotlap.plan.number_formats import Precision
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.reading import read_shape
from hotlap.plan.shape import KNOWN, Shape

SMALL = Shape(8, 512, 8, 32000, 1024)


def test_every_layout_makes_the_world():
    cluster = PRESETS["h100"].having(32)
    found = list(layouts(SMALL, cluster))
    assert len(found) == len(set(found))
    for layout in found:
        assert prod((layout.replicate, layout.shard, layout.tensor, layout.pipeline)) == 32


def test_what_fits_fits_and_the_fastest_is_first():
    cluster = PRESETS["a100"].having(64)
    plans = search(KNOWN["llama3-8b"], cluster, 512)
    assert plans.fitting
    assert [p.step for p in plans.fitting] == sorted(p.step for p in plans.fitting)
    limit = cluster.memory * (1 - RESERVE)
    assert all(p.memory.total <= limit for p in plans.fitting)
    assert all(p.memory.total > limit for p in plans.closest)
    assert not any(p.layout.refusal(KNOWN["llama3-8b"], cluster, 512) for p in plans.fitting)


def test_what_cannot_fit_says_so():
    plans = search(KNOWN["gpt3-175b"], PRESETS["a100"].having(8), 64)
    assert not plans.fitting
    assert plans.closest


@pytest.mark.parametrize(
    ("layout", "batch", "said"),
    [
        (Layout(1, 1, 1, 1, 1, Recompute.NONE), 32, "1 ranks of 16"),
        (Layout(1, 1, 16, 1, 1, Recompute.NONE), 32, "would leave the node"),
        (Layout(1, 5, 1, 3, 1, Recompute.NONE), 32, "15 ranks"),
        (Layout(1, 16, 1, 1, 4, Recompute.NONE), 32, "do not divide the batch"),
        (Layout(1, 2, 1, 8, 4, Recompute.NONE), 8, "cannot fill 8 stages"),
    ],
)
def test_refusals_name_the_reason(layout, batch, said):
    assert said in layout.refusal(SMALL, PRESETS["h100"].having(16), batch)


@pytest.mark.parametrize("part", ["heads", "ffn", "sequence", "vocabulary"])
def test_what_tensor_ranks_share_comes_out_even(part):
    odd = replace(SMALL, **{part: {"heads": 4, "ffn": 1028}.get(part, 1001)})
    cluster = PRESETS["h100"].having(16)
    layout = Layout(1, 2, 8, 1, 1, Recompute.NONE)
    assert "tensor 8 does not divide" in layout.refusal(odd, cluster, 32)
    assert not layout.refusal(SMALL, cluster, 32)


def test_mixed_precision_beside_a_pipeline_needs_fsdp():
    cluster = PRESETS["h100"].having(16)
    for precision, refused in ((Precision.MIXED, True), (Precision.BF16, False)):
        layout = Layout(1, 1, 4, 4, 1, Recompute.NONE, precision)
        assert ("--precision bf16" in layout.refusal(SMALL, cluster, 32)) is refused
    assert not Layout(1, 2, 4, 2, 1, Recompute.NONE).refusal(SMALL, cluster, 32)


def test_stages_hold_every_parameter_once():
    for tied in (True, False):
        shape = Shape(12, 256, 4, 1000, 64, tied=tied)
        layout = Layout(1, 1, 1, 4, 1, Recompute.NONE)
        held = sum(stage_parameters(shape, layout, stage) for stage in range(4))
        copy = 1000 * 256 if tied else 0  # a tied head is a copy on the last stage
        assert held == shape.parameters + copy
        alone = Layout(1, 1, 1, 1, 1, Recompute.NONE)
        assert stage_parameters(shape, alone, 0) == shape.parameters


def test_memory_falls_with_what_is_split():
    batch = 64
    one = memory(SMALL, Layout(16, 1, 1, 1, 4, Recompute.NONE), batch)
    sharded = memory(SMALL, Layout(1, 16, 1, 1, 4, Recompute.NONE), batch)
    assert sharded.optimizer == pytest.approx(one.optimizer / 16)
    assert sharded.gradients == pytest.approx(one.gradients / 16)
    again = memory(SMALL, Layout(16, 1, 1, 1, 4, Recompute.FULL), batch)
    assert again.activations < one.activations


def test_step_time_is_bounded_by_arithmetic():
    cluster = PRESETS["h100"].having(64)
    for found in random.sample(search(KNOWN["llama3-8b"], cluster, 256).fitting, 20):
        assert found.step >= found.compute
        assert 0 < found.utilisation <= cluster.achieved + 1e-9
        again = plan(KNOWN["llama3-8b"], cluster, found.layout, 256)
        assert again == found


def test_reading_configs(tmp_path):
    ours = tmp_path / "model.toml"
    ours.write_text("layers=2\nhidden=64\nheads=4\nvocabulary=100\nsequence=32\n")
    assert read_shape(str(ours)) == Shape(2, 64, 4, 100, 32)
    theirs = tmp_path / "config.json"
    theirs.write_text(
        '{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,'
        '"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,'
        '"vocab_size": 128256, "max_position_embeddings": 8192}'
    )
    assert read_shape(str(theirs)) == KNOWN["llama3-8b"]
    theirs.write_text(
        '{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": null,'
        '"vocab_size": 50257, "n_positions": 1024}'
    )
    assert read_shape(str(theirs)) == KNOWN["gpt2"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "layers=2\n", "lacks hidden"),
        ("a.toml", "layer=2\n", "has 'layer'"),
        ("a.toml", "layers=2\nhidden=64\nheads=5\nvocabulary=1\nsequence=1\n", "do not divide"),
        ("a.toml", "layers=0\nhidden=64\nheads=4\nvocabulary=1\nsequence=1\n", "at least 1"),
        ("a.toml", "layers=", "cannot be read"),
        ("a.json", "{", "cannot be read"),
        ("a.json", '{"model_type": "mamba"}', "'mamba'"),
    ],
)
def test_wrong_configs_are_named(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_shape(str(path))
    with pytest.raises(UsageError, match="no model that is known"):
        read_shape(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("only", "rule", "nearest"),
    [
        ({"tensor": 3}, "tensor 3 does not divide 8 GPUs", ("tensor", 4)),
        ({"pipeline": 5}, "pipeline 5 does not divide 8 GPUs", ("pipeline", 4)),
        ({"tensor": 2, "pipeline": 8}, "tensor 2 x pipeline 8 does not divide", ("pipeline", 4)),
        ({"micro_batch": 3}, "micro-batch 3 is none of 1, 2, 4, 8", ("micro_batch", 4)),
        ({"tensor": 8}, "tensor 8 does not divide the heads (12)", ("tensor", 4)),
    ],
)
def test_an_impossible_request_names_its_rule_and_the_nearest_that_works(only, rule, nearest):
    shape = replace(KNOWN["gpt2"], vocabulary=50304)
    plans = search(shape, PRESETS["h100"], 64, only=only)
    assert not plans.fitting
    assert rule in plans.impossible
    assert plans.nearest is not None
    layout = plans.nearest.layout
    assert getattr(layout, nearest[0]) == nearest[1]
    assert layout.refusal(shape, PRESETS["h100"], 64) == ""
    assert search(shape, PRESETS["h100"], 64).impossible == ""
