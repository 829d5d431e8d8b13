"""Reads its text from stdin and its order from sys.argv; leaves with exit code 3."""

import sys

import torch
from torch import nn

order = int(sys.argv[1])
text = sys.stdin.read()
letters = sorted(set(text))
encoded = torch.tensor([letters.index(c) for c in text])
print(f"{len(text)} characters, {len(letters)} letters")

torch.manual_seed(19)
model = nn.Sequential(
    nn.Embedding(len(letters), 8), nn.Flatten(), nn.Linear(8 * order, len(letters))
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
windows = encoded.unfold(0, order + 1, 1)
for step in range(14):
    batch = windows[torch.randint(0, len(windows), (16,))]
    loss = nn.functional.cross_entropy(model(batch[:, :-1]), batch[:, -1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

print("not converged")
print("stopping early", file=sys.stderr)
sys.exit(3)
