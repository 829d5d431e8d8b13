import torch
import torch.nn.functional as F
from torch import nn


def main():
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    X, Y = torch.randn(100, 16), torch.randint(0, 2, (100,))
    best = 1e9
    for step in range(100):
        net.train()
        loss = F.cross_entropy(net(X), Y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            net.eval()
            logits = net(X)  # found: eval_with_grad
            val = F.cross_entropy(logits, Y)
            acc = (logits.argmax(1) == Y).float().mean()
            if val.item() < best:
                best = val.item()
            print(step, val.item(), acc.item())


main()
