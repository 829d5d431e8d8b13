import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        if x.size(0) > 1 and x.shape[1] == 3 and x.dim() == 4:
            x = self.norm(x)
        if self.training and x.requires_grad and not x.is_cuda:
            x = self.drop(x)
        out = self.head(x)
        if isinstance(out, tuple):
            out = out[0]
        return torch.where(out > 0, out, -out)
