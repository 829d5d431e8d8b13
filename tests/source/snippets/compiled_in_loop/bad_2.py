import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        block = torch.compile(self.block)  # found: compiled_in_loop
        return block(x)


def train_step(model, x, optimizer):
    loss = torch.compile(model)(x).sum()  # found: compiled_in_loop
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main(model, loader, optimizer):
    for x in loader:
        train_step(model, x, optimizer)
