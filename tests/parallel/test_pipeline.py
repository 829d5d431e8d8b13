"""Pipeline steps: losses where they are wanted, batches that change, what is refused."""

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from hotlap.parallel import Parallelism, parallelize
from hotlap.parallel.pipeline_schedules import own_stages, refuse
from parallel import farm
from parallel.gpt import GPT, loss


@pytest.mark.parametrize(
    ("schedule", "stages"),
    [
        ("1F1B", [[0], [1], [2]]),
        ("Interleaved1F1B", [[0, 3], [1, 4], [2, 5]]),
        ("DualPipeV", [[0, 5], [1, 4], [2, 3]]),
    ],
)
def test_which_rank_has_which_stages(schedule: str, stages: list[list[int]]) -> None:
    layout = Parallelism.of(pp=3, schedule=schedule)
    assert [own_stages(layout, rank) for rank in range(3)] == stages


@pytest.mark.parametrize("name", ["ZBVZeroBubble", "DualPipeV"])
def test_schedules_that_hang_are_refused(name: str) -> None:
    layout = Parallelism.of(pp=2, schedule=name)
    with pytest.raises(ValueError, match=rf"{name} is refused on torch 2\.11\.0\+cpu over Gloo"):
        refuse(layout, "gloo", "2.11.0+cpu")
    refuse(layout, "nccl", "2.11.0")
    refuse(layout, "gloo", "2.13.0+cpu")
    refuse(Parallelism.of(pp=2), "gloo", "2.11.0")


def batches() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(3)
    shapes = [(4, 8), (4, 8), (2, 6)]
    return [(torch.randint(0, 32, s), torch.randint(0, 32, s)) for s in shapes]


def steps() -> tuple[list[float], list[float], bool]:
    torch.manual_seed(0)
    spread = parallelize(GPT(2), Parallelism.of(pp=2), loss=loss)
    pipe = spread.pipeline
    assert pipe is not None
    assert pipe.first is (dist.get_rank() == 0)
    assert pipe.last is (dist.get_rank() == 1)
    trained, judged = [], []
    for x, y in batches():
        judged.append(pipe.everywhere(pipe.evaluate(x, target=y)).item())
        found = pipe.step(x, target=y)
        assert (found is not None) is pipe.last
        trained.append(pipe.everywhere(found).item())
    with pytest.raises(ValueError, match="batch of 3 cannot be cut into 2 equal micro-batches"):
        pipe.step(torch.zeros(3, 8, dtype=torch.long), target=None)
    return trained, judged, all(p.grad is not None for p in spread.parameters())


def test_batches_of_several_shapes() -> None:
    torch.manual_seed(0)
    model = GPT(2)
    wanted = [loss(model(x), y).item() for x, y in batches()]
    for trained, judged, complete in farm.run(2, steps):
        assert trained == pytest.approx(wanted, rel=1e-5)
        assert judged == pytest.approx(wanted, rel=1e-5)
        assert complete


def refused() -> None:
    with pytest.raises(ValueError, match="give loss="):
        parallelize(GPT(2), Parallelism.of(pp=2))
    with pytest.raises(ValueError, match="names 1 stages, and 1F1B over 2 ranks has 2"):
        parallelize(GPT(2), Parallelism.of(pp=2), loss=loss, stages=[["tok"]])
    with pytest.raises(ValueError, match="does not fill a world of 2 ranks"):
        parallelize(GPT(2), Parallelism.of(pp=4), loss=loss)


def test_what_cannot_be() -> None:
    farm.run(2, refused)


def named_stages() -> list[str]:
    names = [["tok", "pos", "layers.0"], ["layers.1", "layers.2", "norm", "head"]]
    spread = parallelize(GPT(3), Parallelism.of(pp=2), loss=loss, stages=names)
    return sorted(spread.parts[0].layers)


def test_stages_by_name() -> None:
    assert farm.run(2, named_stages) == [["0"], ["1", "2"]]


def test_without_ranks() -> None:
    spread = parallelize(GPT(1), Parallelism())
    assert spread.pipeline is None
    assert (spread.mesh.data_rank, spread.mesh.data_ranks) == (0, 1)
    with pytest.raises(RuntimeError, match="start with torchrun"):
        parallelize(GPT(1), Parallelism.of(shard=2))
