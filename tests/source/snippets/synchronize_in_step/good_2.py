import torch


def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for step, x in enumerate(loader):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            if step % 100 == 0:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
