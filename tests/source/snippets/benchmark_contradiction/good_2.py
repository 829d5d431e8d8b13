import torch


def fast():
    torch.backends.cudnn.benchmark = True


def reproducible(seed):
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True


torch.backends.cudnn.enabled = True
