import torch


def condition(hessian):
    values, vectors = torch.linalg.eigh(hessian)  # found: unused_vectors
    return values[-1] / values[0]


def effective_rank(x):
    s = torch.linalg.svd(x).S  # found: unused_vectors
    p = s / s.sum()
    return -(p * p.log()).sum().exp()
