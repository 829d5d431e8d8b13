"""Deep Q-learning: an environment between the steps, a target network by hand."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(env.width, 128), nn.ReLU(), nn.Linear(128, env.actions))

    def forward(self, x):
        return self.network(x)


q_network = QNetwork(envs).to(device)
target_network = QNetwork(envs).to(device)
optimizer = optim.Adam(q_network.parameters(), lr=2.5e-4)  # found: unfused_optimizer
obs, _ = envs.reset(seed=1)
for step in range(100000):  # found: full_precision_training, uncompiled_model, constant_learning_rate
    if random.random() < 0.1:
        actions = np.array([envs.sample()])
    else:
        values = q_network(torch.as_tensor(obs, device=device))  # found: eval_with_grad
        actions = torch.argmax(values, dim=1).cpu().numpy()  # found: cpu_in_step
    obs, rewards, ended, stopped, infos = envs.step(actions)
    memory.add(obs, actions, rewards, ended)
    if step > 10000:
        data = memory.sample(128)
        with torch.no_grad():
            best, _ = target_network(data.next).max(dim=1)
        loss = F.mse_loss(data.rewards + 0.99 * best, q_network(data.now).squeeze())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for target, online in zip(target_network.parameters(), q_network.parameters()):  # found: ema_loop
            target.data.copy_(0.005 * online.data + 0.995 * target.data)
