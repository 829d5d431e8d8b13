import torch


def reduced(x, k):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return u[:, :k] * s[:k] @ vh[:k]


def rotation(a, b):
    u, s, vh = torch.linalg.svd(a.T @ b)
    return u @ vh


def null_space(x, k):
    _, s, vh = torch.linalg.svd(x)
    return vh[-1], vh[:k]


def rest(x, k):
    u, s, vh = torch.linalg.svd(x)
    return u[:, k:], vh[:k]


def kept(self, x):
    self.u, s, vh = torch.linalg.svd(x)
    return vh[:3]


def given(x):
    return torch.linalg.svd(x)


def qr(x, k):
    q, r = torch.linalg.qr(x)
    return q[:, :k]
