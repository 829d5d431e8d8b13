import numpy as np
import torch


def project(x, k):
    result = torch.linalg.svd(x, full_matrices=True)  # found: full_factors
    return result.U[..., :k] * result.S[..., None, :k]


def basis(x, k):
    q, r = torch.linalg.qr(x, mode="complete")  # found: full_factors
    return q[:, :k]


def whiten(x, k):
    _, s, vh = np.linalg.svd(x)  # found: full_factors
    return torch.as_tensor(vh[:k] / s[:k, None])
