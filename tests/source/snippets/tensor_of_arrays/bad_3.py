import numpy as np
import torch


class Buffer:
    def __init__(self):
        self.states = []
        self.rewards = []

    def add(self, state, reward):
        self.states.append(np.array(state, dtype=np.float32))
        self.rewards.append(reward)

    def sample(self):
        return torch.as_tensor(self.states), torch.tensor(self.rewards)  # found: tensor_of_arrays
