"""Truncated backpropagation through time without a cut, and sums that run over the steps."""

import torch
from torch import nn
from torch.utils.data import DataLoader

loader = DataLoader(train_set, batch_size=64, num_workers=2)
rnn, head = nn.GRU(64, 64), nn.Linear(64, 8)
opt = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)


def carried():
    h = torch.zeros(1, 64, 64)
    for x, y in loader:
        out, h = rnn(x, h)
        loss = nn.functional.cross_entropy(head(out[-1]), y)
        opt.zero_grad()
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
        opt.step()


def summed():
    total = 0
    for x, y in loader:
        total = total + nn.functional.cross_entropy(head(x), y)
        opt.zero_grad()
        total.backward(retain_graph=True)
        opt.step()


def made_before(prompt, steps):
    context = head(prompt)
    for _ in range(steps):
        loss = (context - torch.randn(64, 8)).pow(2).mean()
        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()


def saliency(x):
    """The caller decides; nothing is trained."""
    head(x).mean().backward(retain_graph=True)
    return head.weight.grad


def chosen(last):
    for x, y in loader:
        nn.functional.cross_entropy(head(x), y).backward(retain_graph=not last)
        opt.step()
        opt.zero_grad()
