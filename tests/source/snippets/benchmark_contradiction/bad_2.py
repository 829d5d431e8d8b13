import torch
from torch.backends import cudnn


def setup():
    torch.use_deterministic_algorithms(True)
    cudnn.benchmark = True  # found: benchmark_contradiction
