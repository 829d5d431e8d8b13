import torch
from torch import cuda


def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        cuda.current_stream().synchronize()  # found: synchronize_in_step
        torch.accelerator.synchronize()  # found: synchronize_in_step
