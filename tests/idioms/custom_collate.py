"""A sampler and a collate function of one's own; batches are dicts moved entry by entry."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Sentences(Dataset):
    def __init__(self, count):
        rng = np.random.default_rng(24)
        self.items = [rng.integers(1, 40, size=rng.integers(2, 12)) for _ in range(count)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        ids = self.items[index]
        return {"ids": ids, "label": int(ids.sum() % 2)}


class ByLength(Sampler):
    def __init__(self, dataset):
        self.order = sorted(range(len(dataset)), key=lambda i: len(dataset.items[i]))

    def __len__(self):
        return len(self.order)

    def __iter__(self):
        return iter(self.order)


def collate(samples):
    longest = max(len(s["ids"]) for s in samples)
    ids = np.zeros((len(samples), longest), dtype=np.int64)
    for row, sample in zip(ids, samples, strict=True):
        row[: len(sample["ids"])] = sample["ids"]
    labels = torch.tensor([s["label"] for s in samples])
    return {"ids": torch.tensor(ids), "mask": torch.tensor(ids != 0), "labels": labels}


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, ids, mask):
        weights = mask.unsqueeze(-1).float()
        return self.head((self.embedding(ids) * weights).sum(1) / weights.sum(1))


torch.manual_seed(24)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dataset = Sentences(96)
loader = DataLoader(dataset, batch_size=12, sampler=ByLength(dataset), collate_fn=collate)
model = Bag().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(2):
    for cpu_batch in loader:
        batch = {name: value.to(device) for name, value in cpu_batch.items()}
        loss = nn.functional.cross_entropy(model(batch["ids"], batch["mask"]), batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch} shape {tuple(batch['ids'].shape)} loss {loss.item():.5f}")

print("done")
