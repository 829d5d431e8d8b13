import numpy as np
import torch


def values(w):
    return torch.linalg.svdvals(w).sum()


def whiten(x):
    values, vectors = torch.linalg.eigh(x.T @ x)
    return x @ vectors / values.sqrt()


def spectrum(x):
    s = np.linalg.svd(x, compute_uv=False)
    return torch.as_tensor(s)


def both(x):
    result = torch.linalg.svd(x)
    print(result)
    return result.S
