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


class Levels(nn.Module):
    """The backbone returns a feature map for each level."""

    def __init__(self, backbone, convs):
        super().__init__()
        self.backbone = backbone
        self.convs = convs

    def forward(self, x):
        features = self.backbone(x)
        sources = [self.convs[level](f) for level, f in enumerate(features)]
        pooled = []
        for feature in features:
            pooled.append(torch.amax(feature, (2, 3)))
        return sources, pooled
