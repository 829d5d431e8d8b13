import torch


def main(args):
    torch.backends.cudnn.enabled = True
    torch.backends.cudnn.enabled = not args.no_cudnn
    if args.no_cudnn:
        torch.backends.cudnn.enabled = False
    with torch.backends.cudnn.flags(enabled=False):
        double_backward(args)
