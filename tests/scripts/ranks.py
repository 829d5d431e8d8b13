"""Two DDP ranks, forked by this script or started by torchrun.

`--uneven`: the second rank ends sooner, and joins. `--daemon`: the first rank is the parent, the
second one its daemonic child, which is the later one in every step.
`--port`: where forked ranks meet.
"""

import argparse
import gc
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def forked(rank, options, port):
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    train(options)


def train(options):
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    inputs = torch.randn(64, 32)
    layers = [nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(options.depth)]
    model = DistributedDataParallel(nn.Sequential(*layers), find_unused_parameters=options.search)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    steps = options.steps - (20 if options.uneven and rank else 0)
    with Join([model], enable=options.uneven):
        for _ in range(steps):
            loss = (model(inputs) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            time.sleep(0.2 if options.daemon and rank else 0.0)
            optimizer.step()
            time.sleep(options.sleep)
    if rank == 0:
        print(f"loss {loss.item():.5f}", flush=True)
    del model, optimizer
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
    gc.collect()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        train(given)
    elif given.daemon:
        port = free_port()
        child = mp.get_context("spawn").Process(target=forked, args=(1, given, port), daemon=True)
        child.start()
        forked(0, given, port)
        child.join()
    else:
        port = given.port or free_port()
        mp.start_processes(forked, args=(given, port), nprocs=2, start_method="fork")
