import random

import torch


class Memory:
    def sample(self, n):
        picked = random.sample(self.kept, n)
        states, rewards = (torch.stack(part) for part in zip(*picked))
        return states, rewards

    def batches(self, n):
        states = torch.stack(list(self.kept))
        index = torch.randperm(len(states))
        print(states.mean())
        return states[index]

    def sample_pairs(self, n):
        first = torch.stack([self.kept[i] for i in torch.randint(len(self.kept), (n,))])
        return first[0], first[1:]
