"""The twin of eval_with_grad: the same validation, without gradients."""

import argparse

import torch
from torch import nn


@torch.no_grad()
def validate(model, images, labels):
    model.eval()
    total = 0.0
    for x, y in zip(images.split(64), labels.split(64), strict=True):
        logits = model(x)
        total += nn.functional.cross_entropy(logits, y)
    model.train()
    return total / len(images.split(64))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()
    torch.manual_seed(0)
    images, labels = torch.randn(1024, 3, 32, 32), torch.randint(0, 10, (1024,))
    held_images, held_labels = images[:512].flip(-1), labels[:512]
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2),
        nn.BatchNorm2d(16), nn.Sigmoid(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        chosen = slice(32 * (step % 32), 32 * (step % 32) + 32)
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 4 == 0:
            held = validate(model, held_images, held_labels)
            print(f"step {step + 1} loss {loss.item():.4f} held out {held.item():.4f}")


if __name__ == "__main__":
    main()
