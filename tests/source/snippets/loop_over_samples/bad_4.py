import torch
from torch import nn

class PerSample(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)
    def forward(self, batch):
        return torch.stack([self._one(s) for s in batch])  # found: loop_over_samples
    def _one(self, s):
        return self.lin(s).relu()

class PerSample2(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)
    def forward(self, x):
        outs = []
        for sample in x:  # found: loop_over_samples
            outs.append(self.lin(sample.unsqueeze(0)))
        return torch.cat(outs, 0)

class PerSample3(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
    def forward(self, x):
        out = torch.zeros(x.size(0), 8)
        bs = len(x)
        for i in range(bs):  # found: loop_over_samples
            h = torch.mv(self.weight, x[i])
            h = torch.relu(h)
            out[i] = h
        return out

