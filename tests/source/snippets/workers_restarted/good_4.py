import argparse

from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--threads", "-j", default=0)
options = parser.parse_args()
loader = DataLoader(data, 32, num_workers=options.workers)
second = DataLoader(data, 32, num_workers=options.threads)
