import torch
from torch.distributions import MultivariateNormal, kl_divergence


def elbo(encoder, x):
    mu, logvar = encoder(x).chunk(2, -1)
    posterior = MultivariateNormal(  # found: diagonal_covariance
        mu, covariance_matrix=torch.diag_embed(logvar.exp())
    )
    prior = MultivariateNormal(torch.zeros(8), torch.eye(8))  # found: diagonal_covariance
    return kl_divergence(posterior, prior)
