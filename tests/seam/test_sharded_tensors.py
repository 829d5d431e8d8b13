"""Of a DTensor a rank counts and changes the part that it holds."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from hotlap.memory.owners import owners
from hotlap.seam.perturb import nudge


@pytest.fixture(params=[Shard(0), Replicate()], ids=str)
def held(request):
    """A parameter that is a DTensor, in a process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    yield torch.nn.Parameter(distribute_tensor(torch.randn(7, 3), mesh, [request.param]))
    dist.destroy_process_group()


def test_a_nudge_moves_each_element_by_one_unit_in_the_last_place(held):
    assert isinstance(held, DTensor)
    before = held.to_local().clone()
    nudge([held])
    after = held.to_local()
    up = torch.nextafter(before, torch.tensor(torch.inf))
    down = torch.nextafter(before, torch.tensor(-torch.inf))
    assert torch.equal(after.flatten()[1::2], up.flatten()[1::2])
    assert torch.equal(after.flatten()[::2], down.flatten()[::2])


def test_its_memory_is_counted(held):
    optimizer = torch.optim.Adam([held])
    held.grad = torch.zeros_like(held)
    optimizer.step()
    counted, _ = owners([], [optimizer])
    assert counted["parameters"] == counted["gradients"] == 7 * 3 * 4
    assert counted["optimizer state"] == pytest.approx(2 * 7 * 3 * 4, abs=8)  # and its step count
