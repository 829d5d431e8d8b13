import torch


def collate(samples):
    return torch.tensor([s[0] for s in samples]), torch.tensor(samples[0][1].tolist())  # found: tensor_of_lists, tensor_of_tolist
