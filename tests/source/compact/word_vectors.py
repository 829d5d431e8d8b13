"""Word vectors: text parsed for each sample, sparse gradients, sizes by default arguments."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, path, ids):
        self.file, self.ids = open(path), ids

    def __len__(self):
        return 10000

    def __getitem__(self, i):
        words = self.file.readline().split()
        return [self.ids[w] for w in words if w in self.ids]  # found: heavy_getitem

    @staticmethod
    def collate(batches):
        rows = [u for batch in batches for u in batch]
        return torch.LongTensor(rows)  # found: tensor_of_lists


class SkipGram(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.u = nn.Embedding(words, width, sparse=True)  # found: odd_dimension

    def forward(self, rows):
        return -F.logsigmoid(self.u(rows).sum(1)).mean()


class Trainer:
    def __init__(self, path, width=100, batch_size=32, rounds=3):
        self.data = Windows(path, ids)
        self.loader = DataLoader(self.data, batch_size=batch_size, num_workers=0, collate_fn=self.data.collate)  # found: serial_loader, unpinned_loader
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = SkipGram(len(ids), width).to(self.device)
        self.rounds = rounds

    def train(self):
        running = 0.0
        for _ in range(self.rounds):
            optimizer = optim.SparseAdam(self.model.parameters(), lr=1e-3)
            scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, len(self.loader))
            for rows in self.loader:  # found: full_precision_training, uncompiled_model
                rows = rows.to(self.device)  # found: pageable_copy
                optimizer.zero_grad()
                loss = self.model(rows)
                loss.backward()
                optimizer.step()
                scheduler.step()
                running = running * 0.9 + loss.item() * 0.1  # found: item_in_step


Trainer("words.txt").train()
