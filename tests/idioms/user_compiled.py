"""The user has compiled the model already (eager backend, to be quick)."""

import torch
from torch import nn

torch.manual_seed(13)
model = nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 5))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.Adam(compiled.parameters(), lr=3e-3)
x = torch.randn(64, 20)
y = torch.randint(0, 5, (64,))

for step in range(12):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(compiled(x), y)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

print(type(compiled).__name__)
