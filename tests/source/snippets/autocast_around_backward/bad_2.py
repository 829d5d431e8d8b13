import torch
from torch import amp


class Trainer:
    def step(self, x, y):
        self.optimizer.zero_grad()
        with amp.autocast("cuda", enabled=self.use_amp):
            loss = self.criterion(self.model(x), y)
            self.scaler.scale(loss).backward()  # found: autocast_around_backward
            self.scaler.step(self.optimizer)
        self.scaler.update()
