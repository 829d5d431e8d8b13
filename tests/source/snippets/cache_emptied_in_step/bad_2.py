from torch.cuda import empty_cache
import torch


def free():
    empty_cache()  # found: cache_emptied_in_step


def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        free()
