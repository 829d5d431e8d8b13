"""LBFGS: the optimizer calls the closure as often as it likes."""

import torch
from torch import nn

torch.manual_seed(2)
x = torch.linspace(-2, 2, 100).unsqueeze(1)
y = torch.sin(2 * x)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
calls = 0


def closure():
    global calls  # noqa: PLW0603
    calls += 1
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(10):
    loss = optimizer.step(closure)
    print(f"step {step}: loss {loss.item():.5f}")

print("closure calls", calls)
