"""The articles' layout: hidden 12288, 96 heads, 96 layers, pipeline 8, tensor 8."""

from dataclasses import replace

import pytest

from hotlap.plan.cluster import GIB, PRESETS
from hotlap.plan.cost import plan
from hotlap.plan.flops import Recompute, stage_flops
from hotlap.plan.layout_search import search
from hotlap.plan.memory_estimate import memory
from hotlap.plan.number_formats import Precision
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.shape import KNOWN
from hotlap.plan.verify import verify

GPT3 = KNOWN["gpt3-175b"]
WORLDS = (64, 1024, 16384)
MICRO_BATCHES = 16


def layout(world, recompute=Recompute.FULL):
    precision = Precision.BF16 if world == 64 else Precision.MIXED  # FSDP is what mixes
    return Layout(1, world // 64, 8, 8, 1, recompute, precision)


@pytest.mark.parametrize("world", WORLDS)
def test_it_fits_and_its_state_is_what_the_ranks_share(world):
    cluster = PRESETS["a100"].having(world)
    chosen, batch = layout(world), MICRO_BATCHES * world // 64
    assert not chosen.refusal(GPT3, cluster, batch)
    found = plan(GPT3, cluster, chosen, batch)
    moments = 2 * chosen.precision.bytes.rest * 175e9 / world  # one stage holds the embedding too
    assert found.memory.optimizer == pytest.approx(moments, rel=0.06)
    assert found.memory.total < 40 * GIB
    assert found.bubble == 7 / MICRO_BATCHES


@pytest.mark.parametrize("world", WORLDS)
def test_a_search_held_to_it_finds_it(world):
    cluster = PRESETS["a100"].having(world)
    chosen, batch = layout(world), MICRO_BATCHES * world // 64
    only = {"tensor": 8, "pipeline": 8, "shard": chosen.shard, "recompute": "blocks"}
    plans = search(GPT3, cluster, batch, chosen.precision, only)
    assert chosen in [found.layout for found in plans.fitting]
    assert all((p.layout.tensor, p.layout.pipeline) == (8, 8) for p in plans.fitting)


def check(shape, chosen, batch, cluster):
    """Each distinct stage by dry run, beside the closed forms."""
    found = verify(shape, plan(shape, cluster, chosen, batch), batch)
    assert not found.problem
    assert [rank.stage for rank in found.ranks] == sorted({0, 1, chosen.pipeline - 1})
    for rank in found.ranks:
        held = memory(shape, chosen, batch, rank.stage)
        assert held.total == pytest.approx(rank.peak, rel=0.05)
        work = stage_flops(
            shape, batch // chosen.data, chosen.recompute, chosen.pipeline, rank.stage
        )
        assert rank.flops == pytest.approx(work / chosen.tensor, rel=0.01)
    return found


@pytest.mark.slow
def test_a_dry_run_of_it_with_two_stages_of_one_layer_agrees_with_the_formulas():
    chosen = replace(layout(16384), pipeline=2)
    small = replace(GPT3, layers=2, vocabulary=8192)
    batch = 4 * chosen.data
    check(small, chosen, batch, PRESETS["a100"].having(chosen.world))


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_a_dry_run_of_the_whole_agrees_with_the_formulas(world):
    check(GPT3, layout(world), MICRO_BATCHES * world // 64, PRESETS["a100"].having(world))
