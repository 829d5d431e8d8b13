"""A list of optimizers: SparseAdam for the embedding, Adam for everything else."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(500, 16, sparse=True)
        self.head = nn.Linear(16, 4)

    def forward(self, words):
        return self.head(self.embedding(words))


torch.manual_seed(21)
model = Tagger()
optimizers = [
    torch.optim.SparseAdam(model.embedding.parameters(), lr=1e-2),
    torch.optim.Adam(model.head.parameters(), lr=1e-2),
]
words = torch.randint(0, 500, (256, 6))
labels = words[:, 0] % 4

for step in range(16):
    batch = slice(16 * step, 16 * step + 16)
    loss = nn.functional.cross_entropy(model(words[batch]), labels[batch])
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

print("done")
