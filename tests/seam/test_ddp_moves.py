"""The moves on DistributedDataParallel, in a process group of one."""

import copy
from inspect import signature

import pytest
import torch
import torch.distributed as dist
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hotlap.parallel.hooks import narrowed
from hotlap.seam.probe.spread import Spread, ddp_facts, spreading
from hotlap.seam.process import rank_and_world


@pytest.fixture(autouse=True, scope="module")
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def ddp_is_left_as_it_was():
    before = dict(vars(DistributedDataParallel))
    yield
    assert dict(vars(DistributedDataParallel)) == before


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def trained(model, steps=3, dtype=torch.float32):
    """Losses and gradients of a few steps."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 6, dtype=dtype)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.grad.clone() for p in model.parameters()]


KEYWORDS = {
    "ddp_buffers": ("forward_sync_buffers", False),
    "ddp_gradient_view": ("gradient_as_bucket_view", True),
    "ddp_static_graph": ("static_graph", True),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_are_passed_and_losses_stay(name):
    attribute, value = KEYWORDS[name]
    plain = trained(DistributedDataParallel(net()))
    if attribute not in signature(DistributedDataParallel).parameters:
        pytest.skip(f"this version of torch has no {attribute}")
    with on(name) as seams:
        model = DistributedDataParallel(net())
        assert getattr(model, attribute) is value
        losses, gradients = trained(model)
    assert name in seams.holds
    assert losses == plain[0]
    assert all(map(torch.equal, gradients, plain[1]))
    assert getattr(DistributedDataParallel(net()), attribute) is not value


def test_bucket_size():
    with on("ddp_bucket_size", bucket_cap_mb=5) as seams:
        assert DistributedDataParallel(net(), bucket_cap_mb=40).bucket_bytes_cap == 40 << 20
        assert not seams.holds
        assert DistributedDataParallel(net()).bucket_bytes_cap == 5 << 20
        assert DistributedDataParallel(net(), bucket_cap_mb=25).bucket_bytes_cap == 5 << 20
        assert seams.holds
    assert DistributedDataParallel(net()).bucket_bytes_cap == 25 << 20


def test_unused_search_is_dropped_where_it_was_asked_for():
    with on("ddp_unused_search") as seams:
        assert not DistributedDataParallel(net()).find_unused_parameters
        assert not seams.holds
        model = DistributedDataParallel(net(), find_unused_parameters=True)
        assert not model.find_unused_parameters
        assert seams.holds


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_are_rounded_while_on_and_exact_afterwards(dtype):
    model = DistributedDataParallel(net())
    inputs = torch.randn(8, 6)

    def gradients(of):
        of.zero_grad()
        of(inputs).square().mean().backward()
        return [p.grad.clone() for p in of.parameters()]

    plain = gradients(copy.deepcopy(model.module))
    with on("ddp_compress", dtype=dtype) as seams:
        sent = gradients(model)
        assert seams.holds["ddp_compress"] == ["Sequential"]
        wanted = [g.to(getattr(torch, dtype)).float() for g in plain]
        assert all(map(torch.equal, sent, wanted))
        assert not all(map(torch.equal, sent, plain))
    assert all(map(torch.equal, gradients(model), plain))


def test_compression_leaves_alone_what_has_a_hook_or_is_no_float32():
    hooked = DistributedDataParallel(net())
    hooked.register_comm_hook(None, narrowed(torch.float16))
    with on("ddp_compress", dtype="bfloat16") as seams:
        trained(hooked)
        assert not seams.holds
        assert "hook of its own" in seams.inerts["ddp_compress"]
    with on("ddp_compress", dtype="bfloat16") as seams:
        model = DistributedDataParallel(net().double())
        model(torch.randn(8, 6).double()).sum().backward()
        assert "not float32" in seams.inerts["ddp_compress"]


def test_the_hook_refuses_other_types():
    with pytest.raises(ValueError, match="bfloat16 or float16"):
        narrowed(torch.int8)


def test_the_hook_reduces_other_gradients_as_they_are():
    plain = trained(DistributedDataParallel(net().double()), dtype=torch.float64)
    hooked = DistributedDataParallel(net().double())
    hooked.register_comm_hook(None, narrowed(torch.bfloat16))
    assert trained(hooked, dtype=torch.float64)[0] == plain[0]


def test_the_groups_rank_counts_not_the_environments(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert rank_and_world() == (0, 1)
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    assert rank_and_world() == (3, 8)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert rank_and_world() == (0, 1)


class Partly(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.used, self.idle, self.whole = nn.Linear(4, 4), nn.Linear(4, 4), whole

    def forward(self, x):
        return self.idle(self.used(x)) if self.whole else self.used(x)


@pytest.mark.parametrize("whole", [True, False])
def test_facts_of_a_model_that_searches(whole):
    model = DistributedDataParallel(Partly(whole), find_unused_parameters=True)
    for _ in range(2):
        model(torch.randn(2, 4)).sum().backward()
    facts = ddp_facts([nn.Sequential(model)])
    assert facts["ddp"]
    assert facts["ddp_searches_unused"]
    assert facts["ddp_unused"] is not whole
    assert facts["ddp_copies_gradients"]
    assert facts["ddp_not_static"]
    assert not facts["several_ranks"]
    assert not facts["ddp_hooked"]
    assert not facts["ddp_many_gradients"]


def test_the_share_of_a_backward_pass_that_waits_for_gradients(monkeypatch):
    logged = {"avg_backward_compute_time": 60, "avg_backward_comm_time": 90,
              "avg_backward_compute_comm_overlap_time": 50}  # fmt: skip
    model = DistributedDataParallel(net())
    assert ddp_facts([model])["ddp_reducing"] == 0.0
    model(torch.randn(2, 6)).sum().backward()
    assert 0.0 <= ddp_facts([model])["ddp_reducing"] < 1.0
    monkeypatch.setattr(model, "_get_ddp_logging_data", lambda: logged)
    assert ddp_facts([model])["ddp_reducing"] == 0.4


def test_facts_without_ddp():
    assert ddp_facts([net(), nn.DataParallel(net())]) == {"ddp": False}


class Recorder:
    def __init__(self):
        self.noted, self.pointed, self.spread = [], [], Spread()
        self.facts = self
        self.note, self.point = self.noted.append, self.pointed.append


def test_no_sync_is_noted_and_dataparallel_timed(monkeypatch):
    def replicate(*_):
        return "replicas"

    def gather(*_):
        return "outputs"

    monkeypatch.setattr(nn.DataParallel, "replicate", replicate)
    monkeypatch.setattr(nn.DataParallel, "gather", gather)
    rec = Recorder()
    with spreading(rec.spread, rec.facts):
        model = DistributedDataParallel(net())
        with model.no_sync():
            model(torch.randn(2, 6)).sum().backward()
        several = nn.DataParallel(net())
        assert several.replicate(several.module, [0, 1]) == "replicas"
        assert rec.spread.per_call() == {}  # nothing was gathered yet
        several.gather([torch.ones(2)], "cpu")
    assert rec.noted == ["ddp_no_sync"]
    assert rec.pointed == ["ddp"]
    assert set(rec.spread.per_call()) == {"replicate", "gather"}
    assert all(seconds >= 0 for seconds in rec.spread.per_call().values())


def images():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten())


def trained_on_images(model):
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(3):
        loss = model(torch.randn(4, 3, 9, 9)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_channels_last_is_there_before_a_model_is_wrapped():
    plain = trained_on_images(DistributedDataParallel(images()))
    with on("channels_last") as seams:
        model = DistributedDataParallel(images())
        assert model.module[0].weight.is_contiguous(memory_format=torch.channels_last)
        assert trained_on_images(model) == pytest.approx(plain, rel=1e-5)
        assert "channels_last" in seams.holds


def test_channels_last_leaves_alone_what_was_wrapped_before():
    model = DistributedDataParallel(images())
    with on("channels_last") as seams:
        trained_on_images(model)
        assert model.module[0].weight.is_contiguous()
        assert not seams.holds
