import torch
from torch import nn, Tensor


class Detector(nn.Module):
    def forward(self, images: list[Tensor], targets=None):
        return [self.normalise(image) for image in images]


class Pyramid(nn.Module):
    def forward(self, features):
        return [head(x) for head, x in zip(self.heads, features)]


class Ragged(nn.Module):
    def forward(self, x, lengths):
        """Each sample has its own length."""
        pooled = []
        for i in range(x.size(0)):
            pooled.append(x[i, : lengths[i]].mean(0))
        return torch.stack(pooled)


def show(batch):
    for i in range(batch.shape[0]):
        print(batch[i].sum())
