import torch


def main(model, loader, optimizer, criterion):
    for epoch in range(10):
        for x, y in loader:
            with torch.autograd.profiler.profile(use_cuda=True) as prof:  # found: profiler_on
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        print(prof)
