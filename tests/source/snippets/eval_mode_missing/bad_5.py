import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))
criterion = nn.MSELoss()
train_loader = DataLoader(train_set, batch_size=64, num_workers=2)
valid_loader = DataLoader(valid_set, batch_size=64, num_workers=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    total = 0.0
    for x, y in valid_loader:
        output = model(x).squeeze(1)  # found: eval_mode_missing, eval_with_grad
        loss = criterion(output, y)
        total += loss.item() * len(y)
    print(epoch, total / len(valid_set))
