import os

import torch


def write_shard(samples, path):
    for sample in samples:
        with open(path, "ab") as file:
            torch.save(sample, file)
            os.fsync(file.fileno())
