from torch import nn


def blocks(inputs, outputs, norm):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, bias=False),
        nn.BatchNorm2d(outputs),
        nn.Conv2d(outputs, outputs, 3),
        nn.ReLU(),
        nn.BatchNorm2d(outputs),
        nn.Conv2d(outputs, outputs, 3),
        nn.LayerNorm(outputs),
        nn.Conv2d(outputs, outputs, 1, bias=not norm),
        nn.BatchNorm2d(outputs),
        nn.Conv2d(outputs, outputs, 1),
        nn.BatchNorm2d(outputs, track_running_stats=True, affine=True) if norm else nn.Identity(),
        nn.Linear(outputs, outputs),
    )
