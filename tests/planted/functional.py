"""Planted: torch.func's gradients are applied parameter by parameter, to many small ones."""

import argparse

import torch
from torch import nn
from torch.func import functional_call, grad_and_value


def network(depth=60):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(16, 16), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(16, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y = torch.randn(2048, 16), torch.randint(0, 10, (2048,))
    model = network()
    params = {name: p.detach() for name, p in model.named_parameters()}
    speeds = {name: torch.zeros_like(p) for name, p in params.items()}

    def compute_loss(params, x, y):
        return nn.functional.cross_entropy(functional_call(model, params, (x,)), y)

    step_fn = grad_and_value(compute_loss)
    for step in range(args.steps):
        index = torch.randint(0, 2048, (32,))
        grads, loss = step_fn(params, x[index], y[index])
        for name, g in grads.items():  # planted
            speeds[name] = 0.9 * speeds[name] + g + 1e-4 * params[name]
            params[name] = params[name] - 0.01 * (g + 0.9 * speeds[name])
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
