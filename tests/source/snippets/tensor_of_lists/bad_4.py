import random

import torch
from torch.utils.data import Dataset


class ReplayBuffer:
    def __init__(self, size, device):
        self.buffer, self.device = [], device

    def sample_batch(self, size):
        batch = random.sample(self.buffer, size)
        rewards = torch.tensor([b[2] for b in batch], device=self.device)  # found: tensor_of_lists
        return rewards.unsqueeze(1)


def labels_of(text):
    found = list()
    for word in text.split():
        found.append(len(word))
    return found


class Lines(Dataset):
    def __getitem__(self, index):
        target = labels_of(self.lines[index])
        return torch.IntTensor(target)  # found: tensor_of_lists

    def __len__(self):
        return len(self.lines)
