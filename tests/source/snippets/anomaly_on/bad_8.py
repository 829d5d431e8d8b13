import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--check", default=True)
args = parser.parse_args()
torch.autograd.set_detect_anomaly(args.check)  # found: anomaly_on
if args.check:
    torch.autograd.set_detect_anomaly(True)  # found: anomaly_on
