import random
from collections import deque

import torch


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, transition):
        self.memory.append(transition)

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)  # found: drawn_from_deque


memory = ReplayMemory(200_000)
for step in range(1000):
    batch = torch.stack(memory.sample(128))
    loss = model(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
