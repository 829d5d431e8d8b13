"""A two-headed model that returns a dict; the criterion takes it apart."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(9)
        self.x = torch.randn(count, 10, generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x = self.x[index]
        return {"x": x, "label": (x[0] > 0).long(), "box": x[:4] * 0.5}


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(10, 32)
        self.label = nn.Linear(32, 2)
        self.box = nn.Linear(32, 4)

    def forward(self, x):
        hidden = torch.relu(self.trunk(x))
        return {"label": self.label(hidden), "box": self.box(hidden)}


def criterion(outputs, batch):
    return {
        "label": nn.functional.cross_entropy(outputs["label"], batch["label"]),
        "box": nn.functional.l1_loss(outputs["box"], batch["box"]),
    }


torch.manual_seed(9)
model = TwoHeads()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for batch in DataLoader(Shapes(80), batch_size=16):
        losses = criterion(model(batch["x"]), batch)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    print(epoch, {name: f"{value.item():.5f}" for name, value in losses.items()})

print("total", f"{total.item():.5f}")
