import torch


def setup(args):
    if args.seed is not None:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    else:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.deterministic = False
