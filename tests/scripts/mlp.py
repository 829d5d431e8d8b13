"""A small MLP loop; `--sleep` plants a slow-down, `--steps` ends it, `--fail-at` breaks it.

`--slow-down` goes by CPU time: a step that waits for its turn in a race is no longer for it. Where
a sleep lasts longer than it was asked to, as on a virtual machine, the next ones are shorter.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--sleep", type=float, default=0.0, help="seconds a step")
parser.add_argument("--slow-down", type=float, default=0.0, help="share of its own step to sleep")
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument("--fail-at", type=int, default=-1)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--light", action="store_true", help="start in half the time")
arguments = parser.parse_args()
torch.set_num_threads(arguments.threads)

torch.manual_seed(0)
data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 10, (4096,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, arguments.width), nn.ReLU(), nn.Linear(arguments.width, 10))
if arguments.light:
    from light import SGD

    optimizer = SGD(model.parameters(), lr=0.01)
else:
    optimizer = torch.optim.Adam(model.parameters())


def batches():
    while True:
        yield from loader


owed = 0.0
for step, (x, y) in enumerate(batches()):
    begin = time.process_time()
    if step == arguments.steps:
        break
    if step == arguments.fail_at:
        raise RuntimeError("planted failure")
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    owed += arguments.sleep + arguments.slow_down * (time.process_time() - begin)
    if owed > 0:
        asleep = time.perf_counter()
        time.sleep(owed)
        owed -= time.perf_counter() - asleep
print(f"done after {step} steps, loss {loss.item():.6f}")
