import torch


def kernels(x, y, centres):
    difference = x.unsqueeze(1) - y.unsqueeze(0)
    gauss = torch.exp(-(difference**2).sum(-1))  # found: pairs_by_broadcast
    laplace = torch.exp(-torch.norm(x[:, None, :] - y[None, :, :], dim=-1))  # found: pairs_by_broadcast
    nearest = (x[:, None] - centres[None]).pow(2).sum(dim=-1).argmin(1)  # found: pairs_by_broadcast
    return gauss, laplace, nearest, torch.sum(x[:, None] * y[None], 2)  # found: pairs_by_broadcast
