from collections import defaultdict

import torch


class Runner:
    def __init__(self):
        self.logs = defaultdict(list)

    def step(self, batch):
        losses = self.model(batch)
        total = sum(losses.values())
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        for key, value in losses.items():
            self.logs[key].append(value)  # found: graph_kept
