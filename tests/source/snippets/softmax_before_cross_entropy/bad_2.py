import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    outputs = model(x)
    loss = nn.functional.cross_entropy(outputs, y)  # found: softmax_before_cross_entropy
    loss.backward()
    optimizer.step()
