import numpy as np
import torch


def prioritised(weights, model, optimizer):
    for step in range(1000):
        at = np.random.choice(len(weights), 64, replace=False, p=weights)
        halves = torch.randperm(64).chunk(2)
        loss = model(at, halves).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
