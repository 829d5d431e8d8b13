import random
from collections import deque

import torch

losses = deque(maxlen=100_000)
recent = deque(maxlen=100_000)
memory = []
for step in range(10_000):
    transition = env.step(model(state))
    if len(memory) < 100_000:
        memory.append(transition)
    else:
        memory[step % 100_000] = transition
    recent.append(transition)
    newest, oldest = recent[-1], recent[0]
    batch = torch.stack(random.sample(memory, 64))
    others = [memory[i] for i in range(64)]
    loss = model(batch, newest, oldest, others).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
