import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 8))
train_loader = DataLoader(train_set, batch_size=64, num_workers=2)
val_loader = DataLoader(val_set, batch_size=64, num_workers=2)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
model.train()
for epoch in range(10):
    for step, (x, y) in enumerate(train_loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()  # found: train_mode_lost
    with torch.no_grad():
        for x, y in val_loader:
            model(x)
