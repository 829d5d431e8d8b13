import collections

import numpy as np
import torch

LONGEST = 100_000
buffer = collections.deque(maxlen=LONGEST)
for step in range(10_000):
    buffer.append(env.step(model(state)))
    picked = np.random.randint(len(buffer), size=64)
    batch = torch.stack([buffer[i] for i in picked])  # found: drawn_from_deque
    loss = model(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
