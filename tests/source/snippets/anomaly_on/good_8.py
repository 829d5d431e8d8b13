import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--check", action="store_true")
args = parser.parse_args()
torch.autograd.set_detect_anomaly(args.check)
if args.check:
    torch.autograd.set_detect_anomaly(True)
