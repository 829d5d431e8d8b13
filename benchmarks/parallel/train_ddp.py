"""A small DDP training as people write it: wide search for unused parameters, plain AdamW.

torchrun --nproc-per-node 2 train_ddp.py [--steps N]
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WARM_UP = 20


def block(width: int) -> nn.Module:
    """One of many small layers."""
    return nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())


def network(width: int, depth: int) -> nn.Module:
    """Classify 32 features into 4."""
    body = [block(width) for _ in range(depth)]
    return nn.Sequential(nn.Linear(32, width), *body, nn.Linear(width, 4))


def main(steps: int) -> None:
    """Train; the first rank prints the seconds of a step at the end."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(2048, 32)
    data = TensorDataset(inputs, inputs[:, :4].argmax(1))
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(network(96, 24), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    done, epoch, begin = 0, 0, time.perf_counter()
    while done < steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for features, labels in loader:
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == WARM_UP:
                begin = time.perf_counter()
            if done == steps:
                break
    if dist.get_rank() == 0:
        seconds = (time.perf_counter() - begin) / max(1, steps - WARM_UP)
        print(f"step {seconds:.6f} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20_000)
    main(parser.parse_args().steps)
