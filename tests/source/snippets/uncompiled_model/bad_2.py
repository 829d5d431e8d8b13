import torch
from torch import nn


class Trainer:
    def __init__(self, device):
        self.net = nn.Linear(8, 8).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), fused=True)

    def fit(self, batches):
        for x, y in batches:  # found: uncompiled_model
            loss = nn.functional.mse_loss(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
