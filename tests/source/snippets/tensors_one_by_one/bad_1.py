import random

import torch


def train(model, memory, optimizer, device):
    for _ in range(1000):
        batch = random.sample(memory, 64)
        states = torch.stack([torch.tensor(t.state).to(device) for t in batch])  # found: tensors_one_by_one
        rewards = torch.cat([torch.FloatTensor([t.reward]) for t in batch])  # found: tensors_one_by_one
        loss = (model(states).squeeze() - rewards).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
