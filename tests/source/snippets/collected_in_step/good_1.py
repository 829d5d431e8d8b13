import gc

import torch


def train(model, loader, optimizer, epochs):
    gc.disable()
    for epoch in range(epochs):
        gc.collect()
        for step, x in enumerate(loader):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            if step % 1000 == 0:
                gc.collect(1)
