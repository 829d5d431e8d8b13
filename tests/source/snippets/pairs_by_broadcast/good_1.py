import torch
import torch.nn.functional as F


def fine(x, y, weights):
    pooled = (weights.unsqueeze(-1) * x).sum(1)
    lengths = (x * x).sum(-1)
    distances = torch.cdist(x, y) ** 2
    errors = (x[:, None] - y[None]).abs() < 1e-3
    return pooled, lengths, distances, errors, x @ y.T, (x[:, None] * y[None]).sum()


def of_rows(x, y, mean):
    of_one = F.cosine_similarity(x, y.unsqueeze(0), dim=-1)
    return of_one, F.pairwise_distance(x, y), ((x - mean.expand_as(x)) ** 2).sum(-1)
