from torch import nn


def model(width, classes=10):
    return nn.Sequential(
        nn.Conv2d(3, 64, 7),
        nn.Conv2d(64, 1, 1),
        nn.Linear(784, 512),
        nn.Linear(512, 10),
        nn.Linear(512, 37),
        nn.Linear(512, classes),
        nn.Linear(width, width * 3),
        nn.Embedding(50304, 768),
        nn.Embedding(2, 768),
    )
