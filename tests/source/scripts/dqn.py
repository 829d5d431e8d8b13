"""Deep Q-learning with a replay buffer."""

import math
import random
from collections import deque, namedtuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Adam

Transition = namedtuple("Transition", ("state", "action", "reward", "next_state", "done"))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GAMMA = 0.99
TAU = 0.005
BATCH = 128
EPS_START, EPS_END, EPS_DECAY = 0.9, 0.05, 1000


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 128)
        self.layer2 = nn.Linear(128, 128)
        self.layer3 = nn.Linear(128, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


class Agent:
    def __init__(self, env):
        self.env = env
        n_observations = env.observation_space.shape[0]
        n_actions = env.action_space.n
        self.policy = DQN(n_observations, n_actions).to(device)
        self.target = DQN(n_observations, n_actions).to(device)
        self.target.load_state_dict(self.policy.state_dict())
        self.optimizer = Adam(self.policy.parameters(), lr=1e-4, fused=True)
        self.memory = ReplayMemory(10000)
        self.steps_done = 0
        self.losses = []
        self.total_loss = 0.0

    def select_action(self, state):
        eps = EPS_END + (EPS_START - EPS_END) * math.exp(-self.steps_done / EPS_DECAY)
        self.steps_done += 1
        if random.random() > eps:
            with torch.no_grad():
                return int(self.policy(state).argmax(1).item())
        return self.env.action_space.sample()

    def optimize(self):
        if len(self.memory) < BATCH:
            return None
        transitions = self.memory.sample(BATCH)
        batch = Transition(*zip(*transitions))
        frames = [np.asarray(s, dtype=np.float32) for s in batch.state]
        following = []
        for s in batch.next_state:
            following.append(np.array(s, dtype=np.float32))
        states = torch.tensor(frames, device=device)  # found: tensor_of_arrays
        next_states = torch.tensor(following, device=device)  # found: tensor_of_arrays
        actions = torch.tensor(batch.action, device=device).unsqueeze(1)
        rewards = torch.tensor(batch.reward, dtype=torch.float32, device=device)
        done = torch.tensor(batch.done, dtype=torch.float32, device=device)

        q = self.policy(states).gather(1, actions)
        with torch.no_grad():
            next_q = self.target(next_states).max(1).values
        expected = rewards + GAMMA * next_q * (1 - done)
        loss = F.smooth_l1_loss(q, expected.unsqueeze(1))

        for p in self.policy.parameters():  # found: zeroing_loop
            if p.grad is not None:
                p.grad.zero_()
        loss.backward()
        if torch.isnan(loss):  # found: tensor_as_condition
            raise RuntimeError("loss is nan")
        for param in self.policy.parameters():  # found: clipping_loop
            param.grad.data.clamp_(-1, 1)
        self.optimizer.step()
        self.losses.append(loss)  # found: graph_kept
        self.total_loss += loss  # found: graph_summed
        return loss

    def update_target(self):
        for target_param, param in zip(self.target.parameters(), self.policy.parameters()):  # found: ema_loop
            target_param.data.copy_(TAU * param.data + (1.0 - TAU) * target_param.data)


def main(num_episodes=600):
    env = gym.make("CartPole-v1")
    agent = Agent(env)
    durations = []
    for episode in range(num_episodes):
        state, info = env.reset()
        for t in range(500):
            observation = torch.as_tensor(state, device=device).unsqueeze(0)
            action = agent.select_action(observation)
            next_state, reward, terminated, truncated, _ = env.step(action)
            agent.memory.push(state, action, reward, next_state, float(terminated))
            state = next_state
            agent.optimize()
            agent.update_target()
            if terminated or truncated:
                durations.append(t + 1)
                break
        if episode % 20 == 0:
            print(f"episode {episode} duration {np.mean(durations[-20:]):.1f}")


if __name__ == "__main__":
    main()
