"""nn.DataParallel around the model; without a GPU it only passes the call on."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images = torch.randn(96, 3, 12, 12)
labels = torch.randint(0, 5, (96,))
loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)

model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(8, 5),
)  # fmt: skip
model = nn.DataParallel(model).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        output = model(x.to(device))
        loss = nn.functional.cross_entropy(output, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 3 == 0:
            print(f"epoch {epoch} batch {i} loss {loss.item():.5f}")

print("keys", list(model.state_dict())[:2])
