import torch
from torch.distributions import Independent, MultivariateNormal, Normal


def densities(mu, std, factor, kernel, points):
    prior = Independent(Normal(mu, std), 1)
    learned = MultivariateNormal(mu, scale_tril=factor.tril())
    process = MultivariateNormal(mu, kernel(points) + 1e-4 * torch.eye(len(points)))
    return prior, learned, process
