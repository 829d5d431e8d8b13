import numpy as np
import torch


def train(model, kept, optimizer, steps):
    for _ in range(steps):
        states = torch.stack([one.state for one in kept])  # found: stacked_for_a_few
        drawn = np.random.choice(len(kept), 64)
        loss = model(states[drawn]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def sample(kept, n):
    return np.array(kept)[np.random.randint(len(kept), size=n)]  # found: stacked_for_a_few
