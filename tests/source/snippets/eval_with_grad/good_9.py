import torch
import torch.nn.functional as F
from torch import nn


def penalty():
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    X, Y = torch.randn(100, 16), torch.randint(0, 2, (100,))
    last = None
    for step in range(100):
        net.train()
        loss = F.cross_entropy(net(X), Y)
        if last is not None:
            loss = loss + last
        opt.zero_grad()
        loss.backward()
        opt.step()
        net.eval()
        last = F.cross_entropy(net(X), Y)


penalty()
