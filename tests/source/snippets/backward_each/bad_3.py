"""Two backward passes over one graph keep it for one another: that is not `graph_retained`."""

import torch
from torch import nn
from torch.utils.data import DataLoader

loader = DataLoader(train_set, batch_size=64, num_workers=2)
net = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 8))
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def two_tasks():
    for x, y in loader:
        out = net(x)
        opt.zero_grad()
        nn.functional.cross_entropy(out[:, :4], y).backward(retain_graph=True)
        nn.functional.cross_entropy(out[:, 4:], y).backward()  # found: backward_each
        opt.step()


def one_after_the_other():
    for x, y in loader:
        out = net(x)
        opt.zero_grad()
        for loss in [out.mean(), out.pow(2).mean()]:
            loss.backward(retain_graph=True)  # found: backward_each
        opt.step()
