import numpy as np
import torch
from torch import nn


class Transform(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("identity", torch.from_numpy(np.eye(3, dtype=np.float32)))

    def forward(self, x):
        return x + self.identity + torch.eye(3, device=x.device)
