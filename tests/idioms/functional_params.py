"""No nn.Module at all: plain tensors that require gradients, and an optimizer."""

import torch
from torch.nn import functional

torch.manual_seed(14)
w1 = (torch.randn(8, 32) / 8**0.5).requires_grad_()
b1 = torch.zeros(32, requires_grad=True)
w2 = (torch.randn(32, 3) / 32**0.5).requires_grad_()
b2 = torch.zeros(3, requires_grad=True)
params = [w1, b1, w2, b2]
optimizer = torch.optim.RMSprop(params, lr=1e-2)


def forward(x):
    return torch.tanh(x @ w1 + b1) @ w2 + b2


x = torch.randn(120, 8)
y = x[:, :3].argmin(1)
for step in range(15):
    start = 8 * (step % 15)
    loss = functional.cross_entropy(forward(x[start : start + 8]), y[start : start + 8])
    for p in params:
        p.grad = None
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")

print("accuracy", f"{(forward(x).argmax(1) == y).float().mean().item():.4f}")
