"""A script without functions: training, validation, accumulation and clipping in one loop."""

import sys

import numpy as np
import torch
from torch import nn, optim
from torch.utils import data

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
ACCUMULATE = 2


class Moons(data.Dataset):
    def __init__(self, count, seed):
        draw = np.random.default_rng(seed)
        self.labels = draw.integers(0, 2, count)
        turns = draw.uniform(0, np.pi, count)
        self.points = np.stack([np.cos(turns), np.sin(turns)], 1) * (1 - 2 * self.labels[:, None])
        self.points += 0.5 * self.labels[:, None] + draw.normal(0, 0.1, (count, 2))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        point = np.concatenate([self.points[index] ** k for k in range(1, 17)])
        point = point.astype(np.float32)
        return torch.tensor(point), self.labels[index]


torch.manual_seed(0)
train_loader = data.DataLoader(Moons(512, 0), batch_size=32, shuffle=True)
valid_loader = data.DataLoader(Moons(512, 1), batch_size=64)
model = nn.Sequential(
    nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
)
criterion = nn.CrossEntropyLoss()
optimizer = optim.AdamW(model.parameters(), lr=3e-3)

for epoch in range(EPOCHS):
    model.train()
    for index, (points, labels) in enumerate(train_loader):
        # the forward pass
        outputs = model(points)
        loss = criterion(outputs, labels) / ACCUMULATE
        loss.backward()
        if (index + 1) % ACCUMULATE == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    model.eval()
    correct = 0
    for points, labels in valid_loader:
        outputs = model(points)
        correct += (outputs.argmax(1) == labels).sum().item()
    print(epoch, correct / 512)
