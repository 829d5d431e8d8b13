import torch
from torch.distributions import MultivariateNormal


def mixture(mu, factors, variances, low_rank):
    noise = torch.diag_embed(variances)
    cov = factors @ factors.mT + noise
    return MultivariateNormal(mu, cov), MultivariateNormal(mu, covariance_matrix=low_rank)
