import torch

torch.autograd.set_detect_anomaly(False)


def main(args):
    torch.autograd.set_detect_anomaly(args.debug)
    if args.detect_nan:
        torch.autograd.set_detect_anomaly(True)
    with torch.autograd.set_detect_anomaly(args.debug):
        train(args)
