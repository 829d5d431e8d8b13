"""The scaler's seams, on the CPU with a real GradScaler; scales are powers of two, so exact."""

from contextlib import ExitStack, contextmanager

import pytest
import torch
from applying import Seams, torch_is_left_as_it_was  # noqa: F401
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from hotlap.seam.moves import Context
from hotlap.seam.scaler import loss_scaling, scaling


@contextmanager
def scaled(**kwargs):
    seams = Seams()
    scaler = torch.amp.GradScaler("cpu", **{"init_scale": 1024.0, **kwargs})
    with ExitStack() as stack:
        stack.enter_context(scaling(Context("mixed_precision", {}, seams), scaler))
        yield scaler, seams


def clip_norm(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def clip_value(model):
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)


def nothing(_):
    return None


def train(optimizer="SGD", clip=nothing, accumulate=1, steps=4, schedule=False, closure=False):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    opt = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 2) if schedule else None
    losses = []

    def work():
        opt.zero_grad()
        for _ in range(accumulate):
            loss = model(torch.randn(3, 4)).square().mean()
            losses.append(loss.item())
            loss.backward()
        clip(model)
        return loss

    for _ in range(steps):
        if closure:
            assert opt.step(work) is not None
        else:
            work()
            opt.step()
        if scheduler:
            scheduler.step()
    return losses, model.weight.detach().clone()


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"clip": clip_norm},
        {"clip": clip_value},
        {"accumulate": 3},
        {"schedule": True},
        {"closure": True},
        {"closure": True, "clip": clip_norm, "accumulate": 2},
    ],
    ids=["plain", "clip norm", "clip value", "accumulate", "schedule", "closure", "all"],
)
def test_a_scaled_run_is_the_plain_run(optimizer, kwargs):
    losses, weights = train(optimizer, **kwargs)
    with scaled() as (_, seams):
        again, scaled_weights = train(optimizer, **kwargs)
    assert again == losses
    assert torch.equal(weights, scaled_weights)
    assert seams.holds
    assert not seams.inerts


def test_gradients_are_scaled_between_backward_and_step():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with scaled():
        model(torch.ones(1, 2)).sum().backward()
        assert model.weight.grad.tolist() == [[1024.0, 1024.0]]
        optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


def test_the_scale_grows_and_backs_off_and_infinities_skip_a_step():
    model = nn.Linear(2, 1)
    with scaled(growth_interval=2) as (scaler, _):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scales = []
        for bad in (False, False, True, False, False):
            before = model.weight.detach().clone()
            optimizer.zero_grad()
            loss = model(torch.ones(1, 2)).sum() * (float("inf") if bad else 1.0)
            loss.backward()
            scales.append(scaler.get_scale())
            optimizer.step()
            assert torch.equal(before, model.weight) == bad
    assert scales == [1024.0, 1024.0, 2048.0, 1024.0, 1024.0]


def test_two_optimizers_of_one_loss():
    def run():
        torch.manual_seed(0)
        one, two = nn.Linear(2, 2), nn.Linear(2, 2)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (one, two)]
        for _ in range(4):
            for optimizer in optimizers:
                optimizer.zero_grad()
            two(one(torch.randn(3, 2))).square().sum().backward()
            for optimizer in optimizers:
                optimizer.step()
        return torch.cat([one.weight, two.weight]).detach()

    plain = run()
    with scaled(growth_interval=1):
        assert torch.equal(run(), plain)


def test_taking_turns_like_a_gan():
    def run():
        torch.manual_seed(0)
        g, d = nn.Linear(2, 2), nn.Linear(2, 1)
        og, od = (torch.optim.Adam(m.parameters(), lr=0.1) for m in (g, d))
        for _ in range(4):
            od.zero_grad()
            d(g(torch.randn(3, 2)).detach()).mean().backward()
            od.step()
            og.zero_grad()
            (-d(g(torch.randn(3, 2))).mean()).backward()
            og.step()
        return torch.cat([g.weight, d.weight]).detach()

    plain = run()
    with scaled(growth_interval=2):
        assert torch.equal(run(), plain)


def test_a_fused_optimizer_unscales_by_itself():
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    twin = nn.Linear(2, 2)
    twin.load_state_dict(model.state_dict())
    x = torch.randn(3, 2)

    def run(net):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=True)
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            clip_grad_norm_(net.parameters(), 1e9)
            optimizer.step()

    run(model)
    with scaled():
        run(twin)
    assert torch.allclose(model.weight, twin.weight)


def test_a_nested_backward_is_not_scaled_twice():
    from torch.utils.checkpoint import checkpoint

    def run():
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(3, 2, requires_grad=True)
        checkpoint(model, x, use_reentrant=True).square().sum().backward()
        optimizer.step()
        return model.weight.detach()

    plain = run()
    with scaled():
        assert torch.equal(run(), plain)


def test_a_step_without_gradients_is_plain():
    model = nn.Linear(2, 2)
    with scaled():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.step()
        model(torch.ones(1, 2)).sum().backward()
        other = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        other.step()


def test_what_it_cannot_do_is_said():
    with scaled() as (_, seams):
        torch.optim.LBFGS([nn.Parameter(torch.zeros(1))])
    assert "LBFGS" in seams.inerts["mixed_precision"]
    with scaled() as (_, seams):
        own = torch.amp.GradScaler("cpu")
        own.scale(torch.ones(1, requires_grad=True))
    assert "already" in seams.inerts["mixed_precision"]
    with scaled() as (_, seams):
        x = torch.ones(1, requires_grad=True)
        torch.autograd.grad(x.sum(), x)
    assert "autograd.grad" in seams.inerts["mixed_precision"]


def test_an_optimizer_outlives_the_seams():
    model = nn.Linear(2, 1)
    with scaled():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    model(torch.ones(1, 2)).sum().backward()
    clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()


def test_bfloat16_needs_no_scaler():
    seams = Seams()
    with loss_scaling(Context("mixed_precision", {"dtype": "bfloat16"}, seams)):
        x = torch.ones(1, requires_grad=True)
        x.sum().backward()
        assert x.grad.item() == 1.0
    assert not seams.holds


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_float16_on_cuda():
    from applying import on

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
    x, y = torch.randn(64, 16, device="cuda"), torch.randn(64, 1, device="cuda")
    with on("mixed_precision", dtype="float16") as seams:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(50):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert seams.holds
    assert not seams.inerts
