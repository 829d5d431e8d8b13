import math

import torch


def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))  # found: pointwise_by_hand


def swish(x):
    return x * x.sigmoid()  # found: pointwise_by_hand


def mish(x):
    return x * torch.tanh(torch.nn.functional.softplus(x))  # found: pointwise_by_hand
