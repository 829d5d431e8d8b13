import torch
from torch.autograd import gradcheck


def train(model, loader, optimizer, function):
    for x, y in loader:
        assert gradcheck(function, (x.double().requires_grad_(),))  # found: gradcheck_left
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
