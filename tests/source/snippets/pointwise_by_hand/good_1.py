import torch
import torch.nn.functional as F
from torch import nn


@torch.compile
def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421))


@torch.jit.script
def swish(x):
    return x * torch.sigmoid(x)


def gate(x, y):
    return x * torch.sigmoid(y)


def norm(x, layer):
    return F.layer_norm(F.gelu(F.silu(x)), layer.shape)
