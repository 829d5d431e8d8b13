import torch
import torch.distributions as D
from torch import nn


class Policy(nn.Module):
    def __init__(self, width, actions):
        super().__init__()
        self.net = nn.Linear(width, actions)
        self.cov_var = torch.full((actions,), 0.5)
        self.cov_mat = torch.diag(self.cov_var)

    def act(self, state):
        return D.MultivariateNormal(self.net(state), self.cov_mat).sample()  # found: diagonal_covariance

    def spread(self, state, scale):
        factor = scale.exp().diag_embed()
        return D.multivariate_normal.MultivariateNormal(  # found: diagonal_covariance
            self.net(state), scale_tril=factor
        )

    def wide(self, state, scale):
        noise = scale * torch.eye(4).to(state.device)
        return D.MultivariateNormal(self.net(state), noise + 1e-4 * torch.eye(4))  # found: diagonal_covariance
