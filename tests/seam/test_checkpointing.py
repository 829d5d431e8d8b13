"""Activation checkpointing where a block's recomputation could differ from its forward pass."""

import random

import numpy as np
import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch import nn
from torch.func import functional_call


class Block(nn.Module):
    """`odd`: what the forward pass does besides."""

    def __init__(self, odd):
        super().__init__()
        self.net, self.odd = nn.Linear(8, 8), odd

    def forward(self, x):
        if self.odd == "python":
            x = x * random.random()
        elif self.odd == "numpy":
            x = x * np.random.rand()
        elif self.odd == "dropped" and random.random() < 0.5:
            return x
        return x + torch.tanh(self.net(x))


class Net(nn.Module):
    def __init__(self, odd="", wrap=lambda block: block):
        super().__init__()
        self.blocks = nn.ModuleList([wrap(Block(odd)) for _ in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def made(odd="", wrap=lambda block: block):
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(0)
    return Net(odd, wrap), torch.randn(4, 8)


def once(model, x):
    model(x).square().mean().backward()


def twice(model, x):
    loss = model(x).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()


def penalty(model, x):
    (slope,) = torch.autograd.grad(model(x.requires_grad_()).sum(), x, create_graph=True)
    slope.square().sum().backward()


def fast_weights(model, x):
    """A step of first-order MAML: the loss of other weights than the model has by its end."""
    weights = {name: 0.5 * p for name, p in model.named_parameters()}
    functional_call(model, weights, (x,)).square().mean().backward()


def evaluated_before(model, x):
    loss = model(x).square().mean()
    model.eval()
    loss.backward()
    model.train()


def gradients(work, odd="", wrap=lambda block: block):
    model, x = made(odd, wrap)
    work(model, x)
    return [p.grad for p in model.parameters()], random.random(), np.random.rand()


@pytest.mark.parametrize("work", [once, twice, penalty, fast_weights, evaluated_before])
@pytest.mark.parametrize("odd", ["", "python", "numpy", "dropped"])
def test_gradients_are_bitwise_the_same(work, odd):
    plain, *drawn = gradients(work, odd)
    with on("activation_checkpoint") as seams:
        now, *drawn_now = gradients(work, odd)
    assert seams.holds["activation_checkpoint"]
    assert drawn_now == drawn
    for was, grad in zip(plain, now, strict=True):
        assert (was is None) == (grad is None)
        assert was is None or torch.equal(was, grad)


@pytest.mark.parametrize("norm", [nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm])
def test_blocks_with_a_spectral_norm_are_left_alone(norm):
    def wrap(block):
        norm(block.net)
        return block

    plain, *_ = gradients(once, wrap=wrap)
    with on("activation_checkpoint") as seams:
        now, *_ = gradients(once, wrap=wrap)
    assert all(map(torch.equal, plain, now))
    assert "no blocks" in seams.inerts["activation_checkpoint"]


@pytest.mark.parametrize("norm", [False, True])
def test_a_compiled_model_runs(norm):
    def wrap(block):
        return nn.Sequential(block, nn.BatchNorm1d(8)) if norm else block

    def compiled(model, x):
        torch.compile(model, backend="aot_eager")(x).square().mean().backward()

    plain, *_ = gradients(compiled, wrap=wrap)
    torch.compiler.reset()
    with on("activation_checkpoint"):
        now, *_ = gradients(compiled, wrap=wrap)
    torch.compiler.reset()
    for was, grad in zip(plain, now, strict=True):
        assert torch.allclose(was, grad)
