import torch
from torch import nn
from torch.utils.data import DataLoader


class Upscale(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 64, 5, padding=2)
        self.last = nn.Conv2d(64, 4, 3, padding=1)

    def forward(self, x):
        return torch.nn.functional.pixel_shuffle(self.last(self.first(x).relu()), 2)


loader, held_out = DataLoader(train_set, 16), DataLoader(test_set, 16)
model = Upscale().to(device)
optimizer = torch.optim.Adam(model.parameters(), fused=True)
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in held_out:
            error = nn.functional.mse_loss(model(x.to(device)), y.to(device))
