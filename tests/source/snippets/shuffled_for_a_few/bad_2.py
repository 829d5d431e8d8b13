import numpy as np
import torch

for step in range(1000):
    batch = images[torch.randperm(len(images))[:64]]  # found: shuffled_for_a_few
    rows = np.random.permutation(len(images))[:16]  # found: shuffled_for_a_few
    loss = model(batch, rows).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
