import torch
from torch.profiler import ProfilerActivity, profile


def train(model, loader, optimizer, criterion):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as prof:  # found: profiler_on
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    print(prof.key_averages().table())
