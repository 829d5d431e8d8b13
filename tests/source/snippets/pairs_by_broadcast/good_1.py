import torch


def fine(x, y, weights):
    pooled = (weights.unsqueeze(-1) * x).sum(1)
    lengths = (x * x).sum(-1)
    distances = torch.cdist(x, y) ** 2
    errors = (x[:, None] - y[None]).abs() < 1e-3
    return pooled, lengths, distances, errors, x @ y.T, (x[:, None] * y[None]).sum()
