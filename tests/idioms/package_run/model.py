from torch import nn


def build(width):
    return nn.Sequential(nn.Linear(9, width), nn.SiLU(), nn.Linear(width, 1))
