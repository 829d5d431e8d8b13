import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 8))
        self.loss = nn.CrossEntropyLoss()

    def step(self, x, y):
        self.net.cuda()  # found: model_moved_in_step
        self.opt.zero_grad()
        self.loss(self.net(x.cuda(non_blocking=True)), y).backward()
        self.opt.step()

    def fit(self, loader):
        for x, y in loader:
            self.step(x, y)
