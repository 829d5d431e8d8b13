import torch
import torch.nn.functional as F
from torch import nn


def euclidean(x, y):
    n, m, d = x.size(0), y.size(0), x.size(1)
    x = x.unsqueeze(1).expand(n, m, d)
    y = y.unsqueeze(0).expand(n, m, d)
    return torch.pow(x - y, 2).sum(2)  # found: pairs_by_broadcast


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.similarity = nn.CosineSimilarity(dim=2)

    def forward(self, z):
        other = F.cosine_similarity(z[:, None], z[None], dim=-1)  # found: pairs_by_broadcast
        return self.similarity(z.unsqueeze(1), z.unsqueeze(0)) + other  # found: pairs_by_broadcast
