"""Ranks of worlds that are not there; each run in a process of its own."""

import random

import pytest

from hotlap.plan.child import ask

HIDDEN, FFN, WORDS, LENGTH, LAYERS = 64, 256, 512, 32, 4
SIZES = {
    "layers": LAYERS, "hidden": HIDDEN, "heads": 4, "kv_heads": 4, "ffn": FFN, "vocabulary": WORDS,
    "sequence": LENGTH, "gated": False, "bias": True, "positions": True, "tied": False,
}  # fmt: skip
BLOCK = 12 * HIDDEN**2 + 13 * HIDDEN
ALL = LAYERS * BLOCK + 2 * WORDS * HIDDEN + LENGTH * HIDDEN + 2 * HIDDEN


def job(**changes):
    plain = {"sizes": SIZES, "parallelism": {}, "stage": 0, "micro_batch": 2, "micro_batches": 2}
    return plain | changes


SHARD, REPLICATE = random.choice([(2, 3), (4, 2), (8, 5)])
SEQUENCE = {"sequence_parallel": True, "loss_parallel": True}
JOBS = {
    "one": job(),
    "many": job(parallelism={"shard": SHARD, "replicate": REPLICATE}),
    "uneven": job(sizes=SIZES | {"vocabulary": WORDS + 1}, parallelism={"shard": 8}),
    "wrong": job(parallelism={"shard": 3, "pp": 2, "chunks": 1}),
    "bf16": job(dtype="bfloat16"),
    "tensor": job(parallelism={"tp": 4, **SEQUENCE}),
    "first": job(parallelism={"pp": 2, "chunks": 2}),
    "last": job(parallelism={"pp": 2, "chunks": 2}, stage=1),
}


@pytest.fixture(scope="module")
def found():
    return dict(zip(JOBS, ask(list(JOBS.values())), strict=True))


def test_one_rank_has_all_by_its_owners(found):
    one, bf16 = found["one"], found["bf16"]
    assert one["owners"]["parameters"] == 4 * ALL
    assert one["owners"]["gradients"] == 4 * ALL
    assert one["owners"]["optimizer"] == pytest.approx(8 * ALL, rel=0.01)
    assert one["sent"] == {}
    assert sum(one["owners"].values()) == one["peak"]
    assert bf16["owners"]["parameters"] == 2 * ALL
    assert bf16["flops"] == one["flops"]


def test_shards_and_replicas_and_what_they_send(found):
    one, many = found["one"], found["many"]
    assert many["flops"] == one["flops"]
    assert many["owners"]["parameters"] == pytest.approx(4 * ALL / SHARD, rel=0.02)
    ring = (SHARD - 1) / SHARD
    # per micro-batch: weights for forward, blocks again for backward, then gradients scattered
    gathered = 2 * 4 * (ALL + LAYERS * BLOCK) * ring
    assert many["sent"]["all_gather shard"] == pytest.approx(gathered, rel=0.03)
    assert many["sent"]["reduce_scatter shard"] == pytest.approx(2 * 4 * ALL * ring, rel=0.03)
    replicas = 2 * (REPLICATE - 1) / REPLICATE
    reduced = many["sent"]["all_reduce replicate"]
    assert reduced == pytest.approx(2 * 4 * ALL / SHARD * replicas, rel=0.03)


def test_shards_of_uneven_parameters_are_held_once(found):
    held = found["uneven"]["owners"]
    assert held["parameters"] == pytest.approx(4 * (ALL + 2 * HIDDEN) / 8, rel=0.05)
    assert held["optimizer"] == pytest.approx(2 * held["parameters"], rel=0.05)


def test_tensor_ranks_share_the_work(found):
    one, tensor = found["one"], found["tensor"]
    assert tensor["flops"] == one["flops"] / 4
    message = 4 * 2 * LENGTH * HIDDEN * 3 / 4  # bytes of one collective of a micro-batch
    moved = tensor["sent"]["all_gather tensor"] + tensor["sent"]["reduce_scatter tensor"]
    # two micro-batches, eight a layer, and some at both ends
    assert 2 * 8 * LAYERS * message <= moved <= 2 * (8 * LAYERS + 6) * message


def test_stages_share_the_layers(found):
    one, first, last = found["one"], found["first"], found["last"]
    assert first["flops"] + last["flops"] == one["flops"]
    held = first["owners"]["parameters"] + last["owners"]["parameters"]
    assert held == one["owners"]["parameters"]
    assert first["sent"] == {"send pipeline": 2 * 4 * 2 * LENGTH * HIDDEN}


def test_what_cannot_be_is_said(found):
    assert "cannot fill 2 stages" in found["wrong"]["error"]
