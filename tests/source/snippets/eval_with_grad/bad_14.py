import torch
import torch.nn.functional as F
from torch import nn

net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
X, Y = torch.randn(100, 10), torch.randint(0, 2, (100,))
X_test, Y_test = torch.randn(100, 10), torch.randint(0, 2, (100,))
for epoch in range(10):
    net.train()
    for i in range(0, 100, 10):
        loss = F.cross_entropy(net(X[i : i + 10]), Y[i : i + 10])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    val = F.cross_entropy(net(X_test), Y_test)  # found: eval_with_grad
    acc = (net(X_test).argmax(1) == Y_test).float().mean()  # found: eval_with_grad
    print(epoch, val.item(), acc.item())
