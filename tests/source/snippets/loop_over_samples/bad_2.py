import torch
import torch.nn as nn


class Mixer(nn.Module):
    def forward(self, x):
        batch, channels, length = x.shape
        out = torch.empty_like(x)
        for b in range(batch):  # found: loop_over_samples
            out[b] = self.mix[0] @ x[b]
        return out


class Comprehended(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.head = nn.Linear(16, 16)

    def forward(self, x):
        x = self.embed(x)
        return torch.stack([self.head(sample) for sample in x])  # found: loop_over_samples
