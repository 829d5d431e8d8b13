import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8))
train_loader = DataLoader(train_set, batch_size=64, num_workers=2)
test_loader = DataLoader(test_set, batch_size=64, num_workers=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        hits = 0
        for x, y in test_loader:
            hits += (model(x).argmax(1) == y).sum()  # found: eval_mode_missing
    print(epoch, hits / len(test_set))
