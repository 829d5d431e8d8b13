import torch


def spectral_penalty(weights):
    total = 0.0
    for w in weights:
        _, s, _ = torch.linalg.svd(w, full_matrices=False)  # found: unused_vectors
        total = total + s.max()
    return total


def nuclear(w):
    return torch.svd(w)[1].sum()  # found: unused_vectors
