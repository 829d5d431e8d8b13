import torch
from torch import nn
from torch.utils.data import DataLoader

loader = DataLoader(train_set, batch_size=64, num_workers=2)
test_loader = DataLoader(test_set, batch_size=64, num_workers=2)
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, y in test_loader:
        net(x)
