import torch


def negative_log_likelihood(kernel, y):
    weights = torch.linalg.solve(kernel, y)
    return y @ weights + torch.linalg.slogdet(kernel)[1]  # found: factored_twice
