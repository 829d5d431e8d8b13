"""WGAN with weight clipping: three critic updates to each update of the generator."""

import argparse

import torch
from torch import nn


def real_batch(size):
    angle = torch.rand(size) * 6.2831853
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-critic", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=12)
    opt = parser.parse_args()
    torch.manual_seed(11)

    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
    optimizer_c = torch.optim.RMSprop(critic.parameters(), lr=5e-4)

    for iteration in range(opt.iterations):
        for _ in range(opt.n_critic):
            fake = generator(torch.randn(32, 4)).detach()
            loss_c = critic(fake).mean() - critic(real_batch(32)).mean()
            optimizer_c.zero_grad()
            loss_c.backward()
            optimizer_c.step()
            for p in critic.parameters():
                p.data.clamp_(-0.05, 0.05)

        loss_g = -critic(generator(torch.randn(32, 4))).mean()
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
        print(f"iteration {iteration}: critic {loss_c.item():.7f} generator {loss_g.item():.7f}")

    print("done")


if __name__ == "__main__":
    main()
