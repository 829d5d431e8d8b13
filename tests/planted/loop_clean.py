"""Nothing planted: averages, clipping, logging, checkpoints and history, done with care."""

import argparse
import copy
import io

import torch
from torch import nn


@torch.no_grad()
def average(shadow, weights, decay=0.999):
    torch._foreach_lerp_(shadow, weights, 1.0 - decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    torch.manual_seed(0)
    images = torch.randint(0, 256, (1024, 1, 16, 16)).float()
    images = (images - images.mean()) / images.std()
    labels = torch.randint(0, 10, (1024,))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    weights = list(model.parameters())
    shadow = list(copy.deepcopy(model).parameters())
    optimizer = torch.optim.AdamW(weights, lr=1e-3, fused=True)
    running, outputs = torch.zeros(()), []
    for step in range(args.steps):
        index = torch.randint(0, 1024, (256,))
        output = model(images[index])
        loss = nn.functional.cross_entropy(output, labels[index])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        average(shadow, weights)
        running += loss.detach()
        outputs = [*outputs[-3:], output.detach()]
        if (step + 1) % 500 == 0:
            torch.save(model.state_dict(), io.BytesIO())
            print(f"step {step + 1} mean loss {running.item() / (step + 1):.4f}")


if __name__ == "__main__":
    main()
