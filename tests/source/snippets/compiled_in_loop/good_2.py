import re

import torch


def main(model, loader, optimizer):
    compiled = None
    for x in loader:
        if compiled is None:
            compiled = torch.compile(model)
        word = re.compile("x")
        optimizer.zero_grad()
        compiled(x).sum().backward()
        optimizer.step()


class Net(torch.nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = torch.compile(block)

    def forward(self, x):
        return self.block(x)
