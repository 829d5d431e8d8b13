import torch
from torch import nn


class Recurrent(nn.Module):
    def forward(self, x, hidden):
        """x: (time, batch, features)."""
        outputs = []
        for t in range(x.size(0)):
            hidden = self.cell(x[t], hidden)
            outputs.append(hidden)
        return torch.stack(outputs)


class Steps(nn.Module):
    def forward(self, x):
        return torch.stack([self.head(x[:, t]) for t in range(x.size(1))])


class Layers(nn.Module):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for i in range(self.depth):
            x = self.blocks[i](x)
        return x
