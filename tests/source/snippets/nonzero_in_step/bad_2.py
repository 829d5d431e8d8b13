import torch
from torch import nn


class Head(nn.Module):
    def forward(self, scores):
        index = torch.where(scores > 0.5)  # found: nonzero_in_step
        picked = torch.argwhere(scores > 0.5)  # found: nonzero_in_step
        return scores[index], picked
