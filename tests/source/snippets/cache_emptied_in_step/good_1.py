import torch


def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for step, x in enumerate(loader):
            try:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
            if step % 1000 == 0:
                torch.cuda.empty_cache()
        torch.cuda.empty_cache()
