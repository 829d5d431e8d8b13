import torch
from torch import nn

mask = torch.ones(512, 512).tril().to(device)
anchors = torch.arange(0, 256, 16).cuda()


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.positions = torch.arange(size).to("cuda")
        self.register_buffer("mask", torch.zeros(size, size).to("cuda"))


def fixed_noise(batch):
    return torch.randn(batch, 100, 1, 1).to(device)


sample = fixed_noise(64)
