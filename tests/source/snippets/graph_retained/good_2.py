"""Part of the graph is older than the step: a state, a sum, an embedding, a model's own memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRUCell(64, 64)
        self.state = None

    def forward(self, x):
        self.state = self.gru(x, self.state)
        return self.state


loader = DataLoader(train_set, batch_size=64, num_workers=2)
model = Remembers()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    opt.zero_grad()
    nn.functional.mse_loss(model(x), y).backward(retain_graph=True)
    opt.step()
