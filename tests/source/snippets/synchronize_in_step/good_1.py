import time

import torch


def benchmark(model, loader, optimizer):
    """Timing needs the device to be done."""
    for x in loader:
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        torch.cuda.synchronize()
        print(time.perf_counter() - start)
