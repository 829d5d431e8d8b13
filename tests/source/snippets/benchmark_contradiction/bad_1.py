import torch

torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = True  # found: benchmark_contradiction
