"""Nothing planted: in-memory tensors, big enough steps, no_grad, rare prints, fused optimizer."""

import argparse

import torch
from torch import nn


@torch.inference_mode()
def accuracy(model, x, y):
    model.eval()
    correct = (model(x).argmax(1) == y).float().mean()
    model.train()
    return correct.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(4096, 1024, device=device)
    y = x[:, :10].argmax(1)
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        index = torch.randint(0, 4096 - 512, (256,), device=device)
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if (step + 1) % 100 == 0:
            held = accuracy(model, x[-512:], y[-512:])
            print(f"step {step + 1} loss {loss.item():.4f} held out {held:.4f}")


if __name__ == "__main__":
    main()
