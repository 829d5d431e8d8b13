import random

import numpy as np
import torch

rng = np.random.default_rng(0)
order = torch.randperm(len(images))
test = torch.randperm(len(images))[:100]
for step in range(1000):
    batch = images[order[step * 64 : (step + 1) * 64]]
    some = random.sample(range(len(images)), 16)
    others = rng.choice(len(images), 16, replace=False)
    drawn = np.random.choice(len(images), 16)
    loss = model(batch, some, others, drawn).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
