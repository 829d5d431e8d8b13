import torch


def posterior(kernel, cross, noise, targets):
    noisy = kernel + noise * torch.eye(len(kernel))
    inverted = torch.linalg.inv(noisy)  # found: multiplied_inverse
    mean = cross.T @ inverted @ targets
    spread = torch.einsum("ij,jk,ki->i", cross.T, inverted, cross)
    return mean, spread
