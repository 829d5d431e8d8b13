"""Segments single images, one at a time, with a helper that keeps the model in a class."""

import torch
from torch import nn


class Segmenter:
    def __init__(self):
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 5, 2, stride=2),
        )
        self.net.train(False)

    @torch.no_grad()
    def __call__(self, image):
        return self.net(image.unsqueeze(0)).argmax(1)[0]


torch.manual_seed(0)
segment = Segmenter()
total = 0
for _ in range(100_000):
    total += int(segment(torch.rand(3, 32, 32)).sum())
print(total)
