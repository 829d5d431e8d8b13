import numpy as np
import torch


def prioritised(weights, model, optimizer):
    for step in range(1000):
        at = np.random.choice(len(weights), 64, replace=False, p=weights)
        patches = torch.randperm(196)[:49]
        halves = torch.randperm(64).chunk(2)
        loss = model(at, halves, patches).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
