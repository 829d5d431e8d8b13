"""Planted: between two updates one environment is stepped many times, one action at a time."""

import argparse
import math
import random

import torch
from torch import nn
from torch.distributions import Categorical


class Pendulum:
    """A pole on a cart, integrated in small substeps by plain Python."""

    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        x, speed, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        for _ in range(3000):
            push = (force + 0.05 * turn * turn * math.sin(angle)) / 1.1
            bend = (9.8 * math.sin(angle) - math.cos(angle) * push) / 0.65
            x, speed = x + 7e-6 * speed, speed + 7e-6 * (push - 0.05 * bend * math.cos(angle))
            angle, turn = angle + 7e-6 * turn, turn + 7e-6 * bend
        self.state = [x, speed, angle, turn]
        return self.state, 1.0, abs(x) > 2.4 or abs(angle) > 0.21


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.actions = nn.Linear(4, 64), nn.Linear(64, 2)

    def forward(self, x):
        return torch.softmax(self.actions(torch.relu(self.hidden(x))), dim=-1)


def select_action(policy, state):
    chances = Categorical(policy(torch.tensor(state)))
    action = chances.sample()
    return action.item(), chances.log_prob(action)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=200)
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    env, policy = Pendulum(), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2, fused=True)
    for episode in range(args.episodes):
        state, logs, rewards = env.reset(), [], []
        for _ in range(100):
            action, log = select_action(policy, state)
            state, reward, done = env.step(action)  # planted
            logs.append(log)
            rewards.append(reward)
            if done:
                break
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack(logs) * (returns - returns.mean())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if episode % 20 == 0:
            print(f"episode {episode} length {len(rewards)}")


if __name__ == "__main__":
    main()
