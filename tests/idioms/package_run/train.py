"""Run as a module: `python -m package_run.train --width 24`."""

import argparse

import torch

from . import data, model


def main():
    parser = argparse.ArgumentParser(prog="train")
    parser.add_argument("--width", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(17)
    net = model.build(args.width)
    optimizer = torch.optim.NAdam(net.parameters(), lr=1e-2)
    for epoch in range(2):
        for x, y in data.build(batch_size=24):
            loss = torch.nn.functional.smooth_l1_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.6f}")
    print(f"{__package__} width {args.width}")


if __name__ == "__main__":
    main()
