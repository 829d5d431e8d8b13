"""bfloat16 autocast on the CPU, written by the user."""

import torch
from torch import nn

torch.manual_seed(12)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(128, 16)
y = x[:, :4].argmax(1)

for step in range(14):
    batch = torch.randint(0, 128, (32,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(x[batch])
        loss = nn.functional.cross_entropy(output, y[batch])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(f"step {step} {output.dtype} loss {loss.item():.4f}")

print("done")
