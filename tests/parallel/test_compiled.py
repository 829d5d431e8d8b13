"""Blocks compiled one by one, under FSDP and under tensor parallelism."""

import pytest
import torch

from hotlap.parallel import Parallelism, Preparation, parallelize
from parallel import farm
from parallel.gpt import GPT, loss


def train(names: dict[str, int], compiled: str, recompute: tuple[str, ...] = ()) -> list[float]:
    torch.manual_seed(0)
    spread = parallelize(
        GPT(2),
        Parallelism.of(**names),
        tp_plan="gpt",
        preparation=Preparation(compile=compiled, recompute=recompute),
    )
    optimizer = torch.optim.SGD(spread.parameters(), lr=0.1)
    torch.manual_seed(1)
    ids, targets = torch.randint(0, 32, (3, 4, 8)), torch.randint(0, 32, (3, 4, 8))
    losses = []
    for x, y in zip(ids, targets, strict=True):
        value = loss(spread.model(x), y)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    if compiled:
        assert all(layer._compiled_call_impl is not None for layer in spread.model.layers.values())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "recompute"),
    [({"shard": 2}, ("layers.*",)), ({"tp": 2, "sequence_parallel": True}, ())],
    ids=["fsdp", "sequence"],
)
def test_blocks_compiled_one_by_one(names: dict[str, int], recompute: tuple[str, ...]) -> None:
    """The numbers are those of the plain blocks, and names stay: each block is its own module."""
    wanted = farm.run(2, train, names, "", recompute)
    assert farm.run(2, train, names, "default", recompute)[0] == pytest.approx(wanted[0], rel=1e-4)


def test_replicated_layers_are_not_compiled() -> None:
    with pytest.raises(RuntimeError, match=r"torch\.compile cannot trace"):
        farm.run(2, train, {"tp": 2}, "default")


def test_recomputed_blocks_are_not_compiled_under_tensor_parallelism() -> None:
    with pytest.raises(RuntimeError, match="leave compile or recompute off"):
        farm.run(2, train, {"tp": 2, "sequence_parallel": True}, "default", ("layers.*",))
