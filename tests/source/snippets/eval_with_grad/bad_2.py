import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
train_loader = DataLoader(train_set, batch_size=64, num_workers=2)
test_loader = DataLoader(test_set, batch_size=64, num_workers=2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(10):
    net.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    net.eval()
    hits = 0
    for x, y in test_loader:
        hits += (net(x).argmax(1) == y).sum()  # found: eval_with_grad
    print(epoch, hits / len(test_set))
