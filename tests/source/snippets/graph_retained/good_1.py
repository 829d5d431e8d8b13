"""A GAN whose models share a graph; a penalty by `autograd.grad`."""

import torch
from torch import nn
from torch.utils.data import DataLoader

loader = DataLoader(train_set, batch_size=64, num_workers=2)
net = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 8))
G, D = nn.Linear(16, 64), nn.Linear(64, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
opt_g = torch.optim.SGD(G.parameters(), lr=0.1)
opt_d = torch.optim.SGD(D.parameters(), lr=0.1)


def gan():
    for x, _ in loader:
        fake = G(torch.randn(64, 16))
        opt_d.zero_grad()
        (D(fake).mean() - D(x).mean()).backward(retain_graph=True)
        opt_d.step()
        opt_g.zero_grad()
        update_generator(fake)


def update_generator(fake):
    (-D(fake).mean()).backward()
    opt_g.step()


def penalty():
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward(retain_graph=True)
        grads = torch.autograd.grad(loss, list(net.parameters()))
        log_norm(grads)
        opt.step()


def curvature():
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward(retain_graph=True, create_graph=True)
        opt.step()
