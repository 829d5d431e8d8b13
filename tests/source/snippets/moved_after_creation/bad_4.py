import numpy as np
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, x):
        n = x.size(1)
        mask = torch.from_numpy(np.triu(np.ones((n, n)), k=1) == 0).to(x.device)  # found: moved_after_creation
        return self.attend(x, mask)


class Decoder(nn.Module):
    def forward(self, x):
        shape = (1, x.size(1), x.size(1))
        mask = torch.from_numpy(1 - np.triu(np.ones(shape), k=1).astype("uint8")).cuda()  # found: moved_after_creation
        return self.attend(x, mask)


for x, y in loader:
    optimizer.zero_grad()
    (Decoder()(Attention()(x)) - y).sum().backward()
    optimizer.step()
