import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=4)
args = parser.parse_args()
kwargs = {"num_workers": args.workers, "persistent_workers": False}
loader = torch.utils.data.DataLoader(dataset, batch_size=8, **kwargs)  # found: workers_restarted
